// Views of C++ in exchanges: like those of Kokkos, and like std::mdspan.
#include <atomic>
#include <cstdlib>
#include <new>
#include <string>
#include <thread>
#include <type_traits>
#include <utility>
#include <vector>

#include "expect.hpp"

// How often `new` was called on this thread.
static thread_local long allocations = 0;

// Inlined, GCC takes it and `delete` for functions that do not belong together.
[[gnu::noinline]] void *operator new(std::size_t bytes) {
    allocations++;
    void *made = std::malloc(bytes);
    if (!made) throw std::bad_alloc();
    return made;
}
[[gnu::noinline]] void operator delete(void *memory) noexcept { std::free(memory); }
[[gnu::noinline]] void operator delete(void *memory, std::size_t) noexcept { std::free(memory); }

namespace {

// A view as std::mdspan: a rank function, data_handle().
template <class T>
struct mdspan_like {
    T *first;
    std::size_t extents[2];
    static constexpr std::size_t rank() { return 2; }
    T *data_handle() const { return first; }
    std::size_t extent(int axis) const { return extents[axis]; }
    std::size_t stride(int axis) const { return axis == 0 ? extents[1] : 1; }
};

struct cell {
    float depth;
    int kind;
};

// Looks like a sycl::queue.
struct queue {
    int get_context() const { return 0; }
    bool is_in_order() const { return true; }
};

// What must not compile: numbers in place of names, numbers that are no integers, addresses of what is gone, fields that are constant.
template <class V, class = void>
constexpr bool has_order = false;
template <class V>
constexpr bool has_order<V, std::void_t<decltype(haloport::on(std::declval<V>()))>> = true;
template <class By, class = void>
constexpr bool reduces = false;
template <class By>
constexpr bool reduces<By, std::void_t<decltype(std::declval<haloport::communicator &>().all_reduce(1.0, std::declval<By>()))>> = true;

using axes = haloport::per_axis<std::int64_t>;
using flags = haloport::per_axis<bool>;
using widths = haloport::per_axis<haloport::halo_width>;
static_assert(std::is_constructible_v<axes, int, std::size_t> && std::is_assignable_v<axes &, std::vector<unsigned>>);
static_assert(std::is_constructible_v<axes, const int (&)[2]> && !std::is_constructible_v<axes, double> && !std::is_constructible_v<axes, bool>);
static_assert(!std::is_constructible_v<axes, std::vector<float>> && !std::is_constructible_v<axes, char>);
static_assert(std::is_assignable_v<flags &, bool> && !std::is_assignable_v<flags &, const char (&)[4]>);
static_assert(std::is_assignable_v<widths &, int> && !std::is_assignable_v<widths &, bool> && !std::is_assignable_v<widths &, double>);
static_assert(!std::is_convertible_v<int, haloport::role>);
static_assert(!std::is_constructible_v<haloport::per_axis<haloport::role, 8>, int, int>);
static_assert(!std::is_assignable_v<haloport::fold &, int> && !std::is_assignable_v<haloport::points &, int>);
static_assert(std::is_convertible_v<kokkos_like<double, 2>, haloport::layout>);
static_assert(!std::is_convertible_v<std::vector<double>, haloport::layout>);
static_assert(has_order<int *> && has_order<std::uintptr_t> && has_order<queue &>);
static_assert(!has_order<queue> && !has_order<queue *> && !has_order<cell &> && !has_order<double>);
static_assert(reduces<haloport::reduction> && !reduces<int>);

// Cell 1 of each rank is a copy of cell 0 of the rank before it.
void lists(haloport::communicator &comm) {
    const int before = (comm.rank() + comm.size() - 1) % comm.size(), behind = (comm.rank() + 1) % comm.size();
    auto ring = haloport::pattern::lists(comm, 2, {{behind, {0}}}, {{before, {1}}});
    std::vector<int> cells{100 + comm.rank(), -1};
    const kokkos_like<int, 1> view{cells.data(), {2}, {1}};
    haloport::plan update(ring, view);
    update(view);
    EXPECT(cells[0] == 100 + comm.rank() && cells[1] == 100 + before);
    const kokkos_like<int, 1> longer{cells.data(), {3}, {1}}, apart{cells.data(), {2}, {2}};
    const kokkos_like<float, 1> other{nullptr, {2}, {1}};
    EXPECT(throws([&] { update(longer); }, haloport::status::argument, "array 0: expected the extents"));
    EXPECT(throws([&] { update(apart); }, haloport::status::argument, "array 0: expected the extents"));
    EXPECT(throws([&] { update(other); }, haloport::status::argument, "array 0: expected the extents"));
    haloport::options with;
    with.accumulate = "max", with.zero_halo = true;
    haloport::plan back(ring, with, view);
    cells = {7, 100 + comm.rank()};
    back(view);
    EXPECT(cells[0] == 100 + behind && cells[1] == 0);
    with.accumulate = "mean";
    EXPECT(throws([&] { haloport::plan(ring, with, view); }, haloport::status::argument, "options.accumulate"));
}

// Values, rows of values and texts of one rank on all, and values of all ranks on one.
void values_of_one_rank(haloport::communicator &comm) {
    const int root = comm.size() - 1;
    const cell found = comm.broadcast(cell{static_cast<float>(comm.rank()), comm.rank()}, root);
    EXPECT(found.depth == static_cast<float>(root) && found.kind == root);
    const auto row = comm.broadcast(std::vector<int>(static_cast<std::size_t>(comm.rank()), 3), root);
    EXPECT(row == std::vector<int>(static_cast<std::size_t>(root), 3));
    EXPECT(comm.broadcast(comm.rank() == 0 ? std::string("heat.toml") : std::string()) == "heat.toml");
    const std::vector<double> all = comm.gather(comm.rank() + 0.5, root);
    EXPECT(all.size() == static_cast<std::size_t>(comm.rank() == root ? comm.size() : 0));
    for (std::size_t from = 0; from < all.size(); from++) EXPECT(all[from] == static_cast<double>(from) + 0.5);
    EXPECT(throws([&] { (void)comm.gather(1, comm.size()); }, haloport::status::argument, "root: expected one of the "));
}

void rank(haloport::communicator &comm) {
    haloport::grid grid;
    grid.shape = {12, 8}, grid.periodic = true;
    auto pattern = haloport::pattern::split(comm, grid);
    EXPECT(pattern.domains() == 1);
    const auto ranks = static_cast<std::int64_t>(comm.size());
    EXPECT(comm.all_reduce(static_cast<std::int64_t>(comm.rank())) == ranks * (ranks - 1) / 2);
    EXPECT(comm.all_reduce(comm.rank() - 0.5, haloport::reduction::min) == -0.5);
    values_of_one_rank(comm);
    lists(comm);
    const haloport::box mine = pattern.owned(), all = pattern.with_halo(), inner = pattern.interior();
    EXPECT(inner.lower[0] >= mine.lower[0] && pattern.describe().find("\"domains\":1") != std::string::npos);
    const std::size_t ni = all.extent(0), nj = all.extent(1);
    EXPECT(all.cells() == ni * nj && all.axes() == 2 && all != mine);
    std::vector<double> depths(3 * ni * nj, -1);
    std::vector<cell> cells(ni * nj);
    // Levels, then the first axis fastest.
    const kokkos_like<double, 3> u{depths.data(), {ni, nj, 3}, {1, ni, ni * nj}};
    const mdspan_like<cell> v{cells.data(), {ni, nj}};
    auto value = [](int64_t i, int64_t j, std::size_t level) { return static_cast<double>((i + 12) % 12 * 100 + (j + 8) % 8 * 10) + static_cast<double>(level); };
    auto fill = [&] {
        for (int64_t i = mine.lower[0]; i < mine.upper[0]; i++)
            for (int64_t j = mine.lower[1]; j < mine.upper[1]; j++) {
                const auto at_i = static_cast<std::size_t>(i - all.lower[0]), at_j = static_cast<std::size_t>(j - all.lower[1]);
                for (std::size_t level = 0; level < 3; level++) depths[at_i + ni * (at_j + nj * level)] = value(i, j, level);
                cells[at_i * nj + at_j] = {static_cast<float>(value(i, j, 0)), 7};
            }
    };
    auto check = [&] {
        for (int64_t i = all.lower[0]; i < all.upper[0]; i++)
            for (int64_t j = all.lower[1]; j < all.upper[1]; j++) {
                const auto at_i = static_cast<std::size_t>(i - all.lower[0]), at_j = static_cast<std::size_t>(j - all.lower[1]);
                for (std::size_t level = 0; level < 3; level++)
                    EXPECT(depths[at_i + ni * (at_j + nj * level)] == value(i, j, level));
                EXPECT(cells[at_i * nj + at_j].depth == static_cast<float>(value(i, j, 0)) && cells[at_i * nj + at_j].kind == 7);
            }
        depths.assign(depths.size(), -1);
        cells.assign(cells.size(), cell{-1, -1});
        fill();
    };
    fill();
    haloport::plan update(pattern, u, v);
    EXPECT(update.describe().find("cpu") != std::string::npos);
    update(u, v);
    check();
    auto pending = update.start(u, v);
    while (!pending.ready()) std::this_thread::yield();
    pending.finish();
    check();
    { auto dropped = update.start(u, v, haloport::block); } // its destructor finishes it
    check();
    haloport::plan moved = std::move(update);
    moved(u, v);
    check();
    moved(u, v, haloport::on(static_cast<int *>(nullptr)));
    check();
    const queue other;
    moved(u, v, haloport::on(other));
    check();
    const hp_stream of_other = haloport::on(other).get(), unset = haloport::options{}.queue.get();
    EXPECT(of_other.kind == HP_SYCL && of_other.handle == reinterpret_cast<std::uintptr_t>(&other) && unset.kind == HP_DEFAULT);
    // A call allocates nothing here; the library is not looked at.
    const long before = allocations;
    moved(u, v);
    moved.start(u, v, haloport::block).finish();
    EXPECT(allocations == before);
    check();
    auto fixed = haloport::plan::fixed(pattern, u, v);
    fixed();
    check();
    fixed.start().finish();
    haloport::options shares;
    shares.share = true;
    haloport::plan::fixed(pattern, shares, u, v)();
    check();
    fixed(haloport::block);
    check();
    haloport::options with;
    with.path = "messages", with.threads = 2;
    auto packed = haloport::plan::fixed(pattern, with, u, v);
    EXPECT(comm.size() == 1 || packed.describe().find("\"path\":\"messages\"") != std::string::npos);
    packed.start(haloport::block).finish();
    check();
    with.path = "by hand";
    EXPECT(throws([&] { haloport::plan made(pattern, with, u); }, haloport::status::argument, "options.path"));
    // Axes that are named by their roles, in memory that neighbours can map, and a plan that keeps such an array.
    using haloport::axis, haloport::role;
    const haloport::layout like = haloport::layout::contiguous<double>({3, ni, nj}, {role::levels, axis(0), axis(1)});
    haloport::memory memory(pattern, like);
    const kokkos_like<double, 3> w{static_cast<double *>(memory.data()), {3, ni, nj}, {ni * nj, nj, 1}};
    EXPECT(*w.data() == 0);
    haloport::plan::fixed(pattern, haloport::layout(w, {role::levels, axis(0), axis(1)}))();
    haloport::plan(pattern, like)(w);
    EXPECT(throws([&] { haloport::plan(pattern, like)(u); }, haloport::status::argument, "array 0: expected the extents"));
    EXPECT(throws([&] { haloport::plan::fixed(pattern, like); }, haloport::status::argument, "data[0]: expected an address"));
    EXPECT(throws([&] { haloport::memory made(pattern, haloport::layout(u, {axis(0)})); }, haloport::status::argument, "roles: expected one"));
    // Errors are exceptions with a status and a text.
    EXPECT(throws([&] { moved(u); }, haloport::status::argument, "expected 2 arrays, found 1"));
    auto one = moved.start(u, v);
    EXPECT(throws([&] { auto two = moved.start(u, v); }, haloport::status::in_flight, ""));
    one.finish();
    // An hp_array of C can be handed over.
    hp_array wrong = like.given();
    haloport::plan(pattern, wrong)(w);
    wrong.extent[0] = -1;
    EXPECT(throws([&] { haloport::plan made(pattern, wrong); }, haloport::status::argument, "like[0].extent"));
}

// Ranks as threads; if one throws, the waits of the others end, and its exception is the one that comes out.
void ranks_as_threads() {
    std::atomic<int> sum{0};
    haloport::run_ranks(3, [&](haloport::communicator &comm) { sum += comm.rank() + 10 * comm.size(); });
    EXPECT(sum == 93);
    std::string found;
    try {
        haloport::run_ranks(3, [](haloport::communicator &comm) {
            if (comm.rank() == 1) throw std::string("of rank 1");
            comm.barrier();
        });
    } catch (const std::string &thrown) {
        found = thrown;
    }
    EXPECT(found == "of rank 1");
    EXPECT(throws([] { haloport::run_ranks(-1, [](haloport::communicator &) {}); }, haloport::status::argument, "ranks"));
}

} // namespace

