#include "block.h"

struct block block_new(int comm, const struct peers_case *problem) {
    struct block block = {.comm = MPI_Comm_f2c(comm), .split = problem->split, .fields = problem->fields};
    MPI_Comm_rank(block.comm, &block.rank);
    MPI_Comm_size(block.comm, &block.size);
    block.halo = problem->halo;
    block.cells = 1;
    for (int axis = 2; axis >= 0; axis--) {
        block.owned[axis] = problem->local[axis];
        block.extent[axis] = problem->local[axis] + 2 * block.halo;
        block.stride[axis] = block.cells;
        block.cells *= block.extent[axis];
    }
    return block;
}

/* For every (a, b) the two sides of the fastest axis, then the middle. The second half are the opposites of
 * the first half, in reverse order. */
static const int directions[DIRECTIONS][3] = {
    {-1, -1, -1}, {-1, -1, 1}, {-1, -1, 0}, {-1, 0, -1}, {-1, 0, 1},  {-1, 0, 0}, {-1, 1, -1},
    {-1, 1, 1},   {-1, 1, 0},  {0, -1, -1}, {0, -1, 1},  {0, -1, 0},  {0, 0, -1}, {0, 0, 1},
    {0, 1, 0},    {0, 1, -1},  {0, 1, 1},   {1, -1, 0},  {1, -1, -1}, {1, -1, 1}, {1, 0, 0},
    {1, 0, -1},   {1, 0, 1},   {1, 1, 0},   {1, 1, -1},  {1, 1, 1},
};

const int *direction(int number) { return directions[number]; }

int opens_pair(int number) { return directions[number][2] == -1; }

int block_neighbour(const struct block *block, const int *towards) {
    return (block->rank + towards[block->split] + block->size) % block->size;
}

struct box box_sent(const struct block *block, const int *towards) {
    struct box box;
    for (int axis = 0; axis < 3; axis++) {
        box.low[axis] = towards[axis] > 0 ? block->owned[axis] : block->halo;
        box.extent[axis] = towards[axis] ? block->halo : block->owned[axis];
    }
    return box;
}

struct box box_halo(const struct block *block, const int *side) {
    struct box box;
    for (int axis = 0; axis < 3; axis++) {
        box.low[axis] = side[axis] < 0 ? 0 : side[axis] > 0 ? block->owned[axis] + block->halo : block->halo;
        box.extent[axis] = side[axis] ? block->halo : block->owned[axis];
    }
    return box;
}

ptrdiff_t box_cells(const struct box *box) { return box->extent[0] * box->extent[1] * box->extent[2]; }

static ptrdiff_t begin(const struct block *block, const struct box *box) {
    return box->low[0] * block->stride[0] + box->low[1] * block->stride[1] + box->low[2];
}

static struct copy copy_of(const struct box *box) {
    return (struct copy){.rows = {box->extent[0], box->extent[1]}, .row = box->extent[2]};
}

struct copy copy_between(const struct block *block, const double *from, const struct box *source, double *to,
                         const struct box *target) {
    struct copy copy = copy_of(source);
    copy.source = from + begin(block, source);
    copy.target = to + begin(block, target);
    for (int axis = 0; axis < 2; axis++)
        copy.source_stride[axis] = copy.target_stride[axis] = block->stride[axis];
    return copy;
}

struct copy copy_pack(const struct block *block, const double *field, const struct box *box,
                      double *message) {
    struct copy copy = copy_between(block, field, box, message, box);
    copy.target = message;
    copy.target_stride[0] = box->extent[1] * box->extent[2];
    copy.target_stride[1] = box->extent[2];
    return copy;
}

struct copy copy_unpack(const struct block *block, const double *message, double *field,
                        const struct box *box) {
    struct copy copy = copy_between(block, message, box, field, box);
    copy.source = message;
    copy.source_stride[0] = box->extent[1] * box->extent[2];
    copy.source_stride[1] = box->extent[2];
    return copy;
}
