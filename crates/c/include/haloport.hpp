// Haloport for C++17, over haloport.h, which describes the calls. Header only.
//
//   auto comm = haloport::communicator::mpi(MPI_COMM_WORLD);
//   haloport::grid grid;
//   grid.shape = {64, 48}, grid.periodic = {true, false};
//   auto cells = haloport::pattern::split(comm, grid);
//   haloport::plan update(cells, u, v);            // collective; Kokkos::View, std::mdspan, or what a `layout` is made of
//   update(u, v);                                  // any views of these layouts
//   auto pending = update.start(u, v, haloport::on(stream));
//   interior(u, v);
//   pending.finish();
//
// Objects can be moved, not copied. Calls that fail throw `haloport::error`; destructors do not throw. Destructors of plans,
// exchanges and lines on a thread that may not call MPI leave what is in flight as it was, and log it as an error. Finish what is
// pending on the right thread: later, only the destructor of its plan, exchange or line ends it.
//
// If a value is wrong, the call that gets it throws, not its assignment: then all ranks of a collective call learn of it, and throw.
#ifndef HALOPORT_HPP
#define HALOPORT_HPP

#include <algorithm>
#include <array>
#include <complex>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <exception>
#include <initializer_list>
#include <iterator>
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

/// Why a call failed: an `hp_status` of haloport.h, which describes each.
enum class status : int {
    ok = HP_OK,
    argument = HP_ARGUMENT,
    refused = HP_REFUSED,
    transport = HP_TRANSPORT,
    time_limit = HP_TIME_LIMIT,
    device = HP_DEVICE,
    no_memory = HP_NO_MEMORY,
    wrong_thread = HP_WRONG_THREAD,
    in_flight = HP_IN_FLIGHT,
    poisoned = HP_POISONED,
    panic = HP_PANIC
};

/// A call that failed: a status and its text. All else that comes out of this header is of the standard library, such as
/// std::bad_alloc.
class error : public std::runtime_error {
public:
    /// The last failure of a call of haloport.h on this thread.
    explicit error(hp_status found) : std::runtime_error(hp_message()), status_(static_cast<haloport::status>(found)) {}
    error(haloport::status found, const std::string &text) : std::runtime_error("haloport: " + text), status_(found) {}
    haloport::status status() const noexcept { return status_; }

private:
    haloport::status status_;
};

