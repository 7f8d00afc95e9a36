// Haloport for C++17, over haloport.h, which describes the calls. Header only.
//
//   auto comm = haloport::communicator::mpi(MPI_COMM_WORLD);
//   auto cells = haloport::pattern::split(comm, grid);
//   haloport::plan update(cells, u, v);            // collective; Kokkos::View, std::mdspan, or what `describe` takes
//   update(u, v);                                  // any views of these layouts
//   auto pending = update.start(u, v, haloport::on(stream));
//   interior(u, v);
//   pending.finish();
//
// Objects can be moved, not copied. Calls that fail throw `haloport::error`; destructors do not throw. Destructors of plans,
// exchanges and lines on a thread that may not call MPI leave what is in flight as it was, and log it as an error. Finish what is
// pending on the right thread: later, only the destructor of its plan, exchange or line ends it.
#ifndef HALOPORT_HPP
#define HALOPORT_HPP

#include <array>
#include <complex>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <exception>
#include <memory>
#include <mutex>
#include <optional>
#include <stdexcept>
#include <string>
#include <thread>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

#include "haloport.h"

namespace haloport {

/// Why a call failed: a status and its text. All else that comes out of this header is of the standard library, such as
/// std::bad_alloc.
class error : public std::runtime_error {
public:
    /// The last failure of a call of haloport.h on this thread.
    explicit error(hp_status status) : std::runtime_error(hp_message()), status_(status) {}
    error(hp_status status, const std::string &text) : std::runtime_error("haloport: " + text), status_(status) {}
    hp_status status() const noexcept { return status_; }

private:
    hp_status status_;
};

/// Throws if a call of haloport.h has failed.
inline void check(hp_status status) {
    if (status != HP_OK) throw error(status);
}

namespace detail {

template <class T, hp_status (*Free)(T *)>
struct freed_by {
    void operator()(T *handle) const noexcept { Free(handle); }
};

template <class T, hp_status (*Free)(T *)>
using handle = std::unique_ptr<T, freed_by<T, Free>>;

template <class Call>
std::string text(Call call) {
    std::size_t bytes = 0;
    check(call(nullptr, &bytes));
    for (;;) {
        std::string found(bytes, '\0');
        std::size_t room = bytes;
        check(call(found.data(), &room));
        if (room <= bytes) {
            found.resize(room - 1);
            return found;
        }
        bytes = room;
    }
}

template <class T>
constexpr bool always_false = false;

inline void check_length(const std::string &name, std::size_t found, std::size_t expected) {
    if (found != expected)
        throw error(HP_ARGUMENT, name + ": expected this number of values: " + std::to_string(expected) + ", found " +
                                     std::to_string(found));
}

// std::mdspan has data_handle(), Kokkos::View data().
template <class V, class = void>
struct has_data_handle : std::false_type {};
template <class V>
struct has_data_handle<V, std::void_t<decltype(std::declval<const V &>().data_handle())>> : std::true_type {};

// A function in std::mdspan, a constant in some views.
template <class V, class = void>
struct has_rank_function : std::false_type {};
template <class V>
struct has_rank_function<V, std::void_t<decltype(V::rank())>> : std::true_type {};

template <class V>
auto *data_of(const V &view) {
    if constexpr (has_data_handle<V>::value) {
        return view.data_handle();
    } else {
        return view.data();
    }
}

// Whether a view says where its elements lie, as std::vector, for example, does not.
template <class V, class = void>
struct has_layout : std::false_type {};
template <class V>
struct has_layout<V, std::void_t<decltype(std::declval<const V &>().extent(0)), decltype(std::declval<const V &>().stride(0))>>
    : std::true_type {};

// Refuses types whose bytes mean nothing on another rank.
template <class T>
constexpr void assert_plain() {
    static_assert(std::is_trivially_copyable_v<T>, "values are copied byte by byte");
    static_assert(!std::is_pointer_v<T>, "an address means nothing on another rank: pass a value, a std::array or a std::vector");
}

// Whether values lie in a row whose length can change.
template <class T>
struct is_row : std::false_type {};
template <class T>
struct is_row<std::vector<T>> : std::true_type {
    static_assert(std::is_trivially_copyable_v<T> && !std::is_pointer_v<T>, "values are copied byte by byte");
    static_assert(!std::is_same_v<T, bool>, "a std::vector of bool has no bytes: use char or int");
};
template <>
struct is_row<std::string> : std::true_type {};

template <class V>
constexpr int rank_of() {
    if constexpr (has_rank_function<V>::value) {
        return static_cast<int>(V::rank());
    } else {
        return static_cast<int>(V::rank);
    }
}

} // namespace detail

/// The type of an element; records are HP_BYTES.
template <class T>
constexpr hp_type type_of() {
    static_assert(std::is_trivially_copyable_v<T>, "elements travel as bytes, so they must be trivially copyable");
    constexpr std::size_t bytes = sizeof(T);
    if constexpr (std::is_same_v<T, std::complex<float>>) return HP_C64;
    if constexpr (std::is_same_v<T, std::complex<double>>) return HP_C128;
    if constexpr (std::is_floating_point_v<T> && bytes == 4) return HP_F32;
    if constexpr (std::is_floating_point_v<T> && bytes == 8) return HP_F64;
    if constexpr (std::is_integral_v<T> && bytes <= 8) {
        constexpr int size = bytes == 1 ? 0 : bytes == 2 ? 1 : bytes == 4 ? 2 : 3;
        return static_cast<hp_type>((std::is_signed_v<T> ? HP_I8 : HP_U8) + size);
    }
    return HP_BYTES;
}

/// The description of an array: of anything with extent(i), stride(i) in elements, a rank known at compile time, and data() or
/// data_handle(). `roles` says what each axis is; by default the axes of the pattern come first, then levels. There
/// are no roles, or one for each axis.
template <class V>
hp_array describe(const V &view, const std::vector<int> &roles = {}) {
    static_assert(detail::has_layout<V>::value, "a view has extent(axis) and stride(axis); describe others by an hp_array");
    using element = std::remove_cv_t<std::remove_pointer_t<decltype(detail::data_of(view))>>;
    static_assert(detail::rank_of<V>() <= 8, "arrays have at most 8 axes");
    if (!roles.empty()) detail::check_length("roles", roles.size(), detail::rank_of<V>());
    hp_array made = HP_ARRAY_INIT;
    made.type = type_of<element>();
    made.element_bytes = static_cast<std::int32_t>(sizeof(element));
    made.axes = detail::rank_of<V>();
    for (int axis = 0; axis < made.axes; axis++) {
        made.extent[axis] = static_cast<std::int64_t>(view.extent(axis));
        made.stride[axis] = static_cast<std::int64_t>(view.stride(axis)) * static_cast<std::int64_t>(sizeof(element));
    }
    for (std::size_t axis = 0; axis < roles.size(); axis++) made.role[axis] = roles[axis];
    return made;
}

/// An array that is described already.
inline const hp_array &describe(const hp_array &array) { return array; }

/// A view of a field of another pattern than that of its plan, as an argument of the constructors of plans and of `plan::fixed`; roles as in
/// `describe`. Calls of the plan take the view itself.
template <class V>
struct field_of {
    const hp_pattern *pattern;
    const V &view;
    std::vector<int> roles;
};

template <class Pattern, class V>
field_of<V> of(const Pattern &pattern, const V &view, const std::vector<int> &roles = {}) {
    return {pattern.get(), view, roles};
}

template <class V>
hp_array describe(const field_of<V> &field) {
    hp_array made = describe(field.view, field.roles);
    made.of = field.pattern;
    return made;
}

/// The version and the devices of this machine, as JSON.
inline std::string describe_machine() { return detail::text(hp_describe); }

/// The ranks of a program, seen from one of them.
class communicator {
public:
    /// Takes a handle of haloport.h, which it frees.
    explicit communicator(hp_comm *taken) : handle_(taken) {}

