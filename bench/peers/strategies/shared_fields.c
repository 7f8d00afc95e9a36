/* Fields in memory that the ranks of a node share: copied from the neighbour's field straight into halos. */
#include <stdlib.h>

#include "block.h"
#include "memory.h"
#include "strategies.h"

/* The shared memory of a rank; its fields follow. */
struct segment {
    struct flag written, read;
};

struct pulled {
    struct block block;
    struct shared shared;
    struct copies own, pull;
    struct segment *mine, *peers[2];
    uint64_t exchanges;
};

static double *field_of(const struct pulled *pulled, int rank, int number) {
    struct segment *segment = shared_of(&pulled->shared, rank);
    return (double *)(segment + 1) + number * pulled->block.cells;
}

static void *create(int comm, const void *problem, int stand_in) {
    struct pulled *pulled = calloc(1, sizeof *pulled);
    struct block *block = &pulled->block;
    *block = block_new(comm, problem);
    size_t bytes = sizeof(struct segment) + (size_t)(block->cells * block->fields) * sizeof(double);
    if (shared_new(&pulled->shared, block->comm, bytes)) {
        free(pulled);
        return NULL;
    }
    pulled->mine = shared_of(&pulled->shared, block->rank);
    for (int up = 0; up < 2; up++) {
        int towards[3] = {0};
        towards[block->split] = up ? 1 : -1;
        pulled->peers[up] = shared_of(&pulled->shared, block_neighbour(block, towards));
    }
    for (int number = 0; number < block->fields; number++)
        for (int n = 0; n < DIRECTIONS; n++) {
            const int *side = direction(n);
            int owner = block_neighbour(block, side);
            struct box from = box_sent(block, direction(25 - n)), to = box_halo(block, side);
            const double *source = field_of(pulled, stand_in ? block->rank : owner, number);
            struct copy copy = copy_between(block, source, &from, field_of(pulled, block->rank, number), &to);
            copy.with_next = opens_pair(n);
            copies_add(owner == block->rank ? &pulled->own : &pulled->pull, copy);
        }
    return pulled;
}

static int pull(void *state, int batch) {
    struct pulled *pulled = state;
    while (batch-- > 0) {
        uint64_t number = ++pulled->exchanges;
        flag_raise(&pulled->mine->written, number);
        copies_run(&pulled->own);
        for (int up = 0; up < 2; up++) flag_await(&pulled->peers[up]->written, number);
        copies_run(&pulled->pull);
        /* The caller may write its owned cells when both neighbours have read them. */
        flag_raise(&pulled->mine->read, number);
        for (int up = 0; up < 2; up++) flag_await(&pulled->peers[up]->read, number);
    }
    return 0;
}

static int copy(void *state, int batch) {
    struct pulled *pulled = state;
    while (batch-- > 0) {
        copies_run(&pulled->own);
        copies_run(&pulled->pull);
    }
    return 0;
}

static double *field(void *state, int number) {
    struct pulled *pulled = state;
    return field_of(pulled, pulled->block.rank, number);
}

static void destroy(void *state) {
    struct pulled *pulled = state;
    copies_free(&pulled->own), copies_free(&pulled->pull);
    shared_free(&pulled->shared);
    free(pulled);
}

static void *neighbours(int comm, const void *problem) { return create(comm, problem, 0); }
static void *stand_in(int comm, const void *problem) { return create(comm, problem, 1); }

const struct peers_strategy pulled_paired = {
    "C: pulled from the neighbour's field, paired", neighbours, pull, field, NULL, NULL, destroy, 0};
const struct peers_strategy limit_shared = {
    "limit: one pass over fields in shared memory", stand_in, copy, field, NULL, NULL, destroy, 1};
