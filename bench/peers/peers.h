/* What every contestant of the benchmark is: a few functions in C, whatever language is behind them.
 *
 * A library of contestants exports `peers_strategies` (boxes) and may export `peers_mesh_strategies`
 * (unstructured meshes). All functions are collective over the ranks of the communicator, except where said.
 */
#ifndef PEERS_H
#define PEERS_H

#include <stdint.h>

/* Equal boxes of f64 cells, one for each rank, which make up a grid that is periodic along all three axes.
 * Axes from the slowest to the fastest in memory. A field is one dense block with its halo: (local + 2 halo)
 * cells along each axis, and nothing between them. */
struct peers_case {
    int32_t local[3];
    int32_t halo;
    int32_t fields;
    int32_t split; /* the axis that is cut into as many parts as there are ranks */
};

/* The part of a mesh that one of two ranks has. Its owned cells come first, its halo follows; every halo cell
 * is owned by the other rank. A field is dense: [cell][level] or, with `levels_slowest`, [level][cell]. */
struct peers_mesh {
    int32_t owned, halo, levels, levels_slowest, fields;
    int32_t sends;         /* how many cells the other rank wants */
    const int64_t *ids;    /* global, of owned + halo cells */
    const int32_t *send;   /* local cells in the order in which the other rank holds them in its halo */
    const int32_t *source; /* for each halo cell: the other rank's local number of it */
};

struct peers_strategy {
    const char *name;
    /* Null where it cannot take part. `comm` is a Fortran handle of MPI; `problem` a peers_case or a
     * peers_mesh, which outlives the state. */
    void *(*create)(int comm, const void *problem);
    /* Makes `batch` exchanges one after the other. 0, or any other number for an error. */
    int (*run)(void *state, int batch);
    /* Where field `number` begins, halo included. Local. */
    double *(*field)(void *state, int number);
    /* After the fields were written from outside, and before they are read there. Local; null where nothing
     * is to do. */
    void (*load)(void *state);
    void (*store)(void *state);
    void (*destroy)(void *state);
    /* 1: a limit, which copies the rank's own cells in place of its neighbour's; 2: fills no halo. */
    int stand_in;
};

/* The list of contestants of a library, ended by one without a name. */
const struct peers_strategy *peers_strategies(void);
const struct peers_strategy *peers_mesh_strategies(void);

#endif
