// Grids of each kind, meshes of several domains and arrays in blocks from C++, on 1 to 3 ranks, which are threads: tripolar grids and
// cubed spheres, halos without corners or clipped, staggered grids.
#include <algorithm>
#include <map>
#include <mutex>
#include <string>
#include <vector>

#include "expect.hpp"

namespace {

constexpr double empty = -12345;

// An array of a domain of a grid, with its halo: the owned cells have values, the halo has none.
template <class Value>
struct array {
    static constexpr int rank = 2;
    hp_box owned, all;
    std::vector<double> values;
    array(const haloport::pattern &of, Value value) : owned(of.owned()), all(of.with_halo()) {
        for (std::int64_t i = all.lower[0]; i < all.upper[0]; i++)
            for (std::int64_t j = all.lower[1]; j < all.upper[1]; j++) values.push_back(owns(i, j) ? value(i, j) : empty);
    }
    bool owns(std::int64_t i, std::int64_t j) const {
        return i >= owned.lower[0] && i < owned.upper[0] && j >= owned.lower[1] && j < owned.upper[1];
    }
    double *data() const { return const_cast<double *>(values.data()); }
    std::size_t extent(int axis) const { return static_cast<std::size_t>(all.upper[axis] - all.lower[axis]); }
    std::size_t stride(int axis) const { return axis == 0 ? extent(1) : 1; }
    double at(std::int64_t i, std::int64_t j) const {
        return values[static_cast<std::size_t>(i - all.lower[0]) * extent(1) + static_cast<std::size_t>(j - all.lower[1])];
    }
};

hp_grid grid_of(std::int64_t rows, std::int64_t columns, int width) {
    hp_grid grid = HP_GRID_INIT;
    grid.axes = 2, grid.cells[0] = rows, grid.cells[1] = columns;
    for (int axis = 0; axis < 2; axis++) grid.halo_lower[axis] = grid.halo_upper[axis] = width;
    return grid;
}

double value(std::int64_t i, std::int64_t j) { return static_cast<double>(100 * i + j + 1); }

// Points of a tripolar grid: (i, j) is the same as (a - i mod n, b - j), as docs/fields.md has it; here i counts along x.
void tripolar(haloport::communicator &comm) {
    constexpr std::int64_t m = 6, n = 8;
    for (int fold : {HP_FOLD_CELL, HP_FOLD_CORNER})
        for (int points : {HP_POINTS_CELLS, HP_POINTS_EAST_EDGES, HP_POINTS_NORTH_EDGES, HP_POINTS_CORNERS}) {
            hp_grid grid = grid_of(m, n, 1);
            grid.periodic[1] = 1, grid.fold = fold, grid.points = points;
            const auto pattern = haloport::pattern::split(comm, grid);
            const array u(pattern, value), v(pattern, value);
            hp_array like_v = haloport::describe(v);
            like_v.vector[0] = HP_CELLS + 1;
            haloport::plan(pattern, haloport::describe(u), like_v)(u, v);
            const bool east = points == HP_POINTS_EAST_EDGES || points == HP_POINTS_CORNERS;
            const bool north = points == HP_POINTS_NORTH_EDGES || points == HP_POINTS_CORNERS;
            const std::int64_t a = (fold == HP_FOLD_CELL ? n : n - 1) - east, b = (fold == HP_FOLD_CELL ? 2 * m - 2 : 2 * m - 1) - north;
            for (std::int64_t j = std::max<std::int64_t>(u.all.lower[0], 0); j < u.all.upper[0]; j++)
                for (std::int64_t i = u.all.lower[1]; i < u.all.upper[1]; i++) {
                    const std::int64_t at = (i + n) % n, other = (a - at + n) % n;
                    const bool folded = 2 * j > b || (2 * j == b && at > other);
                    const double expected = folded ? value(b - j, other) : value(j, at);
                    EXPECT(u.at(j, i) == expected && v.at(j, i) == (folded ? -expected : expected));
                }
        }
}

// What the halo of each tile of a cubed sphere holds, with one rank; on more it is the same.
std::map<std::int64_t, std::vector<int>> of_one_rank;
std::mutex lock;

void cubed_sphere(haloport::communicator &comm) {
    constexpr std::int64_t n = 4;
    hp_grid grid = HP_GRID_INIT;
    grid.axes = 3, grid.cells[0] = 6, grid.cells[1] = grid.cells[2] = n, grid.cubed_sphere = 1;
    for (int axis = 1; axis < 3; axis++) grid.halo_lower[axis] = grid.halo_upper[axis] = 1;
    std::vector<hp_box> boxes;
    for (std::int64_t tile = comm.rank(); tile < 6; tile += comm.size()) boxes.push_back({{tile, 0, 0, 0}, {tile + 1, n, n, 0}});
    const auto pattern = haloport::pattern::grid(comm, grid, boxes);
    EXPECT(pattern.domains() == static_cast<int>(boxes.size()) && !boxes.empty());
    std::vector<std::vector<int>> tiles;
    std::vector<hp_array> views;
    std::vector<void *> addresses;
    for (const hp_box &box : boxes) {
        tiles.emplace_back((n + 2) * (n + 2), -1);
        for (std::int64_t i = 0; i < n; i++)
            for (std::int64_t j = 0; j < n; j++)
                tiles.back()[static_cast<std::size_t>((i + 1) * (n + 2) + j + 1)] = static_cast<int>((box.lower[0] * n + i) * n + j);
        views.push_back(haloport::describe(kokkos_like<int, 3>{tiles.back().data(), {1, n + 2, n + 2}, {(n + 2) * (n + 2), n + 2, 1}}));
        addresses.push_back(tiles.back().data());
    }
    hp_plan *plan;
    haloport::check(hp_plan_create(pattern.get(), 1, views.data(), nullptr, nullptr, &plan));
    haloport::check(hp_exchange(plan, addresses.data(), hp_stream{HP_DEFAULT, 0, 0}));
    haloport::check(hp_plan_free(plan));
    for (std::size_t place = 0; place < tiles.size(); place++) {
        const std::vector<int> &tile = tiles[place];
        const std::int64_t number = boxes[place].lower[0];
        // Each edge comes from an edge of one other tile, and the corners from none.
        for (std::size_t edge = 0; edge < 4; edge++) {
            const auto along = [&](std::size_t k) {
                const std::size_t fixed = edge % 2 == 0 ? 0 : n + 1;
                return tile[edge < 2 ? fixed * (n + 2) + k : k * (n + 2) + fixed];
            };
            const std::int64_t from = along(1) / (n * n);
            EXPECT(along(0) == -1 && along(n + 1) == -1 && along(1) >= 0 && from != number);
            for (std::size_t k = 1; k <= n; k++) {
                const std::int64_t i = along(k) / n % n, j = along(k) % n;
                EXPECT(along(k) / (n * n) == from && (i == 0 || i == n - 1 || j == 0 || j == n - 1));
            }
        }
        const std::lock_guard<std::mutex> held(lock);
        if (comm.size() == 1) of_one_rank[number] = tile;
        EXPECT(of_one_rank.at(number) == tile);
    }
}

// The same with two levels, an axis of the grid without a halo.
void cubed_sphere_with_levels(haloport::communicator &comm) {
    constexpr std::int64_t n = 4, plane = (n + 2) * (n + 2);
    hp_grid grid = HP_GRID_INIT;
    grid.axes = 4, grid.cells[0] = 6, grid.cells[1] = 2, grid.cells[2] = grid.cells[3] = n, grid.cubed_sphere = 1;
    for (int axis = 2; axis < 4; axis++) grid.halo_lower[axis] = grid.halo_upper[axis] = 1;
    const std::int64_t first = 6 * comm.rank() / comm.size(), past = 6 * (comm.rank() + 1) / comm.size();
    const auto pattern = haloport::pattern::grid(comm, grid, {{{first, 0, 0, 0}, {past, 2, n, n}}});
    const hp_box all = pattern.with_halo();
    EXPECT(all.lower[1] == 0 && all.upper[1] == 2 && all.lower[3] == -1 && all.upper[3] == n + 1);
    std::vector<int> cells(static_cast<std::size_t>((past - first) * 2 * plane), -1);
    const auto at = [&](std::int64_t tile, std::int64_t level) { return static_cast<std::size_t>(((tile - first) * 2 + level) * plane); };
    for (std::int64_t tile = first; tile < past; tile++)
        for (std::int64_t level = 0; level < 2; level++)
            for (std::int64_t i = 0; i < n; i++)
                for (std::int64_t j = 0; j < n; j++)
                    cells[at(tile, level) + static_cast<std::size_t>((i + 1) * (n + 2) + j + 1)] =
                        static_cast<int>((tile * n + i) * n + j + 1000 * level);
    const std::size_t tiles = static_cast<std::size_t>(past - first);
    const kokkos_like<int, 4> view{cells.data(), {tiles, 2, n + 2, n + 2}, {2 * plane, plane, n + 2, 1}};
    haloport::plan(pattern, view)(view);
    const std::lock_guard<std::mutex> held(lock);
    for (std::int64_t tile = first; tile < past; tile++)
        for (std::int64_t level = 0; level < 2; level++)
            for (std::size_t place = 0; place < plane; place++) {
                const int expected = of_one_rank.at(tile)[place];
                EXPECT(cells[at(tile, level) + place] == (expected < 0 ? -1 : expected + 1000 * static_cast<int>(level)));
            }
}

// The boxes of the boundary have the owned cells that are not in the interior, each once.
void boundary(const haloport::pattern &pattern) {
    const auto inside = [](const hp_box &box, std::int64_t i, std::int64_t j) {
        return i >= box.lower[0] && i < box.upper[0] && j >= box.lower[1] && j < box.upper[1];
    };
    const hp_box owned = pattern.owned(), interior = pattern.interior();
    const std::vector<hp_box> boxes = pattern.boundary();
    EXPECT(boxes.size() <= 4);
    for (std::int64_t i = owned.lower[0] - 1; i <= owned.upper[0]; i++)
        for (std::int64_t j = owned.lower[1] - 1; j <= owned.upper[1]; j++) {
            const auto count = std::count_if(boxes.begin(), boxes.end(), [&](const hp_box &box) { return inside(box, i, j); });
            EXPECT(count == (inside(owned, i, j) && !inside(interior, i, j)));
        }
    EXPECT(throws([&] { pattern.boundary(1); }, HP_ARGUMENT, "domain: expected one of the 1 domains of this rank, found 1"));
}

// Nodes of a grid, of which there is one more than cells along each axis, in halos that end where the grid ends.
void staggered(haloport::communicator &comm) {
    hp_grid grid = grid_of(7, 5, 2);
    grid.clipped = 1;
    const auto cells = haloport::pattern::split(comm, grid);
    grid.cells[0]++, grid.cells[1]++, grid.like = cells.get();
    const auto nodes = haloport::pattern::split(comm, grid);
    boundary(cells), boundary(nodes);
    const array u(nodes, value);
    EXPECT(nodes.owned().lower[0] == cells.owned().lower[0] && u.all.lower[0] >= 0 && u.all.upper[0] <= 8 && u.all.upper[1] == 6);
    haloport::plan(nodes, u)(u);
    for (std::int64_t i = u.all.lower[0]; i < u.all.upper[0]; i++)
        for (std::int64_t j = u.all.lower[1]; j < u.all.upper[1]; j++) EXPECT(u.at(i, j) == value(i, j));
}

// Fields of a grid, of one with a wider halo, and of a mesh, in one exchange: the plan keeps its arrays, or they are passed.
void several_patterns(haloport::communicator &comm) {
    hp_grid grid = grid_of(9, 4, 1);
    grid.periodic[0] = grid.periodic[1] = 1;
    const auto narrow = haloport::pattern::split(comm, grid);
    for (int axis = 0; axis < 2; axis++) grid.halo_lower[axis] = grid.halo_upper[axis] = 2;
    const auto wide = haloport::pattern::split(comm, grid);
    const std::int64_t ranks = comm.size(), me = comm.rank(), next = (me + 1) % ranks;
    const auto ring = ranks > 1 ? haloport::pattern::ids(comm, {me, next}, {1, 0}) : haloport::pattern::ids(comm, {me}, {1});
    const auto wrapped = [](const array<decltype(&value)> &u) {
        for (std::int64_t i = u.all.lower[0]; i < u.all.upper[0]; i++)
            for (std::int64_t j = u.all.lower[1]; j < u.all.upper[1]; j++) EXPECT(u.at(i, j) == value((i + 9) % 9, (j + 4) % 4));
    };
    for (bool fixed : {false, true}) {
        const array u(narrow, &value), v(wide, &value);
        std::vector<int> cells{static_cast<int>(me), -1};
        const kokkos_like<int, 1> w{cells.data(), {ranks > 1 ? 2u : 1u}, {1}};
        if (fixed) {
            haloport::plan::fixed(narrow, haloport::of(wide, v), haloport::of(ring, w), u)();
        } else {
            haloport::plan update(narrow, u, haloport::of(wide, v), haloport::of(ring, w));
            update(u, v, w);
        }
        wrapped(u), wrapped(v);
        EXPECT(ranks == 1 || cells[1] == next);
        EXPECT(throws([&] { haloport::plan(narrow, haloport::of(wide, u)); }, HP_ARGUMENT, "like[0]"));
    }
}

// Of a periodic grid that is cut along its first axis.
void without_corners(haloport::communicator &comm) {
    hp_grid grid = grid_of(9, 4, 1);
    grid.periodic[0] = grid.periodic[1] = grid.faces_only = 1;
    grid.parts[0] = comm.size(), grid.parts[1] = 1;
    const auto pattern = haloport::pattern::split(comm, grid);
    const array u(pattern, value);
    haloport::plan(pattern, u)(u);
    for (std::int64_t i = u.all.lower[0]; i < u.all.upper[0]; i++)
        for (std::int64_t j = u.all.lower[1]; j < u.all.upper[1]; j++) {
            const bool is_corner = (i == u.all.lower[0] || i == u.all.upper[0] - 1) && (j == -1 || j == 4);
            EXPECT(u.at(i, j) == (is_corner ? empty : value((i + 9) % 9, (j + 4) % 4)));
        }
}

// Two domains of a mesh on each rank, and none on the last of three: a ring of cells whose ids are 10 apart, in arrays of blocks.
void mesh(haloport::communicator &comm) {
    const int parts = comm.size() == 3 ? 2 : comm.size();
    const std::int64_t each = 3, all = 2 * each * parts;
    std::vector<haloport::pattern::mesh_domain> domains;
    std::vector<std::vector<float>> values;
    const auto number = [&](std::int64_t cell) { return (cell + all) % all; };
    for (int domain = 0; domain < (comm.rank() < parts ? 2 : 0); domain++) {
        const std::int64_t first = (2 * comm.rank() + domain) * each;
        haloport::pattern::mesh_domain made;
        values.emplace_back();
        // The halo comes first. The last two places of the second block have no cells.
        for (std::int64_t cell = first - 1; cell <= first + each; cell++) {
            const bool is_owned = cell >= first && cell < first + each;
            made.ids.push_back(10 * number(cell));
            made.owned.push_back(is_owned);
            values.back().push_back(is_owned ? static_cast<float>(number(cell)) : -1);
        }
        values.back().resize(8, -7);
        domains.push_back(made);
    }
    const auto pattern = haloport::pattern::ids(comm, domains);
    EXPECT(pattern.domains() == static_cast<int>(domains.size()));
    if (!domains.empty()) EXPECT(throws([&] { pattern.boundary(); }, HP_ARGUMENT, "found one of a mesh"));
    const auto view = [&](std::size_t domain) {
        float *first = domain < values.size() ? values[domain].data() : nullptr;
        return haloport::describe(kokkos_like<float, 2>{first, {2, 4}, {4, 1}}, {HP_CELL_BLOCKS, HP_CELLS});
    };
    std::vector<hp_array> views;
    std::vector<void *> addresses;
    for (std::size_t domain = 0; domain < std::max<std::size_t>(domains.size(), 1); domain++) {
        views.push_back(view(domain));
        addresses.push_back(domain < values.size() ? values[domain].data() : nullptr);
    }
    hp_plan *plan;
    haloport::check(hp_plan_create(pattern.get(), 1, views.data(), nullptr, nullptr, &plan));
    haloport::check(hp_exchange(plan, addresses.data(), hp_stream{HP_DEFAULT, 0, 0}));
    haloport::check(hp_plan_free(plan));
    for (std::size_t domain = 0; domain < domains.size(); domain++)
        for (std::size_t place = 0; place < 8; place++)
            EXPECT(values[domain][place] == (place < 5 ? static_cast<float>(domains[domain].ids[place] / 10) : -7));
    // One rank has lists of other lengths, and all learn of it.
    if (comm.rank() == 0) domains[1].owned.pop_back();
    EXPECT(throws([&] { haloport::pattern::ids(comm, domains); }, comm.rank() == 0 ? HP_ARGUMENT : HP_REFUSED,
                  comm.rank() == 0 ? "domains[1].owned: expected this number of values: 5, found 4" : "rank 0: "));
}

std::string warnings;

// A rank that waits for another one warns, and gives up after its limit.
void limits() {
    haloport::check(hp_set_log(
        [](hp_level, const char *text, void *) {
            const std::lock_guard<std::mutex> held(lock);
            warnings += text;
        },
        nullptr));
    auto ranks = haloport::communicator::threads(2);
    ranks[0].set_warn_after(0.05);
    ranks[0].set_time_limit(0.2);
    EXPECT(throws([&] { ranks[0].barrier(); }, HP_TIME_LIMIT, "rank 1"));
    haloport::check(hp_set_log(nullptr, nullptr));
    const std::lock_guard<std::mutex> held(lock);
    EXPECT(warnings.find("rank 0 has waited") != std::string::npos);
}

} // namespace

int main() {
    for (int ranks : {1, 2, 3})
        haloport::run_ranks(ranks, [](haloport::communicator &comm) {
            tripolar(comm);
            cubed_sphere(comm);
            cubed_sphere_with_levels(comm);
            staggered(comm);
            without_corners(comm);
            several_patterns(comm);
            mesh(comm);
        });
    limits();
    return 0;
}
