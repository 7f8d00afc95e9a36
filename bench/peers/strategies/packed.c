/* Messages that are packed by hand, sent by persistent MPI requests, and unpacked. */
#include <stdlib.h>

#include "block.h"
#include "fields.h"
#include "memory.h"
#include "messages.h"
#include "strategies.h"

struct packed {
    struct block block;
    double **fields;
    struct copies pack, own, unpack;
    MPI_Request *requests; /* receives, then as many sends */
    int count;
    double *sent, *received;
};

static void *create(int comm, const void *problem, struct choice choice) {
    struct packed *packed = calloc(1, sizeof *packed);
    struct block *block = &packed->block;
    *block = block_new(comm, problem);
    packed->fields = fields_new(block);
    struct messages messages = messages_new(block, choice);
    packed->sent = private_new((size_t)messages.total * sizeof(double) + 64);
    packed->received = private_new((size_t)messages.total * sizeof(double) + 64);
    double *sent[MESSAGES], *received[MESSAGES];
    for (int message = 0; message < messages.count; message++) {
        sent[message] = packed->sent + messages.begin[message];
        received[message] = packed->received + messages.begin[message];
    }
    messages_copies(&messages, block, choice, packed->fields, sent, received, &packed->pack, &packed->own,
                    &packed->unpack);
    packed->requests = calloc(2 * (size_t)messages.count, sizeof *packed->requests);
    for (int send = 0; send < 2; send++)
        for (int message = 0; message < messages.count; message++) {
            int length = (int)messages.length[message];
            if (!length) continue;
            MPI_Request *request = &packed->requests[packed->count++];
            int tag = choice.per_rank ? 0 : message;
            if (send)
                MPI_Send_init(sent[message], length, MPI_DOUBLE, messages.target[message], tag, block->comm,
                              request);
            else
                MPI_Recv_init(received[message], length, MPI_DOUBLE, messages.source[message], tag,
                              block->comm, request);
        }
    packed->count /= 2;
    messages_free(&messages);
    return packed;
}

static int run(void *state, int batch) {
    struct packed *packed = state;
    int failed = 0;
    while (batch-- > 0) {
        failed |= MPI_Startall(packed->count, packed->requests);
        copies_run(&packed->pack);
        failed |= MPI_Startall(packed->count, packed->requests + packed->count);
        copies_run(&packed->own);
        failed |= MPI_Waitall(2 * packed->count, packed->requests, MPI_STATUSES_IGNORE);
        copies_run(&packed->unpack);
    }
    return failed;
}

static double *field(void *state, int number) { return ((struct packed *)state)->fields[number]; }

static void destroy(void *state) {
    struct packed *packed = state;
    for (int request = 0; request < 2 * packed->count; request++)
        MPI_Request_free(&packed->requests[request]);
    copies_free(&packed->pack), copies_free(&packed->own), copies_free(&packed->unpack);
    free(packed->requests), free(packed->sent), free(packed->received);
    fields_free(packed->fields, packed->block.fields);
    free(packed);
}

static void *per_neighbour(int comm, const void *problem) {
    return create(comm, problem, (struct choice){.to_self = 1});
}
static void *self_copied(int comm, const void *problem) { return create(comm, problem, (struct choice){0}); }
static void *per_rank(int comm, const void *problem) {
    return create(comm, problem, (struct choice){.per_rank = 1});
}
static void *paired(int comm, const void *problem) {
    return create(comm, problem, (struct choice){.per_rank = 1, .paired = 1});
}

const struct peers_strategy packed_per_neighbour = {
    "C: packed, persistent message per neighbour", per_neighbour, run, field, NULL, NULL, destroy, 0};
const struct peers_strategy packed_self_copied = {
    "C: packed, self copied directly", self_copied, run, field, NULL, NULL, destroy, 0};
const struct peers_strategy packed_per_rank = {
    "C: message per rank, self copied", per_rank, run, field, NULL, NULL, destroy, 0};
const struct peers_strategy packed_paired = {
    "C: message per rank, self copied, paired", paired, run, field, NULL, NULL, destroy, 0};
