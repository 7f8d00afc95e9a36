/* Packed into memory that the ranks of a node share, and unpacked from it by the neighbour; without MPI. */
#include <stdlib.h>
#include <string.h>

#include "block.h"
#include "fields.h"
#include "memory.h"
#include "messages.h"
#include "strategies.h"

/* The shared memory of a rank; its messages follow, of even exchanges and then of odd ones. */
struct segment {
    struct flag packed;
    ptrdiff_t begin[MESSAGES];
};

/* Two buffers in turn. If the neighbour has packed exchange n - 1, it has unpacked exchange n - 2, so that
 * the buffer of n is free: one flag for each rank suffices. */
struct staged {
    struct block block;
    double **fields;
    struct shared shared;
    struct copies pack[2], own, unpack[2];
    struct segment *mine, *peers[2];
    uint64_t exchanges;
};

static double *messages_of(struct segment *segment, const struct messages *messages, int turn) {
    return (double *)(segment + 1) + turn * messages->total;
}

static void *create(int comm, const void *problem) {
    const struct choice choice = {.per_rank = 1, .paired = 1};
    struct staged *staged = calloc(1, sizeof *staged);
    struct block *block = &staged->block;
    *block = block_new(comm, problem);
    struct messages messages = messages_new(block, choice);
    size_t bytes = sizeof(struct segment) + 2 * (size_t)messages.total * sizeof(double);
    if (messages.count > MESSAGES || shared_new(&staged->shared, block->comm, bytes)) {
        messages_free(&messages);
        free(staged);
        return NULL;
    }
    staged->fields = fields_new(block);
    staged->mine = shared_of(&staged->shared, block->rank);
    memcpy(staged->mine->begin, messages.begin, (size_t)messages.count * sizeof *messages.begin);
    MPI_Barrier(block->comm);
    for (int up = 0; up < 2; up++) {
        int towards[3] = {0};
        towards[block->split] = up ? 1 : -1;
        staged->peers[up] = shared_of(&staged->shared, block_neighbour(block, towards));
    }
    for (int turn = 0; turn < 2; turn++) {
        double *sent[MESSAGES], *received[MESSAGES];
        for (int rank = 0; rank < messages.count; rank++) {
            struct segment *theirs = shared_of(&staged->shared, rank);
            sent[rank] = messages_of(staged->mine, &messages, turn) + messages.begin[rank];
            received[rank] = messages_of(theirs, &messages, turn) + theirs->begin[block->rank];
        }
        struct copies again = {0};
        messages_copies(&messages, block, choice, staged->fields, sent, received, &staged->pack[turn],
                        turn ? &again : &staged->own, &staged->unpack[turn]);
        copies_free(&again);
    }
    messages_free(&messages);
    return staged;
}

static int exchange(struct staged *staged, int batch, void (*pack)(const struct copies *)) {
    while (batch-- > 0) {
        uint64_t number = ++staged->exchanges;
        pack(&staged->pack[number % 2]);
        flag_raise(&staged->mine->packed, number);
        copies_run(&staged->own);
        flag_await(&staged->peers[0]->packed, number);
        flag_await(&staged->peers[1]->packed, number);
        copies_run(&staged->unpack[number % 2]);
    }
    return 0;
}

static int through_caches(void *state, int batch) { return exchange(state, batch, copies_run); }
static int past_caches(void *state, int batch) { return exchange(state, batch, copies_run_past_caches); }

static double *field(void *state, int number) { return ((struct staged *)state)->fields[number]; }

static void destroy(void *state) {
    struct staged *staged = state;
    for (int turn = 0; turn < 2; turn++) copies_free(&staged->pack[turn]), copies_free(&staged->unpack[turn]);
    copies_free(&staged->own);
    shared_free(&staged->shared);
    fields_free(staged->fields, staged->block.fields);
    free(staged);
}

const struct peers_strategy staged_paired = {
    "C: packed into shared memory, paired", create, through_caches, field, NULL, NULL, destroy, 0};
const struct peers_strategy staged_past_caches = {
    "C: packed into shared memory past the caches", create, past_caches, field, NULL, NULL, destroy, 0};
