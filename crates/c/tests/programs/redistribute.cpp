// From rows to columns, and to one rank, in C++; and exact sums: on 1 to 3 ranks that are threads.
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

} // namespace

int main() {
    for (int ranks = 1; ranks <= 3; ranks++) haloport::run_ranks(ranks, rank);
    return 0;
}