/// Throws if a call of haloport.h has failed.
inline void check(hp_status found) {
    if (found != HP_OK) throw error(found);
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
        throw error(status::argument, name + ": expected this number of values: " + std::to_string(expected) + ", found " +
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

// Whether it is a sycl::queue, as far as can be seen without its header.
template <class Q, class = void>
struct is_sycl_queue : std::false_type {};
template <class Q>
struct is_sycl_queue<Q, std::void_t<decltype(std::declval<const Q &>().get_context()), decltype(std::declval<const Q &>().is_in_order())>>
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
constexpr bool is_number = std::is_integral_v<V> && !std::is_same_v<V, bool> && !std::is_same_v<V, char>;

// Whether a value of type `T` for an axis can be made of a `V`.
template <class T, class V>
constexpr bool is_value = std::is_same_v<T, V> || (is_number<V> && !std::is_enum_v<T>);

template <class T, class Row, class = void>
struct is_row_of : std::false_type {};
template <class T, class Row>
struct is_row_of<T, Row, std::void_t<decltype(std::begin(std::declval<const Row &>()), std::end(std::declval<const Row &>()))>>
    : std::bool_constant<is_value<T, std::decay_t<decltype(*std::begin(std::declval<const Row &>()))>>> {};

// The first values of an array.
struct row {
    const std::int64_t *first, *past;
    const std::int64_t *begin() const noexcept { return first; }
    const std::int64_t *end() const noexcept { return past; }
};

// In a struct of haloport.h; -1, which is refused there, if it does not fit.
inline std::int32_t in_32_bits(std::int64_t value) {
    const auto made = static_cast<std::int32_t>(value);
    return made == value ? made : -1;
}

template <class V>
constexpr int rank_of() {
    if constexpr (has_rank_function<V>::value) {
        return static_cast<int>(V::rank());
    } else {
        return static_cast<int>(V::rank);
    }
}

} // namespace detail

/// A value for each axis, from the slowest axis on, made of integers of any type, or of a std::vector or std::array of them, for example. The
/// object keeps the first `Most`, and their number: the call that gets more refuses them.
template <class T, std::size_t Most = 4>
class per_axis {
public:
    per_axis() = default;
    template <class... V, class = std::enable_if_t<((sizeof...(V) > 0) && ... && detail::is_value<T, V>)>>
    per_axis(V... values) {
        (add(values), ...);
    }
    template <class U = T, class = std::enable_if_t<std::is_class_v<U>>>
    per_axis(std::initializer_list<T> values) {
        for (const T &value : values) add(value);
    }
    template <class Row, std::enable_if_t<detail::is_row_of<T, Row>::value, int> = 0>
    per_axis(const Row &row) {
        for (const auto &value : row) add(value);
    }

    /// The number of values that it was made of.
    std::size_t size() const noexcept { return size_; }
    bool empty() const noexcept { return size_ == 0; }
    /// Throws if there is no such axis.
    const T &operator[](std::size_t axis) const { return values_[checked(axis)]; }
    T &operator[](std::size_t axis) { return values_[checked(axis)]; }
    const T *begin() const noexcept { return values_; }
    const T *end() const noexcept { return values_ + kept(); }

    friend bool operator==(const per_axis &one, const per_axis &other) noexcept {
        return one.size_ == other.size_ && std::equal(one.begin(), one.end(), other.begin());
    }
    friend bool operator!=(const per_axis &one, const per_axis &other) noexcept { return !(one == other); }

private:
    template <class V>
    void add(const V &value) {
        if (size_ < Most) values_[size_] = static_cast<T>(value);
        size_++;
    }
    std::size_t kept() const noexcept { return size_ < Most ? size_ : Most; }
    std::size_t checked(std::size_t axis) const {
        if (axis >= kept())
            throw error(status::argument, "expected one of " + std::to_string(kept()) + " axes, found axis " + std::to_string(axis));
        return axis;
    }

    T values_[Most]{};
    std::size_t size_ = 0;
};

/// A box of cells, with a value for each axis. It is half-open: `upper` is one past the last cell.
struct box {
    per_axis<std::int64_t> lower, upper;

    std::size_t axes() const noexcept { return lower.size(); }
    /// The number of cells along an axis.
    std::size_t extent(std::size_t axis) const {
        const std::int64_t first = lower[axis], past = upper[axis];
        return past > first ? static_cast<std::size_t>(past) - static_cast<std::size_t>(first) : 0;
    }
    /// The number of cells.
    std::size_t cells() const {
        std::size_t made = 1;
        for (std::size_t axis = 0; axis < axes(); axis++) made *= extent(axis);
        return made;
    }

    friend bool operator==(const box &one, const box &other) noexcept { return one.lower == other.lower && one.upper == other.upper; }
    friend bool operator!=(const box &one, const box &other) noexcept { return !(one == other); }
};

/// The width of the halo along an axis, in cells: below the owned cells and above them.
struct halo_width {
    std::int64_t lower = 0, upper = 0;

    halo_width() = default;
    template <class Both, class = std::enable_if_t<detail::is_number<Both>>>
    halo_width(Both both) : halo_width(both, both) {}
    template <class Lower, class Upper, class = std::enable_if_t<detail::is_number<Lower> && detail::is_number<Upper>>>
    halo_width(Lower below, Upper above) : lower(static_cast<std::int64_t>(below)), upper(static_cast<std::int64_t>(above)) {}

    friend bool operator==(const halo_width &one, const halo_width &other) noexcept {
        return one.lower == other.lower && one.upper == other.upper;
    }
};

/// The centres about which a tripolar grid is folded.
enum class fold : std::int32_t {
    none = 0,
    cell = HP_FOLD_CELL,    // centres of cells (ORCA2, ORCA025, ORCA12)
    corner = HP_FOLD_CORNER // corners of cells (ORCA05, ORCA1, MOM, POP)
};

/// Points of a C grid.
enum class points : std::int32_t {
    cells = HP_POINTS_CELLS,             // T
    east_edges = HP_POINTS_EAST_EDGES,   // U
    north_edges = HP_POINTS_NORTH_EDGES, // V
    corners = HP_POINTS_CORNERS          // F
};

/// A grid and its halo.
struct grid {
    /// The number of cells along each of 1 to 4 axes.
    per_axis<std::int64_t> shape;
    /// The width of the halo: along all axes (but not across tiles of a cubed sphere), or along each.
    per_axis<halo_width> halo = 1;
    /// Whether the ends of the axes meet: of all, or of each.
    per_axis<bool> periodic = false;
    /// Whether halos have edges and corners, as stencils with diagonals need.
    bool corners = true;
    /// Whether halos have no cells beyond ends of the grid that are not periodic.
    bool clipped = false;
    /// Whether axis 0 are the six tiles of a cubed sphere; an axis of levels may follow, then two axes of the same extent.
    bool cubed_sphere = false;
    /// Of a tripolar grid: the upper end of the axis before the last one is folded onto itself along the last one, which is then periodic.
    haloport::fold fold = haloport::fold::none;
    /// Of a tripolar grid, the points that the pattern exchanges.
    haloport::points points = haloport::points::cells;
};

/// What an axis of an array is. `axis(k)` is axis `k` of the grid.
enum class role : std::int32_t {
    cells = HP_CELLS,        // the cells of a pattern without a grid; within a block, if they lie in blocks
    blocks = HP_CELL_BLOCKS, // the blocks in which cells lie (nproma)
    levels = HP_LEVELS,      // levels, or any other axis along which every cell has elements
    components = HP_COMPONENTS
};

/// Axis `number` of the grid, from 0; a role that is refused, if there is no such axis.
constexpr role axis(int number) noexcept { return static_cast<role>(number >= 0 && number < 4 ? HP_CELLS + number : -1); }

/// What makes progress between the start of an exchange, or of a round of messages, and its end.
enum class progress : std::int32_t {
    automatic = HP_PROGRESS_AUTO, // on devices with streams a thread of the library, if it may call MPI; otherwise the calls of the program
    thread = HP_PROGRESS_THREAD,  // a thread of the library for all of them
    caller = HP_PROGRESS_CALLER   // the calls of the program alone
};

/// How the values of the ranks become one.
enum class reduction : std::int32_t { sum = HP_SUM, min = HP_MIN, max = HP_MAX };

/// The type of an element, as in an hp_array; records are HP_BYTES.
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

namespace detail {

template <class V>
hp_array array_of(const V &view) {
    using element = std::remove_cv_t<std::remove_pointer_t<decltype(data_of(view))>>;
    static_assert(rank_of<V>() <= 8, "arrays have at most 8 axes");
    hp_array made = HP_ARRAY_INIT;
    made.type = type_of<element>();
    made.element_bytes = static_cast<std::int32_t>(sizeof(element));
    made.axes = rank_of<V>();
    for (int axis = 0; axis < made.axes; axis++) {
        made.extent[axis] = static_cast<std::int64_t>(view.extent(axis));
        made.stride[axis] = static_cast<std::int64_t>(view.stride(axis)) * static_cast<std::int64_t>(sizeof(element));
    }
    return made;
}

} // namespace detail

class pattern;

/// The layout of an array, for plans and `memory`. That of a view has the address of the view, too.
class layout {
public:
    /// What each axis is: none, or one for each. By default the axes of the pattern come first, in their order, then levels, and
    /// components behind the fourth axis.
    per_axis<role, 8> roles;
    /// Of vectors, for each component the axis of the grid along which it points: across the edges of a cubed sphere and the fold of a
    /// tripolar grid, components are exchanged and change their signs. By default scalars.
    per_axis<std::int64_t> vector;
    /// On a grid, the index of the first owned cell along each of its axes. By default the widths of the halo: the extents fit exactly.
    per_axis<std::int64_t> origin;
    /// Where the array is, such as "cuda:0", or "cpu" for memory of the host. By default its address tells; without one, the host.
    std::string device;

    /// Of anything with extent(i), stride(i) in elements, a rank known at compile time, and data() or data_handle().
    template <class V, class = std::enable_if_t<detail::has_layout<V>::value>>
    layout(const V &view, const per_axis<role, 8> &of_axes = {})
        : roles(of_axes), array_(detail::array_of(view)), address_(to_halo(detail::data_of(view))) {}

    /// Of elements of type `T` without gaps, the last axis fastest; the extents include the halo.
    template <class T>
    static layout contiguous(const per_axis<std::int64_t, 8> &extents, const per_axis<role, 8> &of_axes = {}) {
        hp_array made = HP_ARRAY_INIT;
        made.type = type_of<T>();
        made.element_bytes = static_cast<std::int32_t>(sizeof(T));
        made.axes = static_cast<std::int32_t>(extents.size());
        std::copy(extents.begin(), extents.end(), made.extent);
        layout of_array(made);
        of_array.roles = of_axes;
        return of_array;
    }

    /// As haloport.h has it. Members of this type that have values take the place of those of the array.
    layout(const hp_array &array) : array_(array) {}

    /// As haloport.h takes it, while this lives.
    hp_array given() const {
        hp_array made = array_;
        for (std::size_t axis = 0; axis < roles.size() && axis < 8; axis++) made.role[axis] = static_cast<std::int32_t>(roles[axis]);
        for (std::size_t component = 0; component < vector.size() && component < 4; component++) {
            const std::int64_t axis = vector[component];
            made.vector[component] = axis >= 0 && axis < 4 ? HP_CELLS + static_cast<std::int32_t>(axis) : -1;
        }
        std::copy(origin.begin(), origin.end(), made.origin);
        if (!device.empty()) made.device = device.c_str();
        return made;
    }

private:
    friend class plan;
    friend class memory;
    friend layout of(const pattern &, layout);

    template <class T>
    static void *to_halo(T *first) {
        static_assert(!std::is_const_v<T>, "exchanges write into halos");
        return first;
    }

    // Why it is refused before a call of haloport.h; empty if it is not.
    std::string wrong() const {
        const auto axes = static_cast<std::size_t>(array_.axes);
        if (is_of_none_) return "of: expected a pattern, found one that was moved from";
        if (!roles.empty() && roles.size() != axes)
            return "roles: expected one for each of " + std::to_string(axes) + " axes, found " + std::to_string(roles.size());
        for (const auto *values : {&vector, &origin})
            if (values->size() > 4)
                return std::string(values == &vector ? "vector" : "origin") + ": expected at most 4 values, found " +
                       std::to_string(values->size());
        return "";
    }

    hp_array array_;
    void *address_ = nullptr;
    bool is_of_none_ = false;
};

/// The version and the devices of this machine, as JSON.
inline std::string describe_machine() { return detail::text(hp_describe); }

/// What an exact sum adds up on this rank: values, or their products with as many weights, perhaps with a mask. Each is anything
/// contiguous with data() and size(), which is read by the call that sums: values and weights of float or double, all of one type.
class terms {
public:
    template <class V, class = std::void_t<decltype(std::declval<const V &>().data()), decltype(std::declval<const V &>().size())>>
    terms(const V &values)
        : type_(type_of_terms<V>()), count_(static_cast<std::int64_t>(values.size())), values_(values.data()) {}
    template <class V, class W>
    terms(const V &values, const W &weights) : terms(values) {
        static_assert(std::is_same_v<element<V>, element<W>>, "weights are of the type of the values");
        weights_ = weights.data();
        check_size("weights", weights.size());
    }
    /// The same terms without those where the mask is false or 0, of which nothing is added, not even a NaN. A mask has as many elements
    /// as the values, of bool or of another type of one byte.
    template <class M>
    terms masked(const M &mask) const {
        static_assert(!std::is_same_v<M, std::vector<bool>>, "a std::vector of bool has no bytes: use char");
        static_assert(sizeof(*mask.data()) == 1, "masks are of bool or of another type of one byte");
        terms made(*this);
        made.mask_ = reinterpret_cast<const std::uint8_t *>(mask.data());
        made.check_size("mask", mask.size());
        return made;
    }

private:
    friend class communicator;

    template <class V>
    using element = std::remove_cv_t<std::remove_pointer_t<decltype(std::declval<const V &>().data())>>;

    template <class V>
    static constexpr hp_type type_of_terms() {
        static_assert(std::is_same_v<element<V>, float> || std::is_same_v<element<V>, double>, "exact sums are of float or double");
        return type_of<element<V>>();
    }
    void check_size(const char *name, std::size_t found) {
        if (static_cast<std::int64_t>(found) != count_) other_size_ = name, found_ = found;
    }
    // Why sum `place` is refused, before the call of haloport.h; empty if it is not.
    std::string wrong(const terms &first, std::size_t place) const {
        if (other_size_)
            return std::string(other_size_) + " of sum " + std::to_string(place) + ": expected as many as values, " + std::to_string(count_) +
                   ", found " + std::to_string(found_);
        if (type_ == first.type_) return "";
        const auto name = [](hp_type type) { return std::string(type == HP_F32 ? "float" : "double"); };
        return "values of sum " + std::to_string(place) + ": expected " + name(first.type_) + " as in sum 0, found " + name(type_);
    }

    hp_type type_;
    std::int64_t count_;
    const void *values_, *weights_ = nullptr;
    const std::uint8_t *mask_ = nullptr;
    // Weights, or a mask, of another size than the values.
    const char *other_size_ = nullptr;
    std::size_t found_ = 0;
};

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
    /// What makes progress with the exchanges and rounds of messages that this rank starts from now on; see hp_comm_set_progress.
    void set_progress(progress by) { check(hp_comm_set_progress(get(), static_cast<std::int32_t>(by))); }
    /// Collective.
    void barrier() { check(hp_comm_barrier(get())); }
    /// The sum, the smallest or the largest of the values of all ranks: std::int64_t, std::uint64_t, float or double. Collective.
    template <class T>
    T all_reduce(T value, reduction op = reduction::sum) {
        check(hp_comm_all_reduce(get(), static_cast<std::int32_t>(op), type_of<T>(), 1, &value));
        return value;
    }
    /// The sum of the values of all ranks, of any number on each, rounded once: the same bits on any number of ranks. NaN and
    /// infinities are as in hp_comm_sum_exact. Collective.
    double sum_exact(const terms &of) {
        double sum = 0;
        exact_sums(&of, 1, &sum);
        return sum;
    }
    /// The sum of the products of the values and as many weights, which are not rounded. Collective.
    template <class V, class W>
    double sum_exact(const V &values, const W &weights) {
        return sum_exact(terms(values, weights));
    }
    /// Several sums, in their order, in one message: comm.sum_exact({{height, area}, terms(height).masked(wet)}). All have values of
    /// one type, and all ranks pass the same number. Collective.
    std::vector<double> sum_exact(std::initializer_list<terms> of) { return exact_sums(of.begin(), of.size()); }
    std::vector<double> sum_exact(const std::vector<terms> &of) { return exact_sums(of.data(), of.size()); }
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
    std::vector<double> exact_sums(const terms *of, std::size_t number) {
        std::vector<double> sums;
        try {
            sums.resize(number);
        } catch (...) {
            refuse_exact_sums();
            throw;
        }
        exact_sums(of, number, sums.data());
        return sums;
    }
    void exact_sums(const terms *of, std::size_t number, double *sums) {
        std::vector<std::int64_t> counts;
        std::vector<const void *> values, weights;
        std::vector<const std::uint8_t *> masks;
        try {
            for (std::size_t place = 0; place < number; place++) {
                const std::string wrong = of[place].wrong(of[0], place);
                if (!wrong.empty()) throw error(status::argument, wrong);
                counts.push_back(of[place].count_), values.push_back(of[place].values_);
                weights.push_back(of[place].weights_), masks.push_back(of[place].mask_);
            }
        } catch (...) {
            refuse_exact_sums();
            throw;
        }
        const hp_type type = number > 0 ? of[0].type_ : HP_F64;
        check(hp_comm_sum_exact(get(), type, static_cast<std::int32_t>(number), counts.data(), values.data(), weights.data(),
                                masks.data(), sums));
    }
    // So the other ranks learn that this one sums nothing.
    void refuse_exact_sums() { hp_comm_sum_exact(get(), HP_F64, -1, nullptr, nullptr, nullptr, nullptr, nullptr); }

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
    /// Takes a handle of haloport.h, which it frees: of a grid with this many axes, or with 1 of another pattern.
    pattern(hp_pattern *taken, std::size_t axes) : handle_(taken), axes_(std::min<std::size_t>(axes, 4)) {}

    /// A grid that is split evenly; `parts` is the number of parts along all axes or along each, by default chosen. Collective.
    static pattern split(const communicator &comm, const haloport::grid &grid, const per_axis<std::int64_t> &parts = {}) {
        std::string wrong;
        hp_grid made = given(grid, wrong);
        if (!parts.empty())
            spread(parts, grid, "parts", wrong, [&](std::size_t axis, std::int64_t found) { made.parts[axis] = detail::in_32_bits(found); });
        return of_grid(comm, made, HP_SPLIT, nullptr, wrong);
    }

    /// A grid that is cut as that of another pattern is, and ends elsewhere: so the nodes of a staggered grid are cut as its cells are.
    /// Collective.
    static pattern like(const communicator &comm, const haloport::grid &grid, const pattern &other) {
        std::string wrong;
        hp_grid made = given(grid, wrong);
        made.like = other.get();
        if (!made.like) wrong = "like: expected the pattern of a grid, found one that was moved from";
        return of_grid(comm, made, HP_SPLIT, nullptr, wrong);
    }

    /// A grid of which this rank owns these boxes. Collective.
    static pattern grid(const communicator &comm, const haloport::grid &grid, const std::vector<box> &boxes) {
        std::string wrong;
        const hp_grid made = given(grid, wrong);
        std::vector<hp_box> owned(boxes.size());
        for (std::size_t place = 0; place < boxes.size(); place++) {
            const per_axis<std::int64_t> &lower = boxes[place].lower, &upper = boxes[place].upper;
            for (const std::size_t found : {lower.size(), upper.size()})
                if (found != grid.shape.size())
                    wrong = "boxes[" + std::to_string(place) + "]: expected a first cell and one past the last along each of " +
                            std::to_string(grid.shape.size()) + " axes, found " + std::to_string(found);
            std::copy(lower.begin(), lower.end(), owned[place].lower);
            std::copy(upper.begin(), upper.end(), owned[place].upper);
        }
        return of_grid(comm, made, static_cast<std::int32_t>(owned.size()), owned.data(), wrong);
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
        return pattern(made, 1);
    }

    /// Takes the cells that `source` owns to their owners in `target`, a pattern of the same cells, and to the halo of the target if
    /// `fill_halo` is true. In plans of it, the arrays of the source come first in each field, then those of the target; a rank
    /// without domains on one side passes one array there, of which only the type and the device count. Collective.
    static pattern redistribution(const pattern &source, const pattern &target, bool fill_halo = false) {
        hp_pattern *made = nullptr;
        check(hp_pattern_redistribution(source.get(), target.get(), fill_halo, &made));
        pattern found(made, 0);
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
    /// The cells that this rank owns, by their indices in the whole grid.
    box owned(int domain = 0) const { return boxes(domain)[0]; }
    box with_halo(int domain = 0) const { return boxes(domain)[1]; }
    /// The owned cells that need no halo.
    box interior(int domain = 0) const { return boxes(domain)[2]; }
    /// The other owned cells of a domain of a grid, as at most two boxes for each axis.
    std::vector<box> boundary(int domain = 0) const {
        std::int32_t count = 0;
        std::array<hp_box, 8> found{};
        check(hp_pattern_boundary(get(), domain, &count, found.data()));
        std::vector<box> made;
        for (std::int32_t place = 0; place < count; place++) made.push_back(box_of(found[static_cast<std::size_t>(place)]));
        return made;
    }
    /// JSON.
    std::string describe() const {
        return detail::text([this](char *text, std::size_t *bytes) { return hp_pattern_describe(get(), text, bytes); });
    }
    hp_pattern *get() const noexcept { return handle_.get(); }

private:
    friend class plan;

    // Passes a value for all axes, or one for each, to `place`.
    template <class T, class Place>
    static void spread(const per_axis<T> &values, const haloport::grid &grid, const char *name, std::string &wrong, Place place) {
        const std::size_t axes = grid.shape.size();
        if (!wrong.empty()) return;
        if (values.size() != 1 && values.size() != axes) {
            wrong = std::string(name) + ": expected one value for all axes, or one for each of " + std::to_string(axes) + ", found " +
                    std::to_string(values.size());
            return;
        }
        for (std::size_t axis = 0; axis < axes && axis < 4; axis++) place(axis, values[values.size() == 1 ? 0 : axis]);
    }
    // As haloport.h takes it; `wrong` says why it does not.
    static hp_grid given(const haloport::grid &grid, std::string &wrong) {
        hp_grid made = HP_GRID_INIT;
        const std::size_t axes = grid.shape.size();
        if (axes < 1 || axes > 4) wrong = "grid.shape: expected 1 to 4 axes, found " + std::to_string(axes);
        made.axes = static_cast<std::int32_t>(axes);
        std::copy(grid.shape.begin(), grid.shape.end(), made.cells);
        const bool is_for_all = grid.halo.size() == 1;
        spread(grid.halo, grid, "grid.halo", wrong, [&](std::size_t axis, const halo_width &found) {
            const bool is_tiles = grid.cubed_sphere && axis == 0 && is_for_all;
            made.halo_lower[axis] = is_tiles ? 0 : detail::in_32_bits(found.lower);
            made.halo_upper[axis] = is_tiles ? 0 : detail::in_32_bits(found.upper);
        });
        spread(grid.periodic, grid, "grid.periodic", wrong, [&](std::size_t axis, bool found) { made.periodic[axis] = found; });
        made.faces_only = !grid.corners, made.clipped = grid.clipped, made.cubed_sphere = grid.cubed_sphere;
        made.fold = static_cast<std::int32_t>(grid.fold), made.points = static_cast<std::int32_t>(grid.points);
        return made;
    }
    // If `wrong` has a text, the other ranks learn that this one has a wrong argument.
    static pattern of_grid(const communicator &comm, hp_grid grid, std::int32_t domains, const hp_box *boxes, const std::string &wrong) {
        const std::int32_t axes = grid.axes;
        if (!wrong.empty() && axes >= 1 && axes <= 4) grid.axes = -1;
        hp_pattern *made = nullptr;
        const hp_status found = hp_pattern_grid(comm.get(), &grid, domains, boxes, &made);
        if (!wrong.empty()) throw error(status::argument, wrong);
        check(found);
        return pattern(made, static_cast<std::size_t>(axes));
    }

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
        const hp_status found = hp_pattern_ids(comm.get(), static_cast<std::int32_t>(sets.size()), sets.data(), &made);
        if (found != HP_OK) check_all();
        check(found);
        return pattern(made, 1);
    }

    // The arrays of a field: whether each has an address. One in place of those of a side without domains has none.
    std::vector<bool> row() const {
        if (!row_.empty()) return row_;
        const int count = domains();
        return std::vector<bool>(count > 0 ? static_cast<std::size_t>(count) : 1, count > 0);
    }
    std::array<box, 3> boxes(int domain) const {
        std::array<hp_box, 3> found{};
        check(hp_pattern_domain(get(), nullptr, domain, &found[0], &found[1], &found[2]));
        return {box_of(found[0]), box_of(found[1]), box_of(found[2])};
    }
    box box_of(const hp_box &found) const {
        return {detail::row{found.lower, found.lower + axes_}, detail::row{found.upper, found.upper + axes_}};
    }

    detail::handle<hp_pattern, hp_pattern_free> handle_;
    std::size_t axes_;
    // Of a redistribution.
    std::vector<bool> row_;
};

