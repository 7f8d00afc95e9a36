// The functions of haloport_sycl.h, by DPC++'s SYCL.

#include "haloport_sycl.h"

#include <algorithm>
#include <cstring>
#include <exception>
#include <memory>
#include <mutex>
#include <new>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <sycl/sycl.hpp>
#include <sycl/backend/opencl.hpp>
#include <sycl/ext/oneapi/backend/level_zero.hpp>

#if __has_include(<sycl/ext/oneapi/experimental/ipc_memory.hpp>)
#include <sycl/ext/oneapi/experimental/ipc_memory.hpp>
#define HS_HAS_EXPORTS
#endif

namespace experimental = sycl::ext::oneapi::experimental;
using Bundle = sycl::kernel_bundle<sycl::bundle_state::executable>;

// The errors that a queue of Haloport reports later: the first one, until somebody asks.
struct LateErrors {
    std::mutex mutex;
    std::string first;

    void add(sycl::exception_list errors) {
        for (const std::exception_ptr &error : errors) {
            std::string text = "an exception of an unknown type";
            try {
                std::rethrow_exception(error);
            } catch (const std::exception &known) {
                text = known.what();
            } catch (...) {
            }
            std::lock_guard<std::mutex> lock(mutex);
            if (first.empty()) first = text;
        }
    }

    std::string take() {
        std::lock_guard<std::mutex> lock(mutex);
        return std::exchange(first, std::string());
    }
};

struct hs_place {
    sycl::context context;
    sycl::device device;
};

struct hs_queue {
    sycl::queue queue;
    // Null for a queue of the program, whose errors go to its own handler.
    std::shared_ptr<LateErrors> late;
};

struct hs_event {
    // The queue of the event. DPC++'s first adapter for Level Zero follows the address of a queue that is gone when it
    // waits for an event, and waits for all work of a queue that it destroys. Empty for an event that the program made.
    std::optional<sycl::queue> queue;
    sycl::event event;
};

struct hs_program {
    Bundle bundle;
};

struct hs_kernel {
    sycl::kernel kernel;
};

struct hs_export {
#ifdef HS_HAS_EXPORTS
    sycl::context context;
    experimental::ipc::handle handle;
#endif
    std::vector<std::byte> token;
};

namespace {

thread_local std::string last_message;

int failed(int status, std::string text) {
    last_message = std::move(text);
    return status;
}

int status_of(LateErrors &late) {
    const std::string text = late.take();
    return text.empty() ? int(HS_OK) : failed(HS_FAILED, text);
}

// Runs `action`, and makes a status of an exception: no exception leaves this file.
template <class Action>
int guarded(Action action) {
    last_message.clear();
    try {
        return action();
    } catch (const std::bad_alloc &) {
        return HS_NO_MEMORY;
    } catch (const sycl::exception &error) {
        try {
            if (error.code() == sycl::errc::memory_allocation) return failed(HS_NO_MEMORY, error.what());
            if (error.code() == sycl::errc::build) return failed(HS_NOT_BUILT, error.what());
            if (error.code() == sycl::errc::feature_not_supported) return failed(HS_NOT_SUPPORTED, error.what());
            return failed(HS_FAILED, error.what());
        } catch (...) {
            return HS_FAILED;
        }
    } catch (const std::exception &error) {
        try {
            return failed(HS_FAILED, error.what());
        } catch (...) {
            return HS_FAILED;
        }
    } catch (...) {
        return HS_FAILED;
    }
}

template <size_t length>
void copy_text(char (&to)[length], const std::string &from) {
    const size_t bytes = std::min(from.size(), length - 1);
    std::memcpy(to, from.data(), bytes);
    to[bytes] = 0;
}

const sycl::queue &queue_at(const void *address) { return *static_cast<const sycl::queue *>(address); }

// The default context of a device's platform, or one of the device alone where the platform has none.
sycl::context default_context(const sycl::device &device) {
    return device.get_platform().khr_get_default_context();
}

int kind_of(const sycl::device &device) {
    if (device.is_gpu()) return HS_GPU;
    if (device.is_accelerator()) return HS_ACCELERATOR;
    return device.is_cpu() ? HS_CPU : HS_OTHER_DEVICE;
}

// The device that this one is a part of, or itself.
sycl::device whole(const sycl::device &device) {
    sycl::device found = device;
    while (found.get_info<sycl::info::device::partition_type_property>() !=
           sycl::info::partition_property::no_partition) {
        found = found.get_info<sycl::info::device::parent_device>();
    }
    return found;
}

// The number of a whole device among those of its backend, as in filter strings.
int number_of(const sycl::device &device) {
    int number = 0;
    for (const sycl::device &other : sycl::device::get_devices()) {
        if (other == device) break;
        number += other.get_backend() == device.get_backend();
    }
    return number;
}

int is_opencl(const hs_place &place) {
    if (place.context.get_backend() == sycl::backend::opencl) return HS_OK;
    return failed(HS_NOT_SUPPORTED, "the context is not one of the OpenCL backend");
}

constexpr sycl::backend level_zero = sycl::backend::ext_oneapi_level_zero;

int is_level_zero(const hs_place &place) {
    if (place.context.get_backend() == level_zero) return HS_OK;
    return failed(HS_NOT_SUPPORTED, "the context is not one of the Level Zero backend");
}

} // namespace