    /// The ranks of a communicator of MPI. Collective.
    template <class Comm>
    static communicator mpi(const Comm &comm) {
        hp_comm *made = nullptr;
        check(hp_comm_mpi(&comm, sizeof comm, &made));
        return communicator(made);
    }

    /// Ranks that are threads of this process, one for each.
    static std::vector<communicator> threads(int ranks) {
        std::vector<hp_comm *> made(ranks > 0 ? static_cast<std::size_t>(ranks) : 0);
        check(hp_comm_threads(ranks, made.data()));
        return std::vector<communicator>(made.begin(), made.end());
    }

    int rank() const {
        std::int32_t found = 0;
        check(hp_comm_rank(get(), &found));
        return found;
    }
    int size() const {
        std::int32_t found = 0;
        check(hp_comm_size(get(), &found));
        return found;
    }
    /// In seconds; 0 for none.
    void set_time_limit(double seconds) { check(hp_comm_set_time_limit(get(), seconds)); }
    /// After which a wait is a warning, in seconds; 0 for never.
    void set_warn_after(double seconds) { check(hp_comm_set_warn_after(get(), seconds)); }
    /// Collective.
    void barrier() { check(hp_comm_barrier(get())); }
    /// The sum (HP_SUM), the smallest (HP_MIN) or the largest (HP_MAX) of the values of all ranks: std::int64_t, std::uint64_t,
    /// float or double. Collective.
    template <class T>
    T all_reduce(T value, int reduction) {
        check(hp_comm_all_reduce(get(), reduction, type_of<T>(), 1, &value));
        return value;
    }
    /// The sum of the values of all ranks, of any number on each, rounded once: the same bits on any number of ranks. Of anything
    /// contiguous with data() and size() whose elements are float or double. Several sums in one message: hp_comm_sum_exact.
    /// Collective.
    template <class V>
    double sum_exact(const V &values) {
        return sum_exact(values.data(), values.size(), static_cast<decltype(values.data())>(nullptr));
    }
    /// The sum of the products of the values and as many weights, which are not rounded. Collective.
    template <class V, class W>
    double sum_exact(const V &values, const W &weights) {
        if (values.size() != weights.size()) {
            hp_comm_sum_exact(get(), HP_F64, -1, nullptr, nullptr, nullptr, nullptr); // the other ranks learn of it
            detail::check_length("weights", weights.size(), values.size());
        }
        return sum_exact(values.data(), values.size(), weights.data());
    }
    /// The value of rank `root`, on all ranks. Of any type that is copied byte by byte, such as a struct of numbers; or a
    /// std::vector of these or a std::string, whose length before the call may differ between ranks. Collective.
    template <class T>
    [[nodiscard]] T broadcast(T value, int root = 0) {
        if constexpr (detail::is_row<T>::value) {
            const auto length = static_cast<std::size_t>(broadcast(static_cast<std::uint64_t>(value.size()), root));
            try {
                value.resize(length);
            } catch (...) {
                hp_comm_broadcast(get(), root, -1, nullptr); // the other ranks learn of it
                throw;
            }
            const std::size_t bytes = value.size() * sizeof(typename T::value_type);
            check(hp_comm_broadcast(get(), root, static_cast<std::int64_t>(bytes), value.data()));
        } else {
            detail::assert_plain<T>();
            check(hp_comm_broadcast(get(), root, sizeof value, &value));
        }
        return value;
    }
    /// The values of all ranks on rank `root`, in the order of the ranks; on others, none. Of any type that is copied byte by byte and
    /// made without arguments, except bool. Collective.
    template <class T>
    [[nodiscard]] std::vector<T> gather(const T &value, int root = 0) {
        detail::assert_plain<T>();
        static_assert(!std::is_same_v<T, bool>, "a std::vector of bool has no bytes: use char or int");
        std::vector<T> all;
        try {
            all.resize(rank() == root ? static_cast<std::size_t>(size()) : 0);
        } catch (...) {
            hp_comm_gather(get(), root, -1, nullptr, nullptr); // the other ranks learn of it
            throw;
        }
        check(hp_comm_gather(get(), root, sizeof value, &value, all.data()));
        return all;
    }
    hp_comm *get() const noexcept { return handle_.get(); }

private:
    template <class T>
    double sum_exact(const T *values, std::size_t count, const T *weights) {
        static_assert(std::is_same_v<T, float> || std::is_same_v<T, double>, "exact sums are of float or double");
        const std::int64_t counts = static_cast<std::int64_t>(count);
        const void *const of = values, *const by = weights;
        double sum = 0;
        check(hp_comm_sum_exact(get(), type_of<T>(), 1, &counts, &of, &by, &sum));
        return sum;
    }