/// The layout of a field of another pattern than that of its plan, for the constructors of plans and `plan::fixed`. Calls of the plan
/// take the view itself.
inline layout of(const pattern &pattern, layout field) {
    field.array_.of = pattern.get();
    field.is_of_none_ = pattern.get() == nullptr;
    return field;
}

/// Memory of the one domain of this rank, from which neighbours copy straight if a plan is fixed.
class memory {
public:
    memory(const pattern &of, const layout &like) {
        std::string wrong = like.wrong();
        const int domains = of.domains();
        if (domains > 1) wrong = "expected a pattern with one domain on this rank, found " + std::to_string(domains);
        if (!wrong.empty()) throw error(status::argument, wrong);
        const hp_array given = like.given();
        hp_memory *made = nullptr;
        check(hp_memory_create(of.get(), &given, &made, &data_));
        handle_.reset(made);
    }
    void *data() const noexcept { return data_; }

private:
    void *data_ = nullptr;
    detail::handle<hp_memory, hp_memory_free> handle_;
};

/// The stream of the program with which an exchange is ordered. Made without arguments, it is the default stream: of CUDA the legacy one, of
/// OpenCL and SYCL the queue of the plan. On the host, streams have no effect.
class stream {
public:
    constexpr stream() noexcept = default;
    constexpr stream(const hp_stream &of) noexcept : stream_(of) {}
    constexpr const hp_stream &get() const noexcept { return stream_; }

private:
    hp_stream stream_{HP_DEFAULT, 0, 0};
};

