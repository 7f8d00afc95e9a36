// Grids of each kind, meshes of several domains and arrays in blocks from C++, on 1 to 3 ranks, which are threads: tripolar grids and
// cubed spheres, halos without corners or clipped, staggered grids; and halos that are accumulated.
#include <algorithm>
#include <map>
#include <mutex>
#include <string>
#include <vector>

#include "expect.hpp"

namespace {

using haloport::fold, haloport::points, haloport::role;

constexpr double empty = -12345;

// An array of a domain of a grid, with its halo: the owned cells have values, the halo has none.
template <class Value>
struct array {
    static constexpr int rank = 2;
    haloport::box owned, all;
    std::vector<double> values;
    array(const haloport::pattern &of, Value value) : owned(of.owned()), all(of.with_halo()) {
        for (std::int64_t i = all.lower[0]; i < all.upper[0]; i++)
            for (std::int64_t j = all.lower[1]; j < all.upper[1]; j++) values.push_back(owns(i, j) ? value(i, j) : empty);
    }
    bool owns(std::int64_t i, std::int64_t j) const {
        return i >= owned.lower[0] && i < owned.upper[0] && j >= owned.lower[1] && j < owned.upper[1];
    }
    double *data() const { return const_cast<double *>(values.data()); }
    std::size_t extent(std::size_t axis) const { return all.extent(axis); }
    std::size_t stride(std::size_t axis) const { return axis == 0 ? extent(1) : 1; }
    double at(std::int64_t i, std::int64_t j) const {
        return values[static_cast<std::size_t>(i - all.lower[0]) * extent(1) + static_cast<std::size_t>(j - all.lower[1])];
    }
};

double value(std::int64_t i, std::int64_t j) { return static_cast<double>(100 * i + j + 1); }

// Whether a collective call throws on all ranks: on rank 0, which alone passes a wrong value, this text.
template <class Call>
bool refused_on_rank_0(const haloport::communicator &comm, Call call, const char *text) {
    return comm.rank() == 0 ? throws(call, haloport::status::argument, text) : throws(call, haloport::status::refused, "rank 0: ");
}

// Values of members and arguments that are wrong on one rank: all learn of it.
void wrong_values(haloport::communicator &comm) {
    using haloport::box, haloport::grid, haloport::layout, haloport::pattern;
    grid right;
    right.shape = {9, 4};
    const auto refused = [&](const char *text, auto change) {
        grid found = right;
        if (comm.rank() == 0) change(found);
        return refused_on_rank_0(comm, [&] { pattern::split(comm, found); }, text);
    };
    EXPECT(refused("grid.shape: expected 1 to 4 axes, found 0", [](grid &wrong) { wrong.shape = {}; }));
    EXPECT(refused("grid.shape: expected 1 to 4 axes, found 5", [](grid &wrong) { wrong.shape = {9, 4, 1, 1, 1}; }));
    EXPECT(refused("grid.cells: expected a number of 0 or more", [](grid &wrong) { wrong.shape = {9, -4}; }));
    EXPECT(refused("grid.halo: expected one value for all axes, or one for each of 2, found 3", [](grid &wrong) { wrong.halo = {1, 1, 1}; }));
    EXPECT(refused("grid.halo: expected one value for all axes, or one for each of 2, found 0", [](grid &wrong) { wrong.halo = {}; }));
    EXPECT(refused("found -1", [](grid &wrong) { wrong.halo = std::int64_t{1} << 32; }));
    EXPECT(refused("grid.periodic: expected one value", [](grid &wrong) { wrong.periodic = std::vector<bool>(5); }));
    EXPECT(refused("grid.points: expected", [](grid &wrong) { wrong.points = points::corners; }));
    // The parts and the boxes.
    const int ranks = comm.size();
    using parts = haloport::per_axis<std::int64_t>;
    const auto cut = [&](const parts &wrong, const char *text) {
        return refused_on_rank_0(comm, [&] { pattern::split(comm, right, comm.rank() == 0 ? wrong : parts{ranks, 1}); }, text);
    };
    EXPECT(cut({1, ranks, 1}, "parts: expected one value for all axes, or one for each of 2, found 3"));
    EXPECT(cut({7, ranks}, "grid.parts: expected one for each of") && cut({(std::int64_t{1} << 32) + ranks, 1}, "found -1"));
    const auto own = [&](const box &wrong, const char *text) {
        const std::vector<box> boxes(comm.rank() == 0, wrong);
        return refused_on_rank_0(comm, [&] { pattern::grid(comm, right, boxes); }, text);
    };
    EXPECT(own({{0, 0}, {9}}, "boxes[0]: expected a first cell and one past the last along each of 2 axes, found 1"));
    EXPECT(own({{0, 0, 0}, {9, 4, 1}}, "along each of 2 axes, found 3") && own({{0, 0}, {-9, 4}}, "boxes[0]: expected a first cell before"));
    // Roles and directions of an array.
    const auto cells = pattern::split(comm, right);
    const array u(cells, [](std::int64_t, std::int64_t) { return 1.0; });
    const auto described = [&](const char *text, auto change) {
        layout like = u;
        if (comm.rank() == 0) change(like);
        return refused_on_rank_0(comm, [&] { haloport::plan(cells, u, like); }, text);
    };
    EXPECT(described("array 1: roles: expected one for each of 2 axes, found 1", [](layout &wrong) { wrong.roles = {role::cells}; }));
    EXPECT(described("like[1].role[1]", [](layout &wrong) { wrong.roles = {haloport::axis(0), haloport::axis(9)}; }));
    EXPECT(described("like[1].vector[0]", [](layout &wrong) { wrong.vector = {-1}; }));
    EXPECT(described("array 1: vector: expected at most 4 values, found 5", [](layout &wrong) { wrong.vector = {0, 0, 0, 0, 0}; }));
    EXPECT(described("array 1: origin: expected at most 4 values, found 5", [](layout &wrong) { wrong.origin = {1, 1, 0, 0, 0}; }));
    EXPECT(described("there is no device `abacus`", [](layout &wrong) { wrong.device = "abacus"; }));
    // An axis that a box does not have, also one of a pattern that C has made.
    hp_grid of_c = HP_GRID_INIT;
    of_c.axes = 2, of_c.cells[0] = 9, of_c.cells[1] = 4;
    const auto taken = [&](std::size_t axes) {
        hp_pattern *made = nullptr;
        haloport::check(hp_pattern_grid(comm.get(), &of_c, HP_SPLIT, nullptr, &made));
        return pattern(made, axes);
    };
    EXPECT(taken(2).with_halo() == cells.owned() && taken(9).owned().axes() == 4);
    EXPECT(throws([&] { (void)cells.owned().lower[2]; }, haloport::status::argument, "expected one of 2 axes, found axis 2"));
}

// Points of a tripolar grid: (i, j) is the same as (a - i mod n, b - j), as docs/fields.md has it; here i counts along x.
void tripolar(haloport::communicator &comm) {
    constexpr std::int64_t m = 6, n = 8;
    for (const fold pivot : {fold::cell, fold::corner})
        for (const points at : {points::cells, points::east_edges, points::north_edges, points::corners}) {
            haloport::grid grid;
            grid.shape = {m, n}, grid.fold = pivot, grid.points = at;
            const auto pattern = haloport::pattern::split(comm, grid);
            const array u(pattern, value), v(pattern, value);
            haloport::layout like_v = v;
            like_v.vector = {1};
            haloport::plan(pattern, u, like_v)(u, v);
            const bool east = at == points::east_edges || at == points::corners, north = at == points::north_edges || at == points::corners;
            const std::int64_t a = (pivot == fold::cell ? n : n - 1) - east, b = (pivot == fold::cell ? 2 * m - 2 : 2 * m - 1) - north;
            for (std::int64_t j = std::max<std::int64_t>(u.all.lower[0], 0); j < u.all.upper[0]; j++)
                for (std::int64_t i = u.all.lower[1]; i < u.all.upper[1]; i++) {
                    const std::int64_t place = (i + n) % n, other = (a - place + n) % n;
                    const bool folded = 2 * j > b || (2 * j == b && place > other);
                    const double expected = folded ? value(b - j, other) : value(j, place);
                    EXPECT(u.at(j, i) == expected && v.at(j, i) == (folded ? -expected : expected));
                }
        }
}

// What the halo of each tile of a cubed sphere holds, with one rank; on more it is the same.
std::map<std::int64_t, std::vector<int>> of_one_rank;
std::mutex lock;

void cubed_sphere(haloport::communicator &comm) {
    constexpr std::int64_t n = 4;
    haloport::grid grid;
    grid.shape = {6, n, n}, grid.cubed_sphere = true;
    std::vector<haloport::box> boxes;
    for (std::int64_t tile = comm.rank(); tile < 6; tile += comm.size()) boxes.push_back({{tile, 0, 0}, {tile + 1, n, n}});
    const auto pattern = haloport::pattern::grid(comm, grid, boxes);
    EXPECT(pattern.domains() == static_cast<int>(boxes.size()) && boxes.size() > 1 && pattern.owned(1) == boxes[1]);
    EXPECT(throws([&] { haloport::memory made(pattern, haloport::layout::contiguous<int>({1, n + 2, n + 2})); }, haloport::status::argument,
                  "expected a pattern with one domain on this rank, found"));
    std::vector<std::vector<int>> tiles;
    std::vector<hp_array> views;
    std::vector<void *> addresses;
    for (const haloport::box &box : boxes) {
        tiles.emplace_back((n + 2) * (n + 2), -1);
        for (std::int64_t i = 0; i < n; i++)
            for (std::int64_t j = 0; j < n; j++)
                tiles.back()[static_cast<std::size_t>((i + 1) * (n + 2) + j + 1)] = static_cast<int>((box.lower[0] * n + i) * n + j);
        views.push_back(haloport::layout(kokkos_like<int, 3>{tiles.back().data(), {1, n + 2, n + 2}, {(n + 2) * (n + 2), n + 2, 1}}).given());
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
    haloport::grid grid;
    grid.shape = {6, 2, n, n}, grid.halo = {0, 0, 1, 1}, grid.cubed_sphere = true;
    const std::int64_t first = 6 * comm.rank() / comm.size(), past = 6 * (comm.rank() + 1) / comm.size();
    const auto pattern = haloport::pattern::grid(comm, grid, {{{first, 0, 0, 0}, {past, 2, n, n}}});
    const haloport::box all = pattern.with_halo();
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
    const auto inside = [](const haloport::box &box, std::int64_t i, std::int64_t j) {
        return i >= box.lower[0] && i < box.upper[0] && j >= box.lower[1] && j < box.upper[1];
    };
    const haloport::box owned = pattern.owned(), interior = pattern.interior();
    const std::vector<haloport::box> boxes = pattern.boundary();
    EXPECT(boxes.size() <= 4);
    for (std::int64_t i = owned.lower[0] - 1; i <= owned.upper[0]; i++)
        for (std::int64_t j = owned.lower[1] - 1; j <= owned.upper[1]; j++) {
            const auto count = std::count_if(boxes.begin(), boxes.end(), [&](const haloport::box &box) { return inside(box, i, j); });
            EXPECT(count == (inside(owned, i, j) && !inside(interior, i, j)));
        }
    EXPECT(throws([&] { pattern.boundary(1); }, haloport::status::argument, "domain: expected one of the 1 domains of this rank, found 1"));
}

// Nodes of a grid, of which there is one more than cells along each axis, in halos that end where the grid ends.
void staggered(haloport::communicator &comm) {
    haloport::grid grid;
    grid.shape = {7, 5}, grid.halo = 2, grid.clipped = true;
    auto cells = haloport::pattern::split(comm, grid);
    grid.shape[0]++, grid.shape[1]++;
    const auto nodes = haloport::pattern::like(comm, grid, cells);
    boundary(cells), boundary(nodes);
    const array u(nodes, value);
    EXPECT(nodes.owned().lower[0] == cells.owned().lower[0] && u.all.lower[0] >= 0 && u.all.upper[0] <= 8 && u.all.upper[1] == 6);
    haloport::plan(nodes, u)(u);
    for (std::int64_t i = u.all.lower[0]; i < u.all.upper[0]; i++)
        for (std::int64_t j = u.all.lower[1]; j < u.all.upper[1]; j++) EXPECT(u.at(i, j) == value(i, j));
    // A pattern that was moved from is none, of which all ranks learn.
    const auto moved = std::move(cells);
    const auto &like = comm.rank() == 0 ? cells : moved, &of = comm.rank() == 0 ? cells : nodes;
    EXPECT(refused_on_rank_0(comm, [&] { haloport::pattern::like(comm, grid, like); }, "like: expected the pattern"));
    EXPECT(refused_on_rank_0(comm, [&] { haloport::plan(nodes, haloport::of(of, u)); }, "array 0: of: expected a pattern"));
}

// Fields of a grid, of one with a wider halo, and of a mesh, in one exchange: the plan keeps its arrays, or they are passed.
void several_patterns(haloport::communicator &comm) {
    haloport::grid grid;
    grid.shape = {9, 4}, grid.periodic = true;
    const auto narrow = haloport::pattern::split(comm, grid);
    grid.halo = 2;
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
        EXPECT(throws([&] { haloport::plan(narrow, haloport::of(wide, u)); }, haloport::status::argument, "like[0]"));
    }
}

// Of a periodic grid that is cut along its first axis.
void without_corners(haloport::communicator &comm) {
    haloport::grid grid;
    grid.shape = {9, 4}, grid.periodic = true, grid.corners = false;
    const auto pattern = haloport::pattern::split(comm, grid, {comm.size(), 1});
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
            if (comm.size() == 2) made.owners.push_back(static_cast<std::int32_t>(number(cell) / (2 * each)));
            values.back().push_back(is_owned ? static_cast<float>(number(cell)) : -1);
        }
        values.back().resize(8, -7);
        domains.push_back(made);
    }
    const auto pattern = haloport::pattern::ids(comm, domains);
    EXPECT(pattern.domains() == static_cast<int>(domains.size()));
    if (!domains.empty()) EXPECT(throws([&] { pattern.boundary(); }, haloport::status::argument, "found one of a mesh"));
    const auto view = [&](std::size_t domain) {
        float *first = domain < values.size() ? values[domain].data() : nullptr;
        return haloport::layout(kokkos_like<float, 2>{first, {2, 4}, {4, 1}}, {role::blocks, role::cells}).given();
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
    EXPECT(throws([&] { haloport::pattern::ids(comm, domains); }, comm.rank() == 0 ? haloport::status::argument : haloport::status::refused,
                  comm.rank() == 0 ? "domains[1].owned: expected this number of values: 5, found 4" : "rank 0: "));
}