    detail::handle<hp_comm, hp_comm_free> handle_;
};

/// Runs `body(comm)` on this many ranks, each a thread of this process with a communicator of its own, and returns when all have
/// ended. If ranks throw, waits of the others for them fail, and the first exception is thrown here.
template <class Body>
void run_ranks(int ranks, Body &&body) {
    std::vector<communicator> comms = communicator::threads(ranks);
    std::exception_ptr first;
    std::mutex lock;
    const auto run = [&](communicator comm) {
        try {
            body(comm);
        } catch (...) {
            // Before the communicator ends, and others fail for that.
            const std::lock_guard<std::mutex> locked(lock);
            if (!first) first = std::current_exception();
        }
    };
    std::vector<std::thread> threads;
    try {
        for (communicator &comm : comms) threads.emplace_back(run, std::move(comm));
    } catch (...) {
        const std::lock_guard<std::mutex> locked(lock);
        if (!first) first = std::current_exception();
    }
    comms.clear(); // of ranks whose thread could not be started
    for (std::thread &thread : threads) thread.join();
    if (first) std::rethrow_exception(first);
}

/// Which cells each rank owns; or a redistribution between two patterns.
class pattern {
public:
    /// Takes a handle of haloport.h, which it frees.
    explicit pattern(hp_pattern *taken) : handle_(taken) {}

    /// A grid that is split evenly. Collective.
    static pattern split(const communicator &comm, const hp_grid &grid) {
        hp_pattern *made = nullptr;
        check(hp_pattern_grid(comm.get(), &grid, HP_SPLIT, nullptr, &made));
        return pattern(made);
    }

    /// A grid of which this rank owns these boxes. Collective.
    static pattern grid(const communicator &comm, const hp_grid &grid, const std::vector<hp_box> &boxes) {
        hp_pattern *made = nullptr;
        check(hp_pattern_grid(comm.get(), &grid, static_cast<std::int32_t>(boxes.size()), boxes.data(), &made));
        return pattern(made);
    }

    /// A mesh: the ids of the cells of this rank and of its halo, and whether it owns each; perhaps the rank that does.
    /// Collective. The lists have one length.
    static pattern ids(const communicator &comm, const std::vector<std::int64_t> &ids,
                       const std::vector<std::uint8_t> &owned, const std::vector<std::int32_t> &owners = {}) {
        return of_sets(comm, {set_of(ids, owned, owners)}, [&] { check_lengths("", ids, owned, owners); });
    }

    /// A domain of a mesh: the ids of its cells and of its halo, whether it owns each, and perhaps the rank that does.
    struct mesh_domain {
        std::vector<std::int64_t> ids;
        std::vector<std::uint8_t> owned;
        std::vector<std::int32_t> owners = {};
    };

    /// A mesh with any number of domains on this rank. Collective. The lists of each have one length.
    static pattern ids(const communicator &comm, const std::vector<mesh_domain> &domains) {
        std::vector<hp_ids> sets;
        for (const mesh_domain &one : domains) sets.push_back(set_of(one.ids, one.owned, one.owners));
        return of_sets(comm, sets, [&] {
            for (std::size_t place = 0; place < domains.size(); place++) {
                const mesh_domain &one = domains[place];
                check_lengths("domains[" + std::to_string(place) + "].", one.ids, one.owned, one.owners);
            }
        });
    }

    /// Cells that go to a neighbour or come from it: its rank, and their local indices in the order in which they travel.
    struct list {
        int rank;
        std::vector<std::int32_t> cells;
    };