/// A stream by its native handle: a cudaStream_t or a cl_command_queue.
template <class Handle, std::enable_if_t<(std::is_pointer_v<Handle> && !detail::is_sycl_queue<std::remove_pointer_t<Handle>>::value) ||
                                             detail::is_number<Handle>,
                                         int> = 0>
stream on(Handle handle) noexcept {
    if constexpr (std::is_pointer_v<Handle>)
        return hp_stream{HP_ON, 0, reinterpret_cast<std::uintptr_t>(handle)};
    else
        return hp_stream{HP_ON, 0, static_cast<std::uintptr_t>(handle)};
}

/// A sycl::queue of DPC++, which stays where it is until the work that was put into it is done.
template <class Queue, class = std::enable_if_t<detail::is_sycl_queue<Queue>::value>>
stream on(const Queue &queue) noexcept {
    return hp_stream{HP_SYCL, 0, reinterpret_cast<std::uintptr_t>(&queue)};
}
template <class Queue, class = std::enable_if_t<detail::is_sycl_queue<Queue>::value>>
stream on(const Queue &&) = delete;

/// No stream: the caller has waited for its work, and the call returns when the halos are in place.
inline constexpr stream block{hp_stream{HP_BLOCK, 0, 0}};

/// How a plan exchanges.
struct options {
    /// How many exchanges can be started and not finished at once, up to 64.
    int in_flight = 1;
    /// The number of threads with which a rank copies.
    int threads = 1;
    /// How data gets to other ranks: "direct", "shared", "messages", "stream-messages"; or "quickest".
    std::string path = "quickest";
    /// For memory of OpenCL or SYCL: a queue of its context.
    stream queue;
    /// How halo cells are combined with what their owners have: "sum", "min", "max" or "replace". Halos are filled if it is empty.
    std::string accumulate;
    /// Whether the halo is 0 after it was accumulated.
    bool zero_halo = false;
    /// Whether other processes of the node may copy straight from any array of a fixed plan that is in memory of an allocation: see
    /// haloport.h.
    bool share = false;

