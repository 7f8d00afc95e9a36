/* Messages without packing: a derived datatype for each of the 26 neighbours, a message for each field. */
#include <stdlib.h>

#include "block.h"
#include "fields.h"
#include "strategies.h"

struct datatypes {
    struct block block;
    double **fields;
    MPI_Request *requests;
    int count;
};

static MPI_Datatype type_of(const struct block *block, const struct box *box) {
    int extent[3], part[3], low[3];
    for (int axis = 0; axis < 3; axis++) {
        extent[axis] = (int)block->extent[axis];
        part[axis] = (int)box->extent[axis];
        low[axis] = (int)box->low[axis];
    }
    MPI_Datatype type;
    MPI_Type_create_subarray(3, extent, part, low, MPI_ORDER_C, MPI_DOUBLE, &type);
    MPI_Type_commit(&type);
    return type;
}

static void *create(int comm, const void *problem) {
    struct datatypes *made = calloc(1, sizeof *made);
    struct block *block = &made->block;
    *block = block_new(comm, problem);
    made->fields = fields_new(block);
    made->requests = calloc((size_t)(2 * DIRECTIONS * block->fields), sizeof *made->requests);
    for (int send = 0; send < 2; send++)
        for (int number = 0; number < DIRECTIONS; number++) {
            struct box box =
                send ? box_sent(block, direction(number)) : box_halo(block, direction(25 - number));
            int peer = block_neighbour(block, direction(send ? number : 25 - number));
            MPI_Datatype type = type_of(block, &box);
            for (int field = 0; field < block->fields; field++) {
                MPI_Request *request = &made->requests[made->count++];
                int tag = number * block->fields + field;
                if (send) MPI_Send_init(made->fields[field], 1, type, peer, tag, block->comm, request);
                else MPI_Recv_init(made->fields[field], 1, type, peer, tag, block->comm, request);
            }
            MPI_Type_free(&type);
        }
    return made;
}

static int run(void *state, int batch) {
    struct datatypes *made = state;
    int failed = 0;
    while (batch-- > 0) {
        failed |= MPI_Startall(made->count, made->requests);
        failed |= MPI_Waitall(made->count, made->requests, MPI_STATUSES_IGNORE);
    }
    return failed;
}

static double *field(void *state, int number) { return ((struct datatypes *)state)->fields[number]; }

static void destroy(void *state) {
    struct datatypes *made = state;
    for (int request = 0; request < made->count; request++) MPI_Request_free(&made->requests[request]);
    free(made->requests);
    fields_free(made->fields, made->block.fields);
    free(made);
}

const struct peers_strategy datatypes_per_field = {
    "C: derived datatypes, per field", create, run, field, NULL, NULL, destroy, 0};
