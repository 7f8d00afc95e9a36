/* What Haloport needs of a SYCL library, as functions of C.
 *
 * Host code alone: any compiler of C++17 builds it with the headers of DPC++ (PyPI's package intel-sycl-rt), once for
 * each major version of libsycl. Haloport opens it at run time, after the program has loaded that libsycl.
 *
 * Each function that can fail returns a status: HS_OK, or another one, with a text in hs_message(). No exception leaves
 * a function. Objects belong to no thread. What a function returns in `out` is the caller's, and is given back by the
 * function named ..._release.
 */
#ifndef HALOPORT_SYCL_H
#define HALOPORT_SYCL_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* The version of this interface. It grows with each change of a function, a structure or their meaning. */
#define HS_VERSION 3

/* The statuses. */
enum { HS_OK = 0, HS_FAILED = 1, HS_NO_MEMORY = 2, HS_NOT_SUPPORTED = 3, HS_NOT_BUILT = 4 };

/* The kinds of devices. */
enum { HS_GPU = 0, HS_ACCELERATOR = 1, HS_CPU = 2, HS_OTHER_DEVICE = 3 };

/* The backends of DPC++ that Haloport tells apart. */
enum { HS_OPENCL = 1, HS_LEVEL_ZERO = 2, HS_CUDA = 3, HS_HIP = 6 };

/* The kinds of unified shared memory. */
enum { HS_DEVICE = 0, HS_HOST = 1, HS_SHARED = 2, HS_UNKNOWN = -1 };

/* A device in a context. */
typedef struct hs_place hs_place;
/* A queue of a place, by Haloport or by the program. */
typedef struct hs_queue hs_queue;
/* A point in a queue. */
typedef struct hs_event hs_event;
/* A program that was built for a place. */
typedef struct hs_program hs_program;
/* A kernel of a program, without arguments. */
typedef struct hs_kernel hs_kernel;
/* Memory that other processes can map. */
typedef struct hs_export hs_export;

/* The properties of a place. */
typedef struct hs_place_info {
    int32_t backend;
    int32_t kind;
    int32_t host_memory;      /* Whether it has memory of the kind HS_HOST. */
    int32_t shared_memory;    /* The same, HS_SHARED. */
    int32_t double_precision;
    int32_t half_precision;
    int32_t integrated;       /* Whether it is a GPU that shares the memory of the host; 0 in libsycl 8. */
    int32_t number;           /* Of the device, or of the one that it is a part of, among those of its backend. */
    int32_t default_context;  /* Whether it is a whole device in the default context of its platform. */
    int32_t memory_export;    /* Whether other processes can map its memory; 0 in libsycl 8. */
    uint64_t memory_bytes;
    uint64_t compute_units;
    char name[256];
    char driver[256];
} hs_place_info;

/* The properties of a queue. */
typedef struct hs_queue_info {
    int32_t in_order;
    int32_t profiling;
} hs_queue_info;

/* An argument of a kernel: an address, if `bytes` is 0, else a plain value of that many bytes. */
typedef struct hs_argument {
    const void *value;
    size_t bytes;
} hs_argument;

/* HS_VERSION of the file that was compiled. */
int hs_version(void);
/* The text of the last error of this thread. Valid until its next error. */
const char *hs_message(void);

/* The device that a filter string such as "level_zero:gpu:0" names, in the default context of its platform. */
int hs_place_of_filter(const char *filter, hs_place **out);
/* The device and context of a sycl::queue of the program. */
int hs_place_of_queue(const void *sycl_queue, hs_place **out);
/* The only device of a sycl::context of the program. */
int hs_place_of_context(const void *sycl_context, hs_place **out);
/* Whether both are the same device in the same context. */
int hs_place_equal(const hs_place *one, const hs_place *other);
int hs_place_about(const hs_place *place, hs_place_info *info);
/* The native handles of the context and the device, for HS_OPENCL alone: a cl_context with a reference for the caller,
 * and a cl_device_id. */
int hs_place_opencl(const hs_place *place, void **context, void **device);
/* The native handle of the context, for HS_LEVEL_ZERO alone: a ze_context_handle_t, alive as long as the place. */
int hs_place_level_zero(const hs_place *place, void **context);
void hs_place_release(hs_place *place);

/* Memory of a kind, aligned to 64 bytes, not initialised. */
int hs_allocate(const hs_place *place, int32_t kind, size_t bytes, void **out);
void hs_free(const hs_place *place, void *memory);
/* The kind of the memory at an address, HS_UNKNOWN if it is none of the place's context, and whether the place's device
 * owns it or it belongs to no device. */
int hs_memory_at(const hs_place *place, const void *address, int32_t *kind, int32_t *here);

/* Lets other processes of this node map the allocation of the kind HS_DEVICE that begins at an address, or the larger one that
 * it is a part of, until it is released, before the memory is freed. HS_NOT_SUPPORTED in libsycl 8. */