    /// As haloport.h takes them, while they live.
    hp_options given(bool fixed) const {
        hp_options made = HP_OPTIONS_INIT;
        made.fixed = fixed, made.in_flight = in_flight, made.threads = threads;
        made.path = path.c_str(), made.queue = queue.get();
        made.accumulate = accumulate.c_str(), made.zero_halo = zero_halo, made.share = share;
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
            if (plan_ && ticket_ != HP_NO_TICKET) hp_finish(plan_, ticket_, stream_.get());
        }
        /// Waits until the halos of this exchange are in place; on devices, until its end is in the stream of the start. Waits
        /// for the start of each neighbour, and for nothing later. Does nothing if it was finished.
        void finish() { finish(stream_); }
        void finish(const stream &order) {
            check_own();
            if (ticket_ == HP_NO_TICKET) return;
            check(hp_finish(plan_, ticket_, order.get()));
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
        pending(hp_plan *plan, hp_ticket ticket, const stream &order) : plan_(plan), ticket_(ticket), stream_(order) {}
        void check_own() const {
            if (!plan_) throw error(status::in_flight, "expected an exchange that was started, found one that was moved from");
        }
        hp_plan *plan_;    // null if it was moved from
        hp_ticket ticket_; // none if it was finished
        stream stream_;
    };