// A cell of a rank, in the order of its arrays.
struct cell {
    std::int64_t id;
    bool is_owned;
};

// The values that all ranks have in their halos, by the cell.
std::map<std::int64_t, std::vector<int>> in_halos;

int combined(const std::string &how, int one, int other) {
    if (how == "sum") return one + other;
    return how == "min" ? std::min(one, other) : how == "max" ? std::max(one, other) : other;
}

// Owners find their value combined with those of all halos. `view` makes an array of its address. No cell is in two halos if `is_single`.
template <class View>
void accumulated(haloport::communicator &comm, const haloport::pattern &pattern, const std::vector<cell> &cells, bool is_single, View view) {
    const auto before = [&](std::size_t place) { return (comm.rank() * 7919 + static_cast<int>(place) * 1543) % 2003 - 1000; };
    const auto on_all = [&](auto change) {
        comm.barrier();
        {
            const std::lock_guard<std::mutex> held(lock);
            change();
        }
        comm.barrier();
    };
    on_all([&] {
        for (std::size_t place = 0; place < cells.size(); place++)
            if (!cells[place].is_owned) in_halos[cells[place].id].push_back(before(place));
    });
    for (const std::string how : {"sum", "min", "max", "replace"})
        for (const bool zero_halo : {false, true}) {
            if (how == "replace" && !is_single) continue;
            std::vector<float> u;
            std::vector<std::int64_t> w;
            for (std::size_t place = 0; place < cells.size(); place++) u.push_back(0.5f * static_cast<float>(before(place))), w.push_back(before(place));
            haloport::options with;
            with.accumulate = how, with.zero_halo = zero_halo;
            haloport::plan plan(pattern, with, view(u.data()), view(w.data()));
            plan(view(u.data()), view(w.data()));
            for (std::size_t place = 0; place < cells.size(); place++) {
                int expected = cells[place].is_owned || !zero_halo ? before(place) : 0;
                const auto found = in_halos.find(cells[place].id);
                if (cells[place].is_owned && found != in_halos.end())
                    for (const int value : found->second) expected = combined(how, expected, value);
                EXPECT(u[place] == 0.5f * static_cast<float>(expected) && w[place] == expected);
            }
        }
    on_all([] { in_halos.clear(); });
}