extern "C" {

int hs_version(void) { return HS_VERSION; }

const char *hs_message(void) { return last_message.c_str(); }

int hs_place_of_filter(const char *filter, hs_place **out) {
    return guarded([&] {
        const sycl::device device(sycl::ext::oneapi::filter_selector{std::string(filter)});
        *out = new hs_place{default_context(device), device};
        return HS_OK;
    });
}

int hs_place_of_queue(const void *sycl_queue, hs_place **out) {
    return guarded([&] {
        const sycl::queue &queue = queue_at(sycl_queue);
        *out = new hs_place{queue.get_context(), queue.get_device()};
        return HS_OK;
    });
}

int hs_place_of_context(const void *sycl_context, hs_place **out) {
    return guarded([&] {
        const sycl::context &context = *static_cast<const sycl::context *>(sycl_context);
        const std::vector<sycl::device> devices = context.get_devices();
        if (devices.size() != 1) {
            return failed(HS_FAILED, "the context has " + std::to_string(devices.size()) +
                                         " devices: pass a queue, which has one of them");
        }
        *out = new hs_place{context, devices[0]};
        return int(HS_OK);
    });
}

int hs_place_equal(const hs_place *one, const hs_place *other) {
    return one->context == other->context && one->device == other->device;
}

int hs_place_about(const hs_place *place, hs_place_info *info) {
    return guarded([&] {
        const sycl::device &device = place->device;
        *info = {};
        info->backend = static_cast<int32_t>(place->context.get_backend());
        info->kind = kind_of(device);
        info->host_memory = device.has(sycl::aspect::usm_host_allocations);
        info->shared_memory = device.has(sycl::aspect::usm_shared_allocations);
        info->double_precision = device.has(sycl::aspect::fp64);
        info->half_precision = device.has(sycl::aspect::fp16);
#if __LIBSYCL_MAJOR_VERSION >= 9
        info->integrated = device.has(sycl::aspect::ext_oneapi_is_integrated_gpu);
#endif
#ifdef HS_HAS_EXPORTS
        info->memory_export = device.has(sycl::aspect::ext_oneapi_ipc_memory);
#endif
        const sycl::device all = whole(device);
        info->number = number_of(all);
        info->default_context = all == device && place->context == default_context(device);
        info->memory_bytes = device.get_info<sycl::info::device::global_mem_size>();
        info->compute_units = device.get_info<sycl::info::device::max_compute_units>();
        copy_text(info->name, device.get_info<sycl::info::device::name>());
        copy_text(info->driver, device.get_platform().get_info<sycl::info::platform::name>() + " " +
                                    device.get_info<sycl::info::device::driver_version>());
        return HS_OK;
    });
}

int hs_place_opencl(const hs_place *place, void **context, void **device) {
    return guarded([&] {
        if (const int status = is_opencl(*place)) return status;
        // get_native takes a reference to each for the caller; a cl_device_id of a whole device counts none.
        *device = sycl::get_native<sycl::backend::opencl>(place->device);
        *context = sycl::get_native<sycl::backend::opencl>(place->context);
        return int(HS_OK);
    });
}

int hs_place_level_zero(const hs_place *place, void **context) {
    return guarded([&] {
        if (const int status = is_level_zero(*place)) return status;
        *context = sycl::get_native<level_zero>(place->context);
        return int(HS_OK);
    });
}

void hs_place_release(hs_place *place) { delete place; }

int hs_allocate(const hs_place *place, int32_t kind, size_t bytes, void **out) {
    constexpr size_t alignment = 64;
    return guarded([&] {
        const sycl::usm::alloc known = kind == HS_DEVICE ? sycl::usm::alloc::device
                                       : kind == HS_HOST ? sycl::usm::alloc::host
                                                         : sycl::usm::alloc::shared;
        *out = sycl::aligned_alloc(alignment, bytes, place->device, place->context, known);
        return *out ? int(HS_OK) : failed(HS_NO_MEMORY, "the device has not enough memory");
    });
}

void hs_free(const hs_place *place, void *memory) {
    guarded([&] {
        sycl::free(memory, place->context);
        return HS_OK;
    });
}

int hs_memory_at(const hs_place *place, const void *address, int32_t *kind, int32_t *here) {
    return guarded([&] {
        const sycl::usm::alloc found = sycl::get_pointer_type(address, place->context);
        *kind = found == sycl::usm::alloc::device   ? HS_DEVICE
                : found == sycl::usm::alloc::host   ? HS_HOST
                : found == sycl::usm::alloc::shared ? HS_SHARED
                                                    : HS_UNKNOWN;
        *here = *kind == HS_HOST ||
                (*kind != HS_UNKNOWN && sycl::get_pointer_device(address, place->context) == place->device);
        return HS_OK;
    });
}

#ifdef HS_HAS_EXPORTS
namespace memory_of = experimental::ipc::memory;

int hs_export_create(const hs_place *place, void *memory, hs_export **out) {
    return guarded([&] {
        experimental::ipc::handle handle = memory_of::get(memory, place->context);
        *out = new hs_export{place->context, handle, handle.data()};
        return HS_OK;
    });
}

void hs_export_release(hs_export *memory) {
    guarded([&] {
        memory_of::put(memory->handle, memory->context);
        return HS_OK;
    });
    delete memory;
}

int hs_import_open(const hs_place *place, const void *token, size_t bytes, void **out) {
    return guarded([&] {
        const auto *begin = static_cast<const std::byte *>(token);
        *out = memory_of::open(experimental::ipc::handle_data_t(begin, begin + bytes), place->context, place->device);
        // DPC++'s first adapter for Level Zero returns null, and no error.
        return *out ? int(HS_OK) : failed(HS_FAILED, "the driver has not mapped the memory");
    });
}

void hs_import_close(const hs_place *place, void *memory) {
    guarded([&] {
        memory_of::close(memory, place->context);
        return HS_OK;
    });
}
#else
namespace {

int without_exports() {
    return failed(HS_NOT_SUPPORTED, "this version of libsycl shares no memory with other processes");
}

} // namespace

int hs_export_create(const hs_place *, void *, hs_export **) { return guarded(without_exports); }

void hs_export_release(hs_export *memory) { delete memory; }

int hs_import_open(const hs_place *, const void *, size_t, void **) { return guarded(without_exports); }

void hs_import_close(const hs_place *, void *) {}
#endif

const void *hs_export_token(const hs_export *memory, size_t *bytes) {
    *bytes = memory->token.size();
    return memory->token.data();
}

int hs_queue_create(const hs_place *place, int32_t priority, int32_t profiling, hs_queue **out) {
    namespace property = sycl::property::queue;
    namespace more = sycl::ext::oneapi::property::queue;
    return guarded([&] {
        const auto late = std::make_shared<LateErrors>();
        const auto handler = [late](sycl::exception_list errors) { late->add(errors); };
        const auto made = [&](const sycl::property_list &properties) {
            *out = new hs_queue{sycl::queue(place->context, place->device, handler, properties), late};
        };
        if (profiling) {
            made({property::in_order{}, property::enable_profiling{}});
        } else if (priority > 0) {
            made({property::in_order{}, more::priority_high{}});
        } else if (priority < 0) {
            made({property::in_order{}, more::priority_low{}});
        } else {
            made({property::in_order{}});
        }
        return HS_OK;
    });
}

int hs_queue_of_opencl(const hs_place *place, void *cl_queue, hs_queue **out) {
    return guarded([&] {
        if (const int status = is_opencl(*place)) return status;
        const auto native = static_cast<::cl_command_queue>(cl_queue);
        *out = new hs_queue{sycl::make_queue<sycl::backend::opencl>(native, place->context), nullptr};
        return int(HS_OK);
    });
}

int hs_queue_adopt(const void *sycl_queue, hs_queue **out) {
    return guarded([&] {
        *out = new hs_queue{queue_at(sycl_queue), nullptr};
        return HS_OK;
    });
}

int hs_queue_opencl(const hs_queue *queue, void **cl_queue) {
    return guarded([&] {
        *cl_queue = sycl::get_native<sycl::backend::opencl>(queue->queue);
        return HS_OK;
    });
}

int hs_queue_is_of(const hs_queue *queue, const hs_place *place) {
    return queue->queue.get_context() == place->context && queue->queue.get_device() == place->device;
}

int hs_queue_about(const hs_queue *queue, hs_queue_info *info) {
    return guarded([&] {
        info->in_order = queue->queue.is_in_order();
        info->profiling = queue->queue.has_property<sycl::property::queue::enable_profiling>();
        return HS_OK;
    });
}

const void *hs_queue_handle(const hs_queue *queue) { return &queue->queue; }

int hs_queue_flush(hs_queue *queue) {
    return guarded([&] {
        queue->queue.ext_oneapi_prod();
        return HS_OK;
    });
}

int hs_queue_wait(hs_queue *queue) {
    return guarded([&] {
        if (!queue->late) {
            queue->queue.wait();
            return int(HS_OK);
        }
        queue->queue.wait_and_throw();
        return status_of(*queue->late);
    });
}

int hs_queue_settle(hs_queue *queue, int32_t alone) {
    return guarded([&] {
        if (!queue->late) return int(HS_OK);
        if (alone && queue->queue.ext_oneapi_empty()) queue->queue.wait();
        queue->queue.throw_asynchronous();
        return status_of(*queue->late);
    });
}

void hs_queue_release(hs_queue *queue) { delete queue; }

int hs_copy(hs_queue *queue, void *target, const void *source, size_t bytes) {
    return guarded([&] {
        queue->queue.memcpy(target, source, bytes);
        return HS_OK;
    });
}

int hs_fill(hs_queue *queue, void *target, int32_t byte, size_t bytes) {
    return guarded([&] {
        queue->queue.memset(target, byte, bytes);
        return HS_OK;
    });
}

int hs_launch(hs_queue *queue, const hs_kernel *kernel, const size_t *global, const size_t *group,
              const hs_argument *arguments, size_t count) {
    return guarded([&] {
        queue->queue.submit([&](sycl::handler &handler) {
            for (size_t index = 0; index < count; index++) {
                const hs_argument &argument = arguments[index];
                if (argument.bytes == 0) {
                    handler.set_arg(int(index), const_cast<void *>(argument.value));
                } else {
                    handler.set_arg(int(index), experimental::raw_kernel_arg(argument.value, argument.bytes));
                }
            }
            // SYCL's last axis is the fastest.
            const sycl::nd_range<3> range({global[2], global[1], global[0]}, {group[2], group[1], group[0]});
            handler.parallel_for(range, kernel->kernel);
        });
        return HS_OK;
    });
}

int hs_barrier(hs_queue *queue, hs_event *const *events, size_t count, hs_event **out) {
    return guarded([&] {
        sycl::queue &to = queue->queue;
        sycl::event barrier;
        if (count == 0) {
            barrier = to.ext_oneapi_submit_barrier();
        } else {
            std::vector<sycl::event> list;
            for (size_t index = 0; index < count; index++) list.push_back(events[index]->event);
            // A barrier with a list waits for the list alone. In a queue that is out of order, the commands before it
            // are added, and a barrier behind it holds later commands back.
            if (!to.is_in_order()) list.push_back(to.ext_oneapi_submit_barrier());
            barrier = to.ext_oneapi_submit_barrier(list);
            if (!to.is_in_order()) barrier = to.ext_oneapi_submit_barrier();
        }
        if (out) *out = new hs_event{to, barrier};
        return HS_OK;
    });
}

int hs_mark(hs_queue *queue, void *byte, hs_event *const *events, size_t count, hs_event **out) {
    return guarded([&] {
        std::vector<sycl::event> list;
        for (size_t index = 0; index < count; index++) list.push_back(events[index]->event);
        const sycl::event mark = queue->queue.memset(byte, 0, 1, list);
        if (out) *out = new hs_event{queue->queue, mark};
        return HS_OK;
    });
}

int hs_event_wait(hs_event *event) {
    return guarded([&] {
        event->event.wait();
        return HS_OK;
    });
}

int hs_event_is_reached(const hs_event *event, int32_t *reached) {
    return guarded([&] {
        using sycl::info::event_command_status;
        sycl::event asked = event->event;
        const auto status = asked.get_info<sycl::info::event::command_execution_status>();
        *reached = status == event_command_status::complete;
        const bool goes_on = status == event_command_status::submitted || status == event_command_status::running;
        if (*reached || goes_on) return int(HS_OK);
        // OpenCL's status of an event that failed. The wait throws what has failed.
        asked.wait();
        return failed(HS_FAILED, "a command before an event has failed");
    });
}

int hs_event_time(const hs_event *event, uint64_t *nanoseconds) {
    return guarded([&] {
        *nanoseconds = event->event.get_profiling_info<sycl::info::event_profiling::command_end>();
        return HS_OK;
    });
}

const void *hs_event_handle(const hs_event *event) { return &event->event; }

int hs_event_of_opencl(const hs_place *place, void *cl_event, hs_event **out) {
    return guarded([&] {
        if (const int status = is_opencl(*place)) return status;
        const std::vector<::cl_event> native{static_cast<::cl_event>(cl_event)};
        *out = new hs_event{std::nullopt, sycl::make_event<sycl::backend::opencl>(native, place->context)};
        return int(HS_OK);
    });
}

int hs_event_of_level_zero(const hs_place *place, void *ze_event, hs_event **out) {
    return guarded([&] {
        if (const int status = is_level_zero(*place)) return status;
        const sycl::backend_input_t<level_zero, sycl::event> native{
            static_cast<ze_event_handle_t>(ze_event), sycl::ext::oneapi::level_zero::ownership::keep};
        *out = new hs_event{std::nullopt, sycl::make_event<level_zero>(native, place->context)};
        return int(HS_OK);
    });
}

void hs_event_release(hs_event *event) { delete event; }

int hs_program_of_spirv(const hs_place *place, const void *module, size_t bytes, hs_program **out) {
    return guarded([&] {
        const auto *begin = static_cast<const std::byte *>(module);
        const std::vector<std::byte> words(begin, begin + bytes);
        auto source = experimental::create_kernel_bundle_from_source(
            place->context, experimental::source_language::spirv, words);
        *out = new hs_program{experimental::build(source, {place->device})};
        return HS_OK;
    });
}

int hs_program_of_opencl_c(const hs_place *place, const char *text, const char *options, hs_program **out) {
    constexpr auto language = experimental::source_language::opencl;
    return guarded([&] {
        sycl::device device = place->device;
        if (!device.ext_oneapi_can_build(language)) {
            return failed(HS_NOT_SUPPORTED, "DPC++ finds no compiler of OpenCL C (libocloc) for this device");
        }
        auto source =
            experimental::create_kernel_bundle_from_source(place->context, language, std::string(text));
        const experimental::properties chosen{
            experimental::build_options{std::vector<std::string>{options}}};
        *out = new hs_program{experimental::build(source, {device}, chosen)};
        return int(HS_OK);
    });
}

void hs_program_release(hs_program *program) { delete program; }

int hs_kernel_of(const hs_program *program, const char *name, hs_kernel **out) {
    return guarded([&] {
        Bundle bundle = program->bundle;
        *out = new hs_kernel{bundle.ext_oneapi_get_kernel(std::string(name))};
        return HS_OK;
    });
}

int hs_kernel_of_opencl(const hs_place *place, void *cl_kernel, hs_kernel **out) {
    return guarded([&] {
        if (const int status = is_opencl(*place)) return status;
        const auto native = static_cast<::cl_kernel>(cl_kernel);
        *out = new hs_kernel{sycl::make_kernel<sycl::backend::opencl>(native, place->context)};
        return int(HS_OK);
    });
}

const void *hs_kernel_handle(const hs_kernel *kernel) { return &kernel->kernel; }

int hs_kernel_parameters(const hs_kernel *kernel, uint32_t *count) {
    return guarded([&] {
        *count = kernel->kernel.get_info<sycl::info::kernel::num_args>();
        return HS_OK;
    });
}

void hs_kernel_release(hs_kernel *kernel) { delete kernel; }

} // extern "C"
