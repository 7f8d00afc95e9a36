/* The box of one rank and its 26 neighbours. */
#ifndef BLOCK_H
#define BLOCK_H

#include <mpi.h>
#include <stddef.h>

#include "../peers.h"
#include "copies.h"

#define DIRECTIONS 26

struct block {
    MPI_Comm comm;
    int rank, size, split, fields;
    ptrdiff_t halo, owned[3], extent[3], stride[3], cells;
};

/* Cells of a block, from `low` on. */
struct box {
    ptrdiff_t low[3], extent[3];
};

struct block block_new(int comm, const struct peers_case *problem);

/* Returns direction `number` of 26: steps along the three axes. Number 25 - n is the opposite of n. Two
 * directions that differ only by their sign along the fastest axis follow each other: a pair. */
const int *direction(int number);
/* Returns whether `number` and `number + 1` are a pair. */
int opens_pair(int number);
int block_neighbour(const struct block *block, const int *towards);
/* Return the cells that the neighbour in a direction needs, and the halo at a side. */
struct box box_sent(const struct block *block, const int *towards);
struct box box_halo(const struct block *block, const int *side);
ptrdiff_t box_cells(const struct box *box);

/* Returns a copy between boxes of equal extents in two fields of the block's shape. */
struct copy copy_between(const struct block *block, const double *from, const struct box *source, double *to,
                         const struct box *target);
struct copy copy_pack(const struct block *block, const double *field, const struct box *box, double *message);
struct copy copy_unpack(const struct block *block, const double *message, double *field,
                        const struct box *box);

#endif