    /// One domain of `cells` cells on each rank, with the lists that the program has made itself. Collective.
    static pattern lists(const communicator &comm, std::int64_t cells, const std::vector<list> &send,
                         const std::vector<list> &receive) {
        const auto made_of = [](const std::vector<list> &lists) {
            std::vector<hp_list> made;
            for (const list &one : lists) {
                hp_list next = HP_LIST_INIT;
                next.rank = one.rank, next.cells = static_cast<std::int64_t>(one.cells.size()), next.at = one.cells.data();
                made.push_back(next);
            }
            return made;
        };
        const std::vector<hp_list> to = made_of(send), from = made_of(receive);
        hp_pattern *made = nullptr;
        check(hp_pattern_lists(comm.get(), cells, static_cast<std::int32_t>(to.size()), to.data(),
                               static_cast<std::int32_t>(from.size()), from.data(), &made));
        return pattern(made);
    }

    /// Takes the cells that `source` owns to their owners in `target`, a pattern of the same cells, and to the halo of the target if
    /// `fill_halo` is true. In plans of it, the arrays of the source come first in each field, then those of the target; a rank
    /// without domains on one side passes one array there, of which only the type and the device count. Collective.
    static pattern redistribution(const pattern &source, const pattern &target, bool fill_halo = false) {
        hp_pattern *made = nullptr;
        check(hp_pattern_redistribution(source.get(), target.get(), fill_halo, &made));
        pattern found(made);
        found.row_ = source.row();
        const std::vector<bool> of_target = target.row();
        found.row_.insert(found.row_.end(), of_target.begin(), of_target.end());
        return found;
    }

    int domains() const {
        std::int32_t found = 0;
        check(hp_pattern_domain(get(), &found, 0, nullptr, nullptr, nullptr));
        return found;
    }
    hp_box owned(int domain = 0) const { return boxes(domain)[0]; }
    hp_box with_halo(int domain = 0) const { return boxes(domain)[1]; }
    /// The owned cells that need no halo.
    hp_box interior(int domain = 0) const { return boxes(domain)[2]; }
    /// The other owned cells of a domain of a grid, as at most two boxes for each axis.
    std::vector<hp_box> boundary(int domain = 0) const {
        std::int32_t count = 0;
        std::vector<hp_box> found(8);
        check(hp_pattern_boundary(get(), domain, &count, found.data()));
        found.resize(static_cast<std::size_t>(count));
        return found;
    }
    /// JSON.
    std::string describe() const {
        return detail::text([this](char *text, std::size_t *bytes) { return hp_pattern_describe(get(), text, bytes); });
    }
    hp_pattern *get() const noexcept { return handle_.get(); }

private:
    friend class plan;

    // Without a size, which is refused, if the lists have other lengths.
    static hp_ids set_of(const std::vector<std::int64_t> &ids, const std::vector<std::uint8_t> &owned,
                         const std::vector<std::int32_t> &owners) {
        hp_ids set = HP_IDS_INIT;
        if (owned.size() != ids.size() || (!owners.empty() && owners.size() != ids.size())) set.size = 0;
        set.cells = static_cast<std::int64_t>(ids.size());
        set.ids = ids.data(), set.owned = owned.data(), set.owners = owners.empty() ? nullptr : owners.data();
        return set;
    }
    static void check_lengths(const std::string &of, const std::vector<std::int64_t> &ids, const std::vector<std::uint8_t> &owned,
                              const std::vector<std::int32_t> &owners) {
        detail::check_length(of + "owned", owned.size(), ids.size());
        if (!owners.empty()) detail::check_length(of + "owners", owners.size(), ids.size());
    }
    // `check_all` throws if lists have other lengths; the other ranks learn of it.
    template <class Check>
    static pattern of_sets(const communicator &comm, const std::vector<hp_ids> &sets, Check check_all) {
        hp_pattern *made = nullptr;
        const hp_status status = hp_pattern_ids(comm.get(), static_cast<std::int32_t>(sets.size()), sets.data(), &made);
        if (status != HP_OK) check_all();
        check(status);
        return pattern(made);
    }

    // The arrays of a field: whether each has an address. One in place of those of a side without domains has none.
    std::vector<bool> row() const {
        if (!row_.empty()) return row_;
        const int count = domains();
        return std::vector<bool>(count > 0 ? static_cast<std::size_t>(count) : 1, count > 0);
    }
    std::array<hp_box, 3> boxes(int domain) const {
        std::array<hp_box, 3> found{};
        check(hp_pattern_domain(get(), nullptr, domain, &found[0], &found[1], &found[2]));
        return found;
    }