int hs_export_create(const hs_place *place, void *memory, hs_export **out);
/* The bytes by which another process finds the memory, alive as long as this. */
const void *hs_export_token(const hs_export *memory, size_t *bytes);
void hs_export_release(hs_export *memory);
/* Maps memory of another process, by its token. That process keeps the memory until hs_import_close. */
int hs_import_open(const hs_place *place, const void *token, size_t bytes, void **out);
void hs_import_close(const hs_place *place, void *memory);

/* A queue that is in order. The priority is 0, or above or below. */
int hs_queue_create(const hs_place *place, int32_t priority, int32_t profiling, hs_queue **out);
/* A queue around a cl_command_queue of the place, which lives as long. */
int hs_queue_of_opencl(const hs_place *place, void *cl_queue, hs_queue **out);
/* A queue of the program: shares the queue behind a sycl::queue, which may be destroyed then. */
int hs_queue_adopt(const void *sycl_queue, hs_queue **out);
/* The cl_command_queue behind a queue of OpenCL, with a reference for the caller. */
int hs_queue_opencl(const hs_queue *queue, void **cl_queue);
/* Whether it is a queue of the place's device and context. */
int hs_queue_is_of(const hs_queue *queue, const hs_place *place);
int hs_queue_about(const hs_queue *queue, hs_queue_info *info);
/* The sycl::queue, alive as long as this one. */
const void *hs_queue_handle(const hs_queue *queue);
/* Makes the driver begin with the commands of the queue. */
int hs_queue_flush(hs_queue *queue);
/* Blocks until all commands of the queue are complete. */
int hs_queue_wait(hs_queue *queue);
/* The error that SYCL has met in a command of the queue since it was last asked, if any. If `alone` and the queue is empty, also has
 * SYCL give back what it keeps for commands until somebody waits for the queue: no other thread puts a command there meanwhile, since
 * DPC++ (2026.2) may follow an event that is not made yet. Does nothing for a queue of the program. */
int hs_queue_settle(hs_queue *queue, int32_t alone);
void hs_queue_release(hs_queue *queue);

/* Each of these puts one command into a queue, and does not wait for it. In a queue that is out of order, it is ordered
 * with no other command. */
int hs_copy(hs_queue *queue, void *target, const void *source, size_t bytes);
int hs_fill(hs_queue *queue, void *target, int32_t byte, size_t bytes);
/* `global` and `group` are numbers of threads along three axes, the first one being the fastest. */
int hs_launch(hs_queue *queue, const hs_kernel *kernel, const size_t *global, const size_t *group,
              const hs_argument *arguments, size_t count);
/* Puts a barrier into a queue: later commands wait for all earlier ones, and for the events. `out` may be null, else it
 * becomes the event of the barrier. */
int hs_barrier(hs_queue *queue, hs_event *const *events, size_t count, hs_event **out);
/* Sets a byte of the device to 0 behind the events and, in a queue that is in order, behind all earlier commands. `out` as above. */
int hs_mark(hs_queue *queue, void *byte, hs_event *const *events, size_t count, hs_event **out);

/* Blocks until the event is reached. */
int hs_event_wait(hs_event *event);
/* HS_FAILED if a command before it has failed. */
int hs_event_is_reached(const hs_event *event, int32_t *reached);
/* The time at which the event was reached, in nanoseconds, for events of queues with profiling. */
int hs_event_time(const hs_event *event, uint64_t *nanoseconds);
/* The sycl::event, alive as long as this one. */
const void *hs_event_handle(const hs_event *event);
/* The event behind a cl_event, of which it takes a reference; for places with HS_OPENCL alone. */
int hs_event_of_opencl(const hs_place *place, void *cl_event, hs_event **out);
/* The event behind a ze_event_handle_t, which stays the caller's; for places with HS_LEVEL_ZERO alone. */
int hs_event_of_level_zero(const hs_place *place, void *ze_event, hs_event **out);
void hs_event_release(hs_event *event);

/* Builds a SPIR-V module. After HS_NOT_BUILT, the message is the compiler's log. */
int hs_program_of_spirv(const hs_place *place, const void *module, size_t bytes, hs_program **out);
/* Builds a text in OpenCL C; HS_NOT_SUPPORTED if DPC++ finds no compiler for it. */
int hs_program_of_opencl_c(const hs_place *place, const char *text, const char *options, hs_program **out);
void hs_program_release(hs_program *program);
/* A kernel of a program; HS_FAILED if it has none of that name. */
int hs_kernel_of(const hs_program *program, const char *name, hs_kernel **out);
/* The kernel behind a cl_kernel, of which it takes a reference; for places with HS_OPENCL alone. */
int hs_kernel_of_opencl(const hs_place *place, void *cl_kernel, hs_kernel **out);
/* The sycl::kernel, alive as long as this one. */
const void *hs_kernel_handle(const hs_kernel *kernel);
/* The number of its parameters. */
int hs_kernel_parameters(const hs_kernel *kernel, uint32_t *count);
void hs_kernel_release(hs_kernel *kernel);

#ifdef __cplusplus
}
#endif

#endif
