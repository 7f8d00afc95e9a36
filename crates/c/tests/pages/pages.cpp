// The code of the pages in C++: scripts/pages puts it in place of the comments that name it. Runs on 3 ranks of MPI.
#include <cstdio>
#include <cstdlib>
#include <haloport.hpp>
#include <limits>
#include <mpi.h>
#include <optional>
#include <vector>

namespace {

int rank = 0;

void require(bool right, const char *what) {
    if (right) return;
    std::fprintf(stderr, "rank %d: expected %s\n", rank, what);
    MPI_Abort(MPI_COMM_WORLD, 1);
}

/// A view of two axes, as of Kokkos, of memory for the whole grid.
struct view {
    static constexpr int rank = 2;
    std::vector<double> *memory;
    std::size_t extents[2];
    double *data() const { return memory->data(); }
    std::size_t extent(int axis) const { return extents[axis]; }
    std::size_t stride(int axis) const { return axis == 0 ? extents[1] : 1; }
};

/// A view of an array of the pattern, with the rank in all elements.
view filled(std::vector<double> &memory, const haloport::pattern &pattern) {
    const haloport::box box = pattern.with_halo();
    memory.assign(66 * 50, rank);
    return {&memory, {box.extent(0), box.extent(1)}};
}

bool has_halo(const std::vector<double> &memory) {
    for (double value : memory)
        if (value != rank) return true;
    return false;
}

void interior(const view &one, const view &other) { require(one.data() && other.data(), "arrays"); }

void exchanges() {
    const std::uintptr_t stream = 0;
    std::vector<double> of_u, of_v;
#define u filled(of_u, pattern)
#define v filled(of_v, pattern)
    // page: docs/c.md 6
#undef u
#undef v
    require(has_halo(of_u) && has_halo(of_v), "halos");
}

struct particle {
    int owner;
};

int taken = 0;

void take(int source, const std::vector<particle> &particles) {
    require(particles.size() == 2 && particles[1].owner == source, "two particles of their source");
    taken++;
}

void messages(const haloport::communicator &comm) {
    const std::vector<particle> moved(2, particle{rank}), left = moved;
    const std::int64_t rows = 100;
    const std::vector<int> last = {rank};
    // page: docs/c.md 7
    require(taken == (rank == 1 ? 0 : 3), "a message of each rank");
    require(came.left.has_value() == (rank > 0) && !came.right, "a payload from the left");
    if (came.left) require(came.left->as<int>()[0] == rank - 1, "the row of the rank before");
}

void exact_sums(haloport::communicator &comm) {
    const std::vector<double> height = {1e30, double(rank)}, area = {rank == 0 ? 1.0 : rank == 1 ? -1.0 : 0.0, 2};
    const std::vector<double> heat = {std::numeric_limits<double>::infinity(), 0.5};
    const std::vector<char> wet = {0, 1};
    // page: docs/exact-sums.md 2
    require(volume == 6 && sums == std::vector<double>{6, 6, 3}, "exact sums");
}

} // namespace

int main(int argc, char **argv) {
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    try {
        exchanges();
        auto comm = haloport::communicator::mpi(MPI_COMM_WORLD);
        messages(comm);
        exact_sums(comm);
    } catch (const std::exception &failed) {
        require(false, failed.what());
    }
    MPI_Finalize();
}