// Grids in one expression.
void literals() {
    const haloport::grid one{{64, 48}, {{1, 0}, {2, 2}}, true};
    EXPECT(one.shape.size() == 2 && one.halo[0].lower == 1 && one.halo[0].upper == 0 && one.halo[1].upper == 2 && one.periodic[0] && one.corners);
#if __cplusplus >= 202002L
    const haloport::grid other{.shape = {64, 48}, .halo = 2, .corners = false};
    EXPECT(other.shape == one.shape && other.halo.size() == 1 && other.halo[0].upper == 2 && !other.periodic[0] && !other.corners);
#endif
}

int main() {
    literals();
    static_assert(haloport::type_of<double>() == HP_F64 && haloport::type_of<std::complex<float>>() == HP_C64);
    static_assert(haloport::type_of<unsigned short>() == HP_U16 && haloport::type_of<long long>() == HP_I64);
    static_assert(haloport::type_of<cell>() == HP_BYTES && haloport::type_of<bool>() == HP_U8);
    for (int ranks : {1, 2, 4}) haloport::run_ranks(ranks, rank);
    ranks_as_threads();
    auto alone = std::move(haloport::communicator::threads(1)[0]);
    EXPECT(alone.rank() == 0 && alone.size() == 1);
    auto mesh = haloport::pattern::ids(alone, {4, 2, 9}, {1, 1, 1});
    EXPECT(mesh.owned().upper[0] == 3);
    EXPECT(throws([&] { haloport::pattern::ids(alone, {4, 2, 9}, {1, 1}); }, haloport::status::argument,
                  "owned: expected this number of values: 3, found 2"));
    EXPECT(haloport::describe_machine().find("version") != std::string::npos);
    return 0;
}