    detail::handle<hp_pattern, hp_pattern_free> handle_;
    // Of a redistribution.
    std::vector<bool> row_;
};

/// Memory of the one domain of this rank, from which neighbours copy straight if a plan is fixed.
class memory {
public:
    memory(const pattern &of, const hp_array &like) {
        hp_memory *made = nullptr;
        check(hp_memory_create(of.get(), &like, &made, &data_));
        handle_.reset(made);
    }
    void *data() const noexcept { return data_; }

private:
    void *data_ = nullptr;
    detail::handle<hp_memory, hp_memory_free> handle_;
};

/// The order of an exchange with a stream of the program, by its native handle: a cudaStream_t or a cl_command_queue.
template <class Handle>
hp_stream on(Handle handle) noexcept {
    static_assert(std::is_pointer_v<Handle> || std::is_integral_v<Handle>, "a native handle is a pointer or a number");
    if constexpr (std::is_pointer_v<Handle>)
        return {HP_ON, 0, reinterpret_cast<std::uintptr_t>(handle)};
    else
        return {HP_ON, 0, static_cast<std::uintptr_t>(handle)};
}

/// No stream: the caller has waited for its work, and the call returns when the halos are in place.
inline constexpr hp_stream block{HP_BLOCK, 0, 0};

/// How a plan exchanges.
struct options {
    /// How many exchanges can be started and not finished at once, up to 64.
    int in_flight = 1;
    /// The number of threads with which a rank copies.
    int threads = 1;
    /// How data gets to other ranks: "direct", "shared", "messages", "stream-messages"; or "quickest".
    std::string path = "quickest";
    /// For memory of OpenCL or SYCL: a queue of its context.
    hp_stream queue{HP_DEFAULT, 0, 0};
    /// How halo cells are combined with what their owners have: "sum", "min", "max" or "replace". Halos are filled if it is empty.
    std::string accumulate;
    /// Whether the halo is 0 after it was accumulated.
    bool zero_halo = false;

    /// As haloport.h takes them, while they live.
    hp_options given(bool fixed) const {
        hp_options made = HP_OPTIONS_INIT;
        made.fixed = fixed, made.in_flight = in_flight, made.threads = threads;
        made.path = path.c_str(), made.queue = queue;
        made.accumulate = accumulate.c_str(), made.zero_halo = zero_halo;
        return made;
    }
};

/// An exchange, prepared for arrays of certain layouts. On a rank with several domains, pass the arrays of each field one
/// after the other; of a redistribution, those of the source and then those of the target.
class plan {
public:
    /// An exchange that was started: one of those of its plan that are in flight. Finish it; otherwise its destructor does,
    /// and errors are lost. One that was moved from has no exchange.
    class [[nodiscard]] pending {
    public:
        pending(pending &&other) noexcept
            : plan_(std::exchange(other.plan_, nullptr)), ticket_(other.ticket_), stream_(other.stream_) {}
        pending &operator=(pending &&) = delete;
        ~pending() {
            if (plan_ && ticket_ != HP_NO_TICKET) hp_finish(plan_, ticket_, stream_);
        }
        /// Waits until the halos of this exchange are in place; on devices, until its end is in the stream of the start. Waits
        /// for the start of each neighbour, and for nothing later. Does nothing if it was finished.
        void finish() { finish(stream_); }
        void finish(hp_stream stream) {
            check_own();
            if (ticket_ == HP_NO_TICKET) return;
            check(hp_finish(plan_, ticket_, stream));
            ticket_ = HP_NO_TICKET;
        }
        /// Whether `finish` would return without waiting for a neighbour; true if it was finished.
        bool ready() const {
            check_own();
            if (ticket_ == HP_NO_TICKET) return true;
            std::int32_t found = 0;
            check(hp_ready(plan_, ticket_, &found));
            return found != 0;
        }

    private:
        friend class plan;
        pending(hp_plan *plan, hp_ticket ticket, hp_stream stream) : plan_(plan), ticket_(ticket), stream_(stream) {}
        void check_own() const {
            if (!plan_) throw error(HP_IN_FLIGHT, "expected an exchange that was started, found one that was moved from");
        }
        hp_plan *plan_;    // null if it was moved from
        hp_ticket ticket_; // none if it was finished
        hp_stream stream_;
    };

    /// For views, or arrays that were described. The addresses of views tell which device they are on. Collective.
    template <class... V>
    explicit plan(const pattern &of, const V &...views) : plan(of, options{}, views...) {}

    template <class... V>
    plan(const pattern &of, const options &with, const V &...views) {
        static_assert(sizeof...(V) > 0, "a plan has one field or more");
        const std::array<hp_array, sizeof...(V)> like{haloport::describe(views)...};
        const std::array<void *, sizeof...(V)> data{place(views)...};
        make(of, static_cast<std::int32_t>(sizeof...(V)), like.data(), data.data(), with.given(false));
    }

    /// For arrays that keep their addresses. Neighbours can then copy straight from the arrays: processes of the node from those
    /// in a `memory`, ranks that are threads from any. Collective.
    template <class... V>
    static plan fixed(const pattern &of, const V &...views) {
        return fixed(of, options{}, views...);
    }

    template <class... V>
    static plan fixed(const pattern &of, const options &with, const V &...views) {
        static_assert(sizeof...(V) > 0, "a plan has one field or more");
        const std::array<hp_array, sizeof...(V)> like{haloport::describe(views)...};
        const std::array<void *, sizeof...(V)> data{address(views)...};
        plan made;
        made.make(of, static_cast<std::int32_t>(sizeof...(V)), like.data(), data.data(), with.given(true));
        return made;
    }

    /// Starts an exchange of these views; of none, if the plan is fixed. The last argument may be a stream, such as `on(stream)`; by
    /// default it is the default stream. As many as `options::in_flight` says can be in flight, and be finished in any order.
    /// Views of other extents, strides or elements than those of the plan are refused.
    template <class... V>
    pending start(const V &...views_and_stream) {
        check_layouts(0, views_and_stream...);
        call<V...> of(views_and_stream...);
        hp_ticket ticket = HP_NO_TICKET;
        check(hp_start(get(), checked(of.data.data(), of.count), of.stream, &ticket));
        return pending(get(), ticket, of.stream);
    }

