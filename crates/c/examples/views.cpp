// A wave on a periodic plane, in views with levels: mpirun -n 4 ./views
//
// `view` stands for a Kokkos::View or a std::mdspan: Haloport takes anything with extent(i) and stride(i).
#include <mpi.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <stdexcept>
#include <vector>

#include <haloport.hpp>

namespace {

constexpr std::int64_t NX = 48, NY = 40;
constexpr std::size_t LEVELS = 3;
constexpr int STEPS = 100;

// Cells along two axes, then levels, which are the fastest.
struct view {
    static constexpr int rank = 3;
    double *first;
    std::size_t extents[3];
    double *data() const { return first; }
    std::size_t extent(int axis) const { return extents[axis]; }
    std::size_t stride(int axis) const { return axis == 0 ? extents[1] * LEVELS : axis == 1 ? LEVELS : 1; }
    double &operator()(std::size_t i, std::size_t j, std::size_t level) const {
        return first[(i * extents[1] + j) * LEVELS + level];
    }
};

void run() {
    auto comm = haloport::communicator::mpi(MPI_COMM_WORLD);
    haloport::grid grid;
    grid.shape = {NX, NY};
    grid.periodic = true;
    auto pattern = haloport::pattern::split(comm, grid);
    const haloport::box mine = pattern.owned(), all = pattern.with_halo(), inner = pattern.interior();
    const std::vector<haloport::box> outer = pattern.boundary();
    const std::size_t ni = all.extent(0), nj = all.extent(1);
    std::vector<double> heights(ni * nj * LEVELS), speeds(ni * nj * LEVELS);
    const view height{heights.data(), {ni, nj, LEVELS}}, speed{speeds.data(), {ni, nj, LEVELS}};

    const auto over = [&all](const haloport::box &box, auto &&cell) {
        for (std::int64_t i = box.lower[0]; i < box.upper[0]; i++)
            for (std::int64_t j = box.lower[1]; j < box.upper[1]; j++)
                for (std::size_t level = 0; level < LEVELS; level++)
                    cell(static_cast<std::size_t>(i - all.lower[0]), static_cast<std::size_t>(j - all.lower[1]), level);
    };
    over(mine, [&](std::size_t i, std::size_t j, std::size_t level) {
        const double x = static_cast<double>(all.lower[0] + static_cast<std::int64_t>(i) - NX / 2);
        const double y = static_cast<double>(all.lower[1] + static_cast<std::int64_t>(j) - NY / 2);
        height(i, j, level) = static_cast<double>(level + 1) * std::exp(-(x * x + y * y) / 20);
    });
    const auto accelerate = [&](std::size_t i, std::size_t j, std::size_t level) {
        speed(i, j, level) += 0.1 * (height(i - 1, j, level) + height(i + 1, j, level) + height(i, j - 1, level) +
                                     height(i, j + 1, level) - 4 * height(i, j, level));
    };

    haloport::plan exchange(pattern, height);
    for (int step = 0; step < STEPS; step++) {
        auto pending = exchange.start(height);
        over(inner, accelerate); // while halos travel
        pending.finish();
        for (const haloport::box &box : outer) over(box, accelerate);
        over(mine, [&](std::size_t i, std::size_t j, std::size_t level) { height(i, j, level) += speed(i, j, level); });
    }

    double sums[LEVELS] = {}, highest = 0;
    over(mine, [&](std::size_t i, std::size_t j, std::size_t level) {
        sums[level] += height(i, j, level);
        highest = std::max(highest, height(i, j, level));
    });
    for (double &sum : sums) sum = comm.all_reduce(sum);
    highest = comm.all_reduce(highest, haloport::reduction::max);
    if (comm.rank() == 0)
        std::printf("%d ranks: after %d steps the water is %.4f on the lowest level, the highest wave %.4f\n", comm.size(),
                    STEPS, sums[0], highest);
    if (std::abs(sums[0] - 62.8319) > 1e-4 || std::abs(sums[2] - 3 * sums[0]) > 1e-6 || std::abs(highest - 0.9381) > 1e-4)
        throw std::runtime_error("expected 62.8319 on the lowest level, three times as much on the highest, and a wave of 0.9381");
}

} // namespace

int main(int arguments, char **argument) {
    MPI_Init(&arguments, &argument);
    int code = 0;
    try {
        run();
    } catch (const std::exception &error) {
        std::fprintf(stderr, "%s\n", error.what());
        code = 1;
    }
    if (code != 0) MPI_Abort(MPI_COMM_WORLD, code);
    MPI_Finalize();
    return code;
}
