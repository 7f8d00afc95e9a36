/* Axis after axis, from the fastest to the slowest: later axes carry the corners. The faces of the slowest
 * axis are contiguous, so MPI sends them from the field itself. */
#include <stdlib.h>

#include "block.h"
#include "fields.h"
#include "memory.h"
#include "strategies.h"

struct axes {
    struct block block;
    double **fields;
    struct copies own[3], pack, unpack; /* copies within the rank for each axis; messages of the split axis */
    MPI_Request *requests;              /* receives, then as many sends */
    int count;
    double *sent, *received;
};

/* Returns the face at a side, with the halos of faster axes. */
static struct box face(const struct block *block, int axis, int side, int halo) {
    int towards[3] = {0};
    towards[axis] = side;
    struct box box = halo ? box_halo(block, towards) : box_sent(block, towards);
    for (int faster = axis + 1; faster < 3; faster++) {
        box.low[faster] = 0;
        box.extent[faster] = block->extent[faster];
    }
    return box;
}

static void message(struct axes *axes, int send, double *begin, ptrdiff_t length, int peer, int tag) {
    MPI_Request *request = &axes->requests[axes->count++];
    if (send) MPI_Send_init(begin, (int)length, MPI_DOUBLE, peer, tag, axes->block.comm, request);
    else MPI_Recv_init(begin, (int)length, MPI_DOUBLE, peer, tag, axes->block.comm, request);
}

/* Makes packed messages of the split axis, one at each side for all fields. */
static void packed(struct axes *axes) {
    const struct block *block = &axes->block;
    struct box any = face(block, block->split, 1, 0);
    ptrdiff_t length = box_cells(&any) * block->fields;
    axes->sent = private_new(2 * (size_t)length * sizeof(double));
    axes->received = private_new(2 * (size_t)length * sizeof(double));
    for (int field = 0; field < block->fields; field++)
        for (int up = 0; up < 2; up++) {
            int side = up ? 1 : -1;
            ptrdiff_t at = up * length + field * box_cells(&any);
            struct box out = face(block, block->split, side, 0), in = face(block, block->split, -side, 1);
            struct copy pack = copy_pack(block, axes->fields[field], &out, axes->sent + at);
            struct copy unpack = copy_unpack(block, axes->received + at, axes->fields[field], &in);
            pack.with_next = unpack.with_next = block->split == 2 && !up;
            copies_add(&axes->pack, pack);
            copies_add(&axes->unpack, unpack);
        }
    for (int send = 0; send < 2; send++)
        for (int up = 0; up < 2; up++) {
            int towards[3] = {0};
            towards[block->split] = (up ? 1 : -1) * (send ? 1 : -1);
            double *buffer = (send ? axes->sent : axes->received) + up * length;
            message(axes, send, buffer, length, block_neighbour(block, towards), up);
        }
}

/* Makes messages of the slowest axis, which lie in the field. */
static void in_place(struct axes *axes) {
    const struct block *block = &axes->block;
    for (int send = 0; send < 2; send++)
        for (int field = 0; field < block->fields; field++)
            for (int up = 0; up < 2; up++) {
                int side = (up ? 1 : -1) * (send ? 1 : -1);
                struct box box = face(block, 0, side, !send);
                int peer = block_neighbour(block, (int[3]){side, 0, 0});
                double *begin = axes->fields[field] + box.low[0] * block->stride[0];
                message(axes, send, begin, box_cells(&box), peer, 2 * field + up);
            }
}

static void *create(int comm, const void *problem) {
    struct axes *axes = calloc(1, sizeof *axes);
    struct block *block = &axes->block;
    *block = block_new(comm, problem);
    axes->fields = fields_new(block);
    axes->requests = calloc((size_t)(4 * block->fields), sizeof *axes->requests);
    for (int axis = 0; axis < 3; axis++)
        for (int field = 0; axis != block->split && field < block->fields; field++)
            for (int up = 0; up < 2; up++) {
                struct box from = face(block, axis, up ? 1 : -1, 0), to = face(block, axis, up ? -1 : 1, 1);
                struct copy copy = copy_between(block, axes->fields[field], &from, axes->fields[field], &to);
                copy.with_next = axis == 2 && !up;
                copies_add(&axes->own[axis], copy);
            }
    if (block->split == 0) in_place(axes);
    else packed(axes);
    axes->count /= 2;
    return axes;
}

static int run(void *state, int batch) {
    struct axes *axes = state;
    int failed = 0;
    while (batch-- > 0)
        for (int axis = 2; axis >= 0; axis--) {
            if (axis != axes->block.split) {
                copies_run(&axes->own[axis]);
                continue;
            }
            failed |= MPI_Startall(axes->count, axes->requests);
            copies_run(&axes->pack);
            failed |= MPI_Startall(axes->count, axes->requests + axes->count);
            failed |= MPI_Waitall(2 * axes->count, axes->requests, MPI_STATUSES_IGNORE);
            copies_run(&axes->unpack);
        }
    return failed;
}

static double *field(void *state, int number) { return ((struct axes *)state)->fields[number]; }

static void destroy(void *state) {
    struct axes *axes = state;
    for (int request = 0; request < 2 * axes->count; request++) MPI_Request_free(&axes->requests[request]);
    for (int axis = 0; axis < 3; axis++) copies_free(&axes->own[axis]);
    copies_free(&axes->pack), copies_free(&axes->unpack);
    free(axes->requests), free(axes->sent), free(axes->received);
    fields_free(axes->fields, axes->block.fields);
    free(axes);
}

const struct peers_strategy axis_after_axis = {
    "C: axis after axis, contiguous faces in place", create, run, field, NULL, NULL, destroy, 0};