    /// Fills the halos of these views; the last argument may be a stream, as in `start`.
    template <class... V>
    void operator()(const V &...views_and_stream) {
        check_layouts(0, views_and_stream...);
        call<V...> of(views_and_stream...);
        check(hp_exchange(get(), checked(of.data.data(), of.count), of.stream));
    }

    /// Waits until the exchanges that were finished are done on devices, too.
    void synchronize() { check(hp_synchronize(get())); }
    /// JSON.
    std::string describe() const {
        return detail::text([this](char *text, std::size_t *bytes) { return hp_plan_describe(get(), text, bytes); });
    }
    hp_plan *get() const noexcept { return handle_.get(); }

private:
    plan() = default;

    void make(const pattern &of, std::int32_t arrays, const hp_array *like, void *const *data, const hp_options &with) {
        const std::vector<bool> own = of.row();
        const std::size_t count = static_cast<std::size_t>(arrays);
        std::int32_t fields = 0;
        hp_plan *made = nullptr;
        for (std::size_t first = 0; first < count; fields++) {
            const std::vector<bool> row = like[first].of ? row_of(like[first].of) : own;
            if (first + row.size() > count) {
                hp_plan_create(of.get(), 0, like, data, &with, &made); // the other ranks learn of it
                throw error(HP_ARGUMENT, "expected " + std::to_string(row.size()) + " arrays of field " + std::to_string(fields) +
                                             ", one for each domain, found " + std::to_string(count - first));
            }
            has_address_.insert(has_address_.end(), row.begin(), row.end());
            first += row.size();
        }
        std::vector<void *> addresses(data, data + count);
        addresses.push_back(nullptr);
        taken(addresses.data());
        check(hp_plan_create(of.get(), fields, like, addresses.data(), &with, &made));
        handle_.reset(made);
        fixed_ = with.fixed != 0;
        layouts_.assign(like, like + count);
    }

    // The arrays of a field of another pattern: whether each has an address.
    static std::vector<bool> row_of(const hp_pattern *of) {
        std::int32_t domains = 0;
        hp_pattern_domain(of, &domains, 0, nullptr, nullptr, nullptr); // a wrong one is refused when the plan is made
        return std::vector<bool>(domains > 0 ? static_cast<std::size_t>(domains) : 1, domains > 0);
    }

    void check_layouts(std::size_t) const {}
    template <class First, class... Rest>
    void check_layouts(std::size_t place, const First &first, const Rest &...rest) const {
        if constexpr (detail::has_layout<First>::value) {
            if (place < layouts_.size() && !is_like(layouts_[place], haloport::describe(first)))
                throw error(HP_ARGUMENT, "array " + std::to_string(place) +
                                             ": expected the extents, strides and elements of the plan's array, found others");
        }
        check_layouts(place + 1, rest...);
    }
    static bool is_like(const hp_array &one, const hp_array &other) {
        bool same = one.type == other.type && one.element_bytes == other.element_bytes && one.axes == other.axes;
        for (int axis = 0; same && axis < one.axes; axis++) {
            const bool is_short = one.extent[axis] < 2; // its stride has no effect
            same = one.extent[axis] == other.extent[axis] && (is_short || one.stride[axis] == other.stride[axis]);
        }
        return same;
    }

    // Removes the addresses of arrays that have none, and returns the number of the others.
    std::size_t taken(void **data) const {
        std::size_t taken = 0;
        for (std::size_t place = 0; place < has_address_.size(); place++)
            if (has_address_[place]) data[taken++] = data[place];
        return taken;
    }

    // The addresses of a call with this many arrays.
    void *const *checked(void **data, std::size_t found) const {
        const std::size_t expected = fixed_ ? 0 : has_address_.size();
        if (found == expected) return found > 0 ? (taken(data), data) : nullptr;
        for (const bool one : has_address_)
            if (one)
                throw error(HP_ARGUMENT, "expected " + std::to_string(expected) + " arrays, found " + std::to_string(found));
        return found > 0 ? data : nullptr;
    }

    template <class V>
    static void *address(const field_of<V> &field) {
        return address(field.view);
    }
    template <class V>
    static void *address(const V &view) {
        using pointer = decltype(detail::data_of(view));
        static_assert(!std::is_const_v<std::remove_pointer_t<pointer>>, "exchanges write into halos");
        return static_cast<void *>(detail::data_of(view));
    }

    // The views of a call, and its stream.
    template <class... V>
    struct call {
        static constexpr std::size_t count = (std::size_t{0} + ... + (std::is_same_v<V, hp_stream> ? 0 : 1));
        static_assert(count + 1 >= sizeof...(V), "a call has at most one stream");

        explicit call(const V &...arguments) { take(0, arguments...); }

        std::array<void *, count + 1> data{};
        hp_stream stream{HP_DEFAULT, 0, 0};

    private:
        void take(std::size_t) {}
        template <class First, class... Rest>
        void take(std::size_t place, const First &first, const Rest &...rest) {
            if constexpr (std::is_same_v<First, hp_stream>) {
                static_assert(sizeof...(Rest) == 0, "the stream of a call is its last argument");
                stream = first;
            } else {
                data[place] = address(first);
                take(place + 1, rest...);
            }
        }
    };

    // Where the arrays of a plan that is not fixed are; null if only the description is known.
    template <class V>
    static void *place(const V &view) {
        return const_cast<void *>(static_cast<const void *>(detail::data_of(view)));
    }
    static void *place(const hp_array &) { return nullptr; }
    template <class V>
    static void *place(const field_of<V> &field) {
        return place(field.view);
    }

