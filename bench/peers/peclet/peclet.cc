/* The contestants of peclet-halo, whose headers come in its source package: lists of cells, packed one by one.
 *
 * - GridHaloTopology, from any memory: `exchangePersistent`, a neighbourhood collective, and `exchangeNbx`, a message for
 *   each rank; all fields in one exchange.
 * - GridHalo, with Kokkos: an exchange for each field, on one node through shared memory.
 */
#include <cstring>
#include <memory>
#include <vector>

#include "peclet/core/halo/grid_halo_topology.hpp"
#ifdef WITH_KOKKOS
#include <Kokkos_Core.hpp>
#if KOKKOS_VERSION < 30600
namespace Kokkos {
/* Later versions have fences with a name, which profilers show. */
inline void fence(const char *) { fence(); }
}  // namespace Kokkos
#endif
#include "peclet/core/halo/grid_halo.hpp"
#endif

extern "C" {
#include "../peers.h"
}

namespace {

using Decomposer = peclet::core::decomp::BlockDecomposer<3>;
using Topology = peclet::core::halo::GridHaloTopology<3>;
using peclet::core::Index;

/* The case, its cells of the grid along x, y and z, the fastest axis first, and the topology. */
struct Grid {
    const peers_case *problem;
    std::size_t cells = 1;
    Topology topology;

    /* False if peclet-halo, which cuts the longest axis, cuts another one than the case. */
    bool set_up(MPI_Comm comm, const peers_case *given) {
        problem = given;
        int rank, size;
        MPI_Comm_rank(comm, &rank);
        MPI_Comm_size(comm, &size);
        peclet::core::IVec<3> extents{};
        for (int axis = 0; axis < 3; axis++) {
            extents[2 - axis] = problem->local[axis] * (axis == problem->split ? size : 1);
            cells *= problem->local[axis] + 2 * problem->halo;
        }
        const Decomposer blocks(size, extents);
        for (int axis = 0; axis < 3; axis++) {
            const Index begin = axis == problem->split ? rank * problem->local[axis] : 0;
            if (blocks.sizes()[rank][2 - axis] != problem->local[axis] || blocks.origins()[rank][2 - axis] != begin)
                return false;
        }
        topology.buildTopology(blocks, rank, problem->halo, {true, true, true}, comm);
        return true;
    }
};

/* All fields, as one value for each cell. */
struct Fields {
    std::vector<double *> of;

    std::size_t bytesPerElem() const { return of.size() * sizeof(double); }
    void pack(Index cell, char *to) const {
        for (std::size_t number = 0; number < of.size(); number++)
            std::memcpy(to + number * sizeof(double), &of[number][cell], sizeof(double));
    }
    void unpack(Index cell, const char *from) {
        for (std::size_t number = 0; number < of.size(); number++)
            std::memcpy(&of[number][cell], from + number * sizeof(double), sizeof(double));
    }
};

struct InMessages {
    Grid grid;
    std::vector<std::vector<double>> memory;
    Fields fields;
};

void *create_in_messages(int comm, const void *problem) {
    auto made = std::make_unique<InMessages>();
    if (!made->grid.set_up(MPI_Comm_f2c(comm), static_cast<const peers_case *>(problem))) return nullptr;
    made->memory.assign(made->grid.problem->fields, std::vector<double>(made->grid.cells));
    for (auto &field : made->memory) made->fields.of.push_back(field.data());
    return made.release();
}

int run_persistent(void *state, int batch) {
    auto *made = static_cast<InMessages *>(state);
    while (batch-- > 0) made->grid.topology.exchangePersistent(made->fields);
    return 0;
}

int run_nbx(void *state, int batch) {
    auto *made = static_cast<InMessages *>(state);
    while (batch-- > 0) made->grid.topology.exchangeNbx(made->fields);
    return 0;
}

double *field_in_messages(void *state, int number) { return static_cast<InMessages *>(state)->fields.of[number]; }

void destroy_in_messages(void *state) { delete static_cast<InMessages *>(state); }

#ifdef WITH_KOKKOS
struct WithKokkos {
    Grid grid;
    /* An exchange keeps the buffers of one field. */
    std::vector<std::unique_ptr<peclet::core::halo::GridHalo<double>>> halos;
    std::vector<peclet::core::View<double>> fields;
};

void *create_with_kokkos(int comm, const void *problem) {
    /* It is never ended: ranks end without destructors. */
    if (!Kokkos::is_initialized()) Kokkos::initialize();
    auto made = std::make_unique<WithKokkos>();
    if (!made->grid.set_up(MPI_Comm_f2c(comm), static_cast<const peers_case *>(problem))) return nullptr;
    for (int number = 0; number < made->grid.problem->fields; number++) {
        made->fields.emplace_back("field", made->grid.cells);
        made->halos.push_back(std::make_unique<peclet::core::halo::GridHalo<double>>());
        made->halos.back()->init(made->grid.topology);
    }
    return made.release();
}

int run_with_kokkos(void *state, int batch) {
    auto *made = static_cast<WithKokkos *>(state);
    while (batch-- > 0)
        for (std::size_t number = 0; number < made->fields.size(); number++)
            made->halos[number]->exchange(made->fields[number]);
    return 0;
}

double *field_with_kokkos(void *state, int number) { return static_cast<WithKokkos *>(state)->fields[number].data(); }

void destroy_with_kokkos(void *state) { delete static_cast<WithKokkos *>(state); }
#endif

}  // namespace

extern "C" const peers_strategy *peers_strategies(void) {
    static const peers_strategy strategies[] = {
        {"peclet-halo, neighbourhood collective", create_in_messages, run_persistent, field_in_messages, nullptr, nullptr,
         destroy_in_messages, 0},
        {"peclet-halo, message per rank", create_in_messages, run_nbx, field_in_messages, nullptr, nullptr, destroy_in_messages,
         0},
#ifdef WITH_KOKKOS
        {"peclet-halo, shared memory", create_with_kokkos, run_with_kokkos, field_with_kokkos, nullptr, nullptr,
         destroy_with_kokkos, 0},
#endif
        {},
    };
    return strategies;
}
