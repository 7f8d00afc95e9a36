/* The interface of a contestant: a few functions with C linkage, in any language.
 *
 * A library of contestants exports one function for each kind of problem that it takes part in: the last four of
 * this file. All functions are collective over the ranks of the communicator, unless they are marked as local.
 */
#ifndef PEERS_H
#define PEERS_H

#include <stdint.h>

/* Equal boxes of f64 cells, one for each rank, which make up a grid that is periodic along all three axes.
 * Axes are ordered from the slowest to the fastest in memory. A field is one dense block with its halo:
 * (local + 2 halo) cells along each axis, without gaps. */
struct peers_case {
    int32_t local[3];
    int32_t halo;
    int32_t fields;
    int32_t split; /* the axis along which the grid is split, one part for each rank */
};

/* One rank's part of a mesh on two ranks. Owned cells come first, the halo follows; every halo cell is owned
 * by the other rank. A field has blocks of `nproma` cells: [block][level][cell of the block], the last block
 * with unused cells. With nproma = 1 levels are fastest, with nproma = owned + halo they are slowest. */
struct peers_mesh {
    int32_t owned, halo, levels, nproma, fields;
    int32_t sends;         /* the number of cells that the other rank needs */
    const int64_t *ids;    /* global ids of owned + halo cells */
    const int32_t *send;   /* local cells in the order in which the other rank holds them in its halo */
    const int32_t *source; /* for each halo cell its local number on the other rank */
};

/* A grid of f64 cells that goes from parts along its first axis to parts along its second one. Both axes are a
 * multiple of the ranks long. Parts are dense blocks without a halo, with the last axis fastest. */
struct peers_transpose {
    int32_t cells[3];
    int32_t fields;
};

struct peers_strategy {
    const char *name;
    /* Returns null if the contestant cannot take part. `comm` is a Fortran handle of MPI; `problem` is that of
     * the list which has the strategy, and outlives the state. */
    void *(*create)(int comm, const void *problem);
    /* Makes `batch` exchanges one after the other. Returns 0, or another number for an error. */
    int (*run)(void *state, int batch);
    /* Returns the beginning of field `number`, halo included. Local. Of a transpose, fields from 0 on are the
     * parts along the first axis, and those from `fields` on the parts along the second. */
    double *(*field)(void *state, int number);
    /* Called after the fields were written from outside, and before they are read there. Local; null if there
     * is nothing to do. */
    void (*load)(void *state);
    void (*store)(void *state);
    void (*destroy)(void *state);
    /* 1: a limit, which copies the rank's own cells instead of its neighbour's; 2: fills no halo. */
    int stand_in;
};

/* Return the contestants of a library. The last entry has no name. */

/* Of a peers_case: halos are filled. */
const struct peers_strategy *peers_strategies(void);
/* Of a peers_mesh: halos are filled. */
const struct peers_strategy *peers_mesh_strategies(void);
/* Of a peers_mesh: halo cells are added to those of their owner, and stay as they are. */
const struct peers_strategy *peers_sum_strategies(void);
/* Of a peers_transpose: the parts along the second axis are filled. */
const struct peers_strategy *peers_transpose_strategies(void);

#endif