    detail::handle<hp_plan, hp_plan_free> handle_;
    // Of each array.
    std::vector<bool> has_address_;
    std::vector<hp_array> layouts_;
    bool fixed_ = false;
};

/// A payload or the content of a message: bytes that lie elsewhere, of a temporary only within the call. Made of anything with data() and size() whose elements
/// are trivially copyable, such as std::vector, std::array, std::string and std::span.
class payload {
public:
    payload() = default;
    payload(const void *data, std::size_t bytes) noexcept : data_(data), bytes_(bytes) {}
    template <class V, class = std::void_t<decltype(std::declval<const V &>().data()), decltype(std::declval<const V &>().size())>>
    payload(const V &values) noexcept : data_(values.data()), bytes_(values.size() * sizeof(*values.data())) {
        using element = std::remove_reference_t<decltype(*values.data())>;
        static_assert(std::is_trivially_copyable_v<element>, "payloads travel as bytes, so elements must be trivially copyable");
    }

    const void *data() const noexcept { return data_; }
    std::size_t bytes() const noexcept { return bytes_; }
    /// A copy, as elements of this type, whose size divides the number of bytes.
    template <class T>
    std::vector<T> as() const {
        static_assert(std::is_trivially_copyable_v<T>, "payloads travel as bytes, so elements must be trivially copyable");
        if (bytes_ % sizeof(T) != 0)
            throw error(HP_ARGUMENT, "expected elements of " + std::to_string(sizeof(T)) + " bytes, found " +
                                         std::to_string(bytes_) + " bytes");
        std::vector<T> made(bytes_ / sizeof(T));
        if (bytes_ > 0) std::memcpy(made.data(), data_, bytes_);
        return made;
    }

private:
    const void *data_ = nullptr;
    std::size_t bytes_ = 0;
};

namespace detail {

/// Notes whether a round has ended, before anything else can fail, and throws if it has failed.
inline void check_ended(hp_status status, bool &ended) {
    ended = status != HP_WRONG_THREAD && status != HP_IN_FLIGHT;
    check(status);
}

/// A round that was started. Finish it, once; otherwise its destructor does, what has come is lost, and so are errors. One that
/// was moved from has no round.
template <class Exchange, class Handle>
class [[nodiscard]] pending_round {
public:
    explicit pending_round(Handle *of) : of_(of) {}
    pending_round(pending_round &&other) noexcept
        : of_(std::exchange(other.of_, nullptr)), finished_(other.finished_) {}
    pending_round &operator=(pending_round &&) = delete;
    ~pending_round() {
        if (of_ && !finished_) Exchange::discard(of_);
    }
    /// Waits until the round is complete, and returns what has come: valid until the next round is finished, or the
    /// exchange ends. Whatever it throws, the round has ended, unless the status is HP_WRONG_THREAD or HP_IN_FLIGHT.
    auto finish() {
        check_own();
        if (finished_) throw error(HP_IN_FLIGHT, "expected a round to finish, found one that was finished");
        return Exchange::finished(of_, finished_);
    }
    /// Makes progress, and tells whether `finish` would return without waiting; true if it was finished. Does not
    /// block.
    bool ready() const {
        check_own();
        return finished_ || Exchange::is_ready(of_);
    }

private:
    void check_own() const {
        if (!of_) throw error(HP_IN_FLIGHT, "expected a round that was started, found one that was moved from");
    }
    Handle *of_; // null if it was moved from
    bool finished_ = false;
};

} // namespace detail

/// A message to a rank, or from one.
struct message {
    int rank = 0;
    payload content;
};

/// Messages of any size between ranks, in rounds: destinations need not know. All ranks go through the same number of rounds.
/// Between the start of one and its finish, a rank must not wait for another rank by other means, such as MPI.
class sparse {
public:
    using pending = detail::pending_round<sparse, hp_sparse>;

    /// Each rank may send to any, and waits for all. Collective.
    explicit sparse(const communicator &comm) {
        hp_sparse *made = nullptr;
        check(hp_sparse_create(comm.get(), &made));
        handle_.reset(made);
    }

    /// Messages come from the ranks `sources` alone, this rank sends to the ranks `destinations` alone, and no rank waits
    /// for others. Collective.
    sparse(const communicator &comm, const std::vector<std::int32_t> &sources, const std::vector<std::int32_t> &destinations) {
        hp_sparse *made = nullptr;
        check(hp_sparse_between(comm.get(), static_cast<std::int32_t>(sources.size()), sources.data(),
                                static_cast<std::int32_t>(destinations.size()), destinations.data(), &made));
        handle_.reset(made);
    }

    /// Starts a round of these messages, which are copied. Does not wait.
    pending start(const std::vector<message> &messages) {
        const listed list(messages);
        check(hp_sparse_start(get(), list.count(), list.destinations.data(), list.bytes.data(), list.data.data()));
        return pending(get());
    }

    /// Sends these messages, and returns those that have come: in the order of the sources, and those of one source in
    /// order. Their bytes are valid until the next round is finished, or the exchange ends; they may be sent on in the
    /// next round.
    std::vector<message> operator()(const std::vector<message> &messages) {
        const listed list(messages);
        std::int64_t count = 0;
        const hp_received *came = nullptr;
        check(hp_sparse_exchange(get(), list.count(), list.destinations.data(), list.bytes.data(), list.data.data(), &count, &came));
        return found(count, came);
    }

