// From rows to columns, and to one rank, in C++; and exact sums: on 1 to 3 ranks that are threads.
#include <array>
#include <cmath>
#include <cstdint>
#include <limits>
#include <vector>

#include "expect.hpp"

namespace {

constexpr int rows = 7, columns = 5;

// Of two axes; the first is the fastest if `transposed`.
struct view {
    static constexpr int rank = 2;
    std::vector<double> values;
    std::size_t extents[2];
    bool transposed;
    view(const haloport::box &box, bool transposed)
        : values(box.cells() + 1, -1), extents{box.extent(0), box.extent(1)}, transposed(transposed) {}
    double *data() const { return const_cast<double *>(values.data()); }
    std::size_t extent(int axis) const { return extents[axis]; }
    std::size_t stride(int axis) const { return (axis == 0) == transposed ? 1 : extents[transposed ? 0 : 1]; }
    double &at(std::size_t i, std::size_t j) { return values[i * stride(0) + j * stride(1)]; }
};

double value(std::int64_t i, std::int64_t j) { return static_cast<double>(10 * i + j); }

// Cuts the grid along an axis; all of it is on rank 0 if there is no axis.
haloport::pattern cut(const haloport::communicator &comm, int axis, int width) {
    haloport::grid grid;
    grid.shape = {rows, columns}, grid.halo = width;
    if (axis == 0) return haloport::pattern::split(comm, grid, {comm.size(), 1});
    if (axis == 1) return haloport::pattern::split(comm, grid, {1, comm.size()});
    const haloport::box all{{0, 0}, {rows, columns}};
    return haloport::pattern::grid(comm, grid, comm.rank() == 0 ? std::vector{all} : std::vector<haloport::box>{});
}

void rank(haloport::communicator &comm) {
    const auto from = cut(comm, 0, 0), to = cut(comm, 1, 0), whole = cut(comm, -1, 1);
    const auto to_columns = haloport::pattern::redistribution(from, to), gather = haloport::pattern::redistribution(to, whole);
    const auto scatter = haloport::pattern::redistribution(whole, from, true);
    const haloport::box mine = from.owned(), others = to.owned();
    view source(mine, false), target(others, true), back(mine, true);
    // On ranks without domains, of which only the type counts.
    const haloport::box nothing{{0, 0}, {0, 0}}, framed = whole.domains() > 0 ? whole.with_halo() : nothing;
    view all(framed, false);
    EXPECT(whole.domains() == (comm.rank() == 0));
    for (std::int64_t i = mine.lower[0]; i < mine.upper[0]; i++)
        for (std::int64_t j = 0; j < columns; j++) source.at(static_cast<std::size_t>(i - mine.lower[0]), static_cast<std::size_t>(j)) = value(i, j);

    haloport::plan transpose(to_columns, source, target);
    transpose.start(source, target).finish();
    for (std::int64_t i = 0; i < rows; i++)
        for (std::int64_t j = others.lower[1]; j < others.upper[1]; j++)
            EXPECT(target.at(static_cast<std::size_t>(i), static_cast<std::size_t>(j - others.lower[1])) == value(i, j));

    haloport::plan collect(gather, target, all);
    collect(target, all);
    for (std::size_t i = 0; comm.rank() == 0 && i < rows + 2; i++)
        for (std::size_t j = 0; j < columns + 2; j++) {
            const bool inside = i > 0 && i <= rows && j > 0 && j <= columns;
            EXPECT(all.at(i, j) == (inside ? value(static_cast<std::int64_t>(i) - 1, static_cast<std::int64_t>(j) - 1) : -1));
        }
    auto spread = haloport::plan::fixed(scatter, all, back);
    spread();
    for (std::int64_t i = mine.lower[0]; i < mine.upper[0]; i++)
        for (std::int64_t j = 0; j < columns; j++)
            EXPECT(back.at(static_cast<std::size_t>(i - mine.lower[0]), static_cast<std::size_t>(j)) == value(i, j));
    EXPECT(throws([&] { transpose(source); }, haloport::status::argument, "expected 2 arrays, found 1"));
    EXPECT(throws([&] { (void)to_columns.domains(); }, haloport::status::argument, "found a redistribution"));
    EXPECT(throws([&] { haloport::plan(to_columns, source); }, haloport::status::argument, "expected 2 arrays of field 0, one for each domain, found 1"));
    EXPECT(throws([&] { haloport::pattern::redistribution(to_columns, to); }, haloport::status::argument, "source: expected"));

    const std::vector<double> terms = comm.rank() == 0 ? std::vector<double>{1e100, 1} : std::vector<double>{};
    const std::vector<double> rest = comm.rank() == comm.size() - 1 ? std::vector<double>{-1e100, 0.25} : std::vector<double>{};
    std::vector<double> joined = terms;
    joined.insert(joined.end(), rest.begin(), rest.end());
    EXPECT(comm.sum_exact(joined) == 1.25);
    EXPECT(comm.sum_exact(joined, std::vector<double>(joined.size(), 2)) == 2.5);
    EXPECT(comm.sum_exact(std::vector<float>{0.5f}) == 0.5 * comm.size());
    EXPECT(throws([&] { comm.sum_exact(terms, std::vector<double>(terms.size() + 1)); }, haloport::status::argument, "weights"));
}

// Several sums in one message; under a mask, nothing is added, not even a NaN.
void sums(haloport::communicator &comm) {
    using haloport::terms;
    const double nan = std::numeric_limits<double>::quiet_NaN(), infinite = std::numeric_limits<double>::infinity();
    const int me = comm.rank();
    const double own = me + 1, all_own = comm.size() * (comm.size() + 1) / 2, count = comm.size();
    const std::vector<double> heat = {own, nan, own, infinite}, area = {0.5, 0, 2, infinite};
    const std::array<bool, 4> wet = {true, false, true, false};
    const std::vector<char> dry(4, 0);
    EXPECT(std::isnan(comm.sum_exact(heat, area)));
    EXPECT(comm.sum_exact(terms(heat).masked(wet)) == 2 * all_own);
    EXPECT(comm.sum_exact(terms(heat, area).masked(wet)) == 2.5 * all_own);
    const std::vector<double> sums =
        comm.sum_exact({{heat, area}, terms(heat, area).masked(wet), area, terms(heat).masked(dry), terms(area).masked(wet)});
    EXPECT(sums.size() == 5 && std::isnan(sums[0]) && sums[1] == 2.5 * all_own && sums[2] == infinite && sums[3] == 0);
    EXPECT(sums[4] == 2.5 * count && comm.sum_exact({area}) == std::vector<double>{infinite});
    const std::vector<float> narrow = {0.25f, std::numeric_limits<float>::infinity()};
    const std::array<std::uint8_t, 2> first = {7, 0};
    const std::vector<terms> listed(3, terms(narrow).masked(first));
    EXPECT(comm.sum_exact(listed) == std::vector<double>(3, 0.25 * count));
    EXPECT(comm.sum_exact(std::vector<terms>{}).empty());
    const auto refuses = [&](const char *text, const auto &call) { EXPECT(throws(call, haloport::status::argument, text)); };
    refuses("mask of sum 1: expected as many as values, 4, found 3", [&] { comm.sum_exact({area, terms(heat).masked(std::array<bool, 3>{})}); });
    refuses("weights of sum 0: expected as many as values, 4, found 2", [&] { comm.sum_exact({{heat, std::array<double, 2>{}}}); });
    refuses("values of sum 1: expected double as in sum 0, found float", [&] { comm.sum_exact({area, narrow}); });
    // The other ranks learn of a wrong argument of rank 0.
    const auto status = me == 0 ? haloport::status::argument : haloport::status::refused;
    const auto one_is_wrong = [&] { comm.sum_exact(me == 0 ? terms(heat).masked(first) : terms(heat)); };
    EXPECT(throws(one_is_wrong, status, me == 0 ? "mask of sum 0" : "out of step"));
}

} // namespace

int main() {
    for (int ranks = 1; ranks <= 3; ranks++) {
        haloport::run_ranks(ranks, rank);
        haloport::run_ranks(ranks, sums);
    }
    return 0;
}