// Of boxes, of ragged parts of a mesh, and of lists.
void accumulated(haloport::communicator &comm) {
    const int me = comm.rank(), ranks = comm.size(), behind = (me + 1) % ranks, ahead = (me + ranks - 1) % ranks;
    const auto in_row = [](std::size_t cells) {
        return [cells](auto *first) { return kokkos_like<std::remove_pointer_t<decltype(first)>, 1>{first, {cells}, {1}}; };
    };
    for (const bool is_single : {true, false}) {
        haloport::grid grid;
        grid.shape = {4 * ranks, 5}, grid.periodic = true;
        grid.halo = {haloport::halo_width{1, 2}, is_single ? haloport::halo_width{0, 0} : haloport::halo_width{2, 1}};
        const auto boxes = haloport::pattern::split(comm, grid, {ranks, 1});
        const array numbers(boxes, value);
        const haloport::box &all = numbers.all;
        std::vector<cell> cells;
        for (std::int64_t i = all.lower[0]; i < all.upper[0]; i++)
            for (std::int64_t j = all.lower[1]; j < all.upper[1]; j++)
                cells.push_back({(i + 4 * ranks) % (4 * ranks) * 5 + (j + 5) % 5, numbers.owns(i, j)});
        accumulated(comm, boxes, cells, is_single, [&](auto *first) {
            return kokkos_like<std::remove_pointer_t<decltype(first)>, 2>{first, {all.extent(0), all.extent(1)}, {all.extent(1), 1}};
        });

        haloport::pattern::mesh_domain part;
        cells.clear();
        for (int id = 7 * ranks + 2; id >= 0; id--) {
            const int owner = (id * id / 3 + id) % ranks;
            const bool in_halo = is_single ? (owner + 1) % ranks == me && id % 2 == 1 : (id + me) % 3 != 0;
            if (owner == me || in_halo) cells.push_back({id, owner == me}), part.ids.push_back(id), part.owned.push_back(owner == me);
        }
        accumulated(comm, haloport::pattern::ids(comm, {part}), cells, is_single, in_row(cells.size()));

        // Cells 0 to 2 are owned; 3 and 4 are cells 0 and 2 of the rank ahead, and 5, perhaps, is cell 0 of the rank behind.
        cells.clear();
        for (int place = 0; place < 3; place++) cells.push_back({3 * me + place, true});
        for (const int id : {3 * ahead, 3 * ahead + 2, 3 * behind}) cells.push_back({id, false});
        std::vector<haloport::pattern::list> send = {{behind, {0, 2}}}, receive = {{ahead, {3, 4}}};
        if (is_single) {
            cells.pop_back();
        } else if (ahead == behind) {
            send[0].cells.push_back(0), receive[0].cells.push_back(5);
        } else {
            send.push_back({ahead, {0}}), receive.push_back({behind, {5}});
        }
        const auto lists = haloport::pattern::lists(comm, static_cast<std::int64_t>(cells.size()), send, receive);
        accumulated(comm, lists, cells, is_single, in_row(cells.size()));
    }
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
    ranks[0].set_progress(haloport::progress::thread);
    ranks[0].set_time_limit(0.2);
    EXPECT(throws([&] { ranks[0].barrier(); }, haloport::status::time_limit, "rank 1"));
    haloport::check(hp_set_log(nullptr, nullptr));
    const std::lock_guard<std::mutex> held(lock);
    EXPECT(warnings.find("rank 0 has waited") != std::string::npos);
}

} // namespace

int main() {
    for (int ranks : {1, 2, 3})
        haloport::run_ranks(ranks, [](haloport::communicator &comm) {
            wrong_values(comm);
            tripolar(comm);
            cubed_sphere(comm);
            cubed_sphere_with_levels(comm);
            staggered(comm);
            without_corners(comm);
            several_patterns(comm);
            mesh(comm);
            accumulated(comm);
        });
    limits();
    return 0;
}