    /// For views or layouts. The addresses of views tell which device they are on. Collective.
    template <class... V>
    explicit plan(const pattern &of, const V &...views) : plan(of, options{}, views...) {}

    template <class... V>
    plan(const pattern &of, const options &with, const V &...views) {
        make(of, with.given(false), views...);
    }

    /// For arrays that keep their addresses: views, or layouts of views. Neighbours can then copy straight from the arrays: processes of the
    /// node from those in a `memory`, ranks that are threads from any. Collective.
    template <class... V>
    static plan fixed(const pattern &of, const V &...views) {
        return fixed(of, options{}, views...);
    }

    template <class... V>
    static plan fixed(const pattern &of, const options &with, const V &...views) {
        static_assert((!std::is_same_v<V, hp_array> && ...), "an hp_array has no address: pass a view, or a layout of one");
        plan made;
        made.make(of, with.given(true), views...);
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
        check(hp_start(get(), checked(of.data.data(), of.count), of.order.get(), &ticket));
        return pending(get(), ticket, of.order);
    }

    /// Fills the halos of these views; the last argument may be a stream, as in `start`.
    template <class... V>
    void operator()(const V &...views_and_stream) {
        check_layouts(0, views_and_stream...);
        call<V...> of(views_and_stream...);
        check(hp_exchange(get(), checked(of.data.data(), of.count), of.order.get()));
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

    template <class... V>
    void make(const pattern &of, const hp_options &with, const V &...views) {
        static_assert(sizeof...(V) > 0, "a plan has one field or more");
        static_assert((std::is_convertible_v<V, layout> && ...),
                      "a plan is made of views, which have extent(axis) and stride(axis), or of layouts");
        const std::array<layout, sizeof...(V)> like{layout(views)...};
        make_of(of, like.data(), like.size(), with);
    }

    void make_of(const pattern &of, const layout *like, std::size_t count, const hp_options &with) {
        const std::vector<bool> own = of.row();
        std::string wrong;
        std::vector<void *> addresses(count + 1);
        for (std::size_t place = 0; place < count; place++) {
            layouts_.push_back(like[place].given());
            addresses[place] = like[place].address_;
            const std::string why = like[place].wrong();
            if (!why.empty() && wrong.empty()) wrong = "array " + std::to_string(place) + ": " + why;
        }
        std::int32_t fields = 0;
        for (std::size_t first = 0; first < count; fields++) {
            std::vector<bool> row = own;
            if (layouts_[first].of) {
                std::int32_t domains = 0;
                if (hp_pattern_domain(layouts_[first].of, &domains, 0, nullptr, nullptr, nullptr) != HP_OK && wrong.empty())
                    wrong = std::string("array ") + std::to_string(first) + ": " + hp_message();
                row = row_of(domains);
            }
            if (first + row.size() > count && wrong.empty())
                wrong = "expected " + std::to_string(row.size()) + " arrays of field " + std::to_string(fields) +
                        ", one for each domain, found " + std::to_string(count - first);
            has_address_.insert(has_address_.end(), row.begin(), row.end());
            first += row.size();
        }
        hp_plan *made = nullptr;
        if (!wrong.empty()) {
            hp_plan_create(of.get(), 0, nullptr, nullptr, &with, &made); // the other ranks learn of it
            throw error(status::argument, wrong);
        }
        taken(addresses.data());
        check(hp_plan_create(of.get(), fields, layouts_.data(), addresses.data(), &with, &made));
        handle_.reset(made);
        fixed_ = with.fixed != 0;
        for (hp_array &array : layouts_) set_strides(array);
    }

    // Those of an array without gaps, if it has none.
    static void set_strides(hp_array &array) {
        if (std::any_of(array.stride, array.stride + array.axes, [](std::int64_t stride) { return stride != 0; })) return;
        std::int64_t stride = array.element_bytes;
        for (std::int32_t axis = array.axes - 1; axis >= 0; stride *= array.extent[axis], axis--) array.stride[axis] = stride;
    }

    // The arrays of a field on a rank with this many domains: whether each has an address.
    static std::vector<bool> row_of(std::int32_t domains) {
        return std::vector<bool>(domains > 0 ? static_cast<std::size_t>(domains) : 1, domains > 0);
    }

    void check_layouts(std::size_t) const {}
    template <class First, class... Rest>
    void check_layouts(std::size_t place, const First &first, const Rest &...rest) const {
        if constexpr (detail::has_layout<First>::value) {
            if (place < layouts_.size() && !is_like(layouts_[place], detail::array_of(first)))
                throw error(status::argument, "array " + std::to_string(place) +
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
                throw error(status::argument, "expected " + std::to_string(expected) + " arrays, found " + std::to_string(found));
        return found > 0 ? data : nullptr;
    }

    template <class V>
    static void *address(const V &view) {
        static_assert(!std::is_same_v<V, layout> && !std::is_same_v<V, hp_array>, "calls take the views themselves");
        return layout::to_halo(detail::data_of(view));
    }

    // The views of a call, and its stream.
    template <class... V>
    struct call {
        static constexpr std::size_t count = (std::size_t{0} + ... + (std::is_convertible_v<V, stream> ? 0 : 1));
        static_assert(count + 1 >= sizeof...(V), "a call has at most one stream");

        explicit call(const V &...arguments) { take(0, arguments...); }

        std::array<void *, count + 1> data{};
        stream order;

    private:
        void take(std::size_t) {}
        template <class First, class... Rest>
        void take(std::size_t place, const First &first, const Rest &...rest) {
            if constexpr (std::is_convertible_v<First, stream>) {
                static_assert(sizeof...(Rest) == 0, "the stream of a call is its last argument");
                order = first;
            } else {
                data[place] = address(first);
                take(place + 1, rest...);
            }
        }
    };

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
            throw error(status::argument, "expected elements of " + std::to_string(sizeof(T)) + " bytes, found " +
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
        if (finished_) throw error(status::in_flight, "expected a round to finish, found one that was finished");
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
        if (!of_) throw error(status::in_flight, "expected a round that was started, found one that was moved from");
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
/// Between the start of one and its finish, a rank must not wait for another rank by other means, such as MPI, unless all ranks have
/// progress::thread.
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