    hp_sparse *get() const noexcept { return handle_.get(); }

private:
    friend pending;

    // Messages as haloport.h takes them.
    struct listed {
        explicit listed(const std::vector<message> &messages) {
            for (const message &one : messages) {
                destinations.push_back(one.rank);
                bytes.push_back(static_cast<std::int64_t>(one.content.bytes()));
                data.push_back(one.content.data());
            }
        }
        std::int64_t count() const { return static_cast<std::int64_t>(destinations.size()); }
        std::vector<std::int32_t> destinations;
        std::vector<std::int64_t> bytes;
        std::vector<const void *> data;
    };

    static std::vector<message> found(std::int64_t count, const hp_received *came) {
        std::vector<message> made;
        for (std::int64_t place = 0; place < count; place++)
            made.push_back({came[place].rank, payload(came[place].data, static_cast<std::size_t>(came[place].bytes))});
        return made;
    }
    static std::vector<message> finished(hp_sparse *of, bool &ended) {
        std::int64_t count = 0;
        const hp_received *came = nullptr;
        detail::check_ended(hp_sparse_finish(of, &count, &came), ended);
        return found(count, came);
    }
    static bool is_ready(hp_sparse *of) {
        std::int32_t found = 0;
        check(hp_sparse_ready(of, &found));
        return found != 0;
    }
    static void discard(hp_sparse *of) noexcept { hp_sparse_finish(of, nullptr, nullptr); }

    detail::handle<hp_sparse, hp_sparse_free> handle_;
};

/// The payloads to or from the ranks before and after this one on a line. Without a value there is none; an empty payload
/// is one.
struct payloads {
    std::optional<payload> left, right;
};

/// Ranks along a line, in their order: each owns consecutive items, or none, and passes payloads of any size to the two
/// ranks beside it.
class line {
public:
    using pending = detail::pending_round<line, hp_line>;

    /// This rank owns the items from `lower` to below `upper`, which follow those of the rank before. Collective.
    line(const communicator &comm, std::int64_t lower, std::int64_t upper) {
        hp_line *made = nullptr;
        check(hp_line_create(comm.get(), lower, upper, &made));
        handle_.reset(made);
    }

    /// `items` items in equal shares of all ranks; those of the last ranks may have one less. Collective.
    static line even(const communicator &comm, std::int64_t items) {
        line made;
        hp_line *handle = nullptr;
        check(hp_line_even(comm.get(), items, &handle));
        made.handle_.reset(handle);
        return made;
    }

    /// The first item of this rank, and the one past its last.
    std::int64_t lower() const { return numbers()[0]; }
    std::int64_t upper() const { return numbers()[1]; }
    /// The number of items of all ranks.
    std::int64_t items() const { return numbers()[2]; }
    /// The ranks before and after this one, which may own no items; -1 at an end of the line.
    int left() const { return neighbours().first; }
    int right() const { return neighbours().second; }

    /// Starts a round: sends payloads to the left and to the right, which are copied. Those beyond the ends of the line
    /// are dropped. Does not wait.
    pending start(const std::optional<payload> &left, const std::optional<payload> &right) {
        check(hp_line_start(get(), given(left), given(right)));
        return pending(get());
    }

    /// Sends payloads to the left and to the right, and returns those that have come from there. Their bytes are valid
    /// until the next round is finished, or the line ends; they may be passed on in the next round. Waits for the two
    /// ranks beside this one alone.
    payloads operator()(const std::optional<payload> &left, const std::optional<payload> &right) {
        hp_payload from_left, from_right;
        check(hp_line_exchange(get(), given(left), given(right), &from_left, &from_right));
        return {found(from_left), found(from_right)};
    }

    hp_line *get() const noexcept { return handle_.get(); }

private:
    friend pending;

    line() = default;

    std::array<std::int64_t, 3> numbers() const {
        std::array<std::int64_t, 3> found{};
        check(hp_line_items(get(), &found[0], &found[1], &found[2]));
        return found;
    }
    std::pair<int, int> neighbours() const {
        std::int32_t left = 0, right = 0;
        check(hp_line_neighbours(get(), &left, &right));
        return {left, right};
    }
    // Inlined, GCC may warn that the value of an optional without one is used (-Wmaybe-uninitialized, with -fsanitize=address).
    [[gnu::noinline]] static hp_payload given(const std::optional<payload> &of) {
        return of ? hp_payload{static_cast<std::int64_t>(of->bytes()), of->data()} : hp_payload{HP_NO_PAYLOAD, nullptr};
    }
    static std::optional<payload> found(const hp_payload &of) {
        if (of.bytes == HP_NO_PAYLOAD) return std::nullopt;
        return payload(of.data, static_cast<std::size_t>(of.bytes));
    }
    static payloads finished(hp_line *of, bool &ended) {
        hp_payload from_left, from_right;
        detail::check_ended(hp_line_finish(of, &from_left, &from_right), ended);
        return {found(from_left), found(from_right)};
    }
    static bool is_ready(hp_line *of) {
        std::int32_t found = 0;
        check(hp_line_ready(of, &found));
        return found != 0;
    }
    static void discard(hp_line *of) noexcept { hp_line_finish(of, nullptr, nullptr); }

    detail::handle<hp_line, hp_line_free> handle_;
};

} // namespace haloport

#endif
