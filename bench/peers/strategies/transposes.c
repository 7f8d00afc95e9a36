/* Strategies for transposes: `MPI_Alltoallw`, packed blocks, and copies from the fields of the other rank. */
#include <mpi.h>
#include <stdlib.h>
#include <string.h>

#include "memory.h"
#include "strategies.h"

struct segment {
    struct flag written, read;
};

struct transpose {
    const struct peers_transpose *problem;
    MPI_Comm comm;
    int rank, size;
    /* Rows of a part along the first axis; values that lie together in both parts; values of a part. */
    size_t rows, run, values;
    double *sources[16], *targets[16];
    double *packed;              /* room for one part, in the order of the ranks that get it */
    MPI_Datatype *sent, *filled; /* of each rank */
    int *ones, *zeroes;
    int is_shared;
    struct shared shared;
    struct segment *mine, *other;
    double *theirs; /* the sources of the other rank */
    uint64_t exchanges;
};

static MPI_Datatype block(const int extents[3], const int lengths[3], const int starts[3]) {
    MPI_Datatype type;
    MPI_Type_create_subarray(3, extents, lengths, starts, MPI_ORDER_C, MPI_DOUBLE, &type);
    MPI_Type_commit(&type);
    return type;
}

static void make_types(struct transpose *made) {
    const int32_t *cells = made->problem->cells;
    size_t size = (size_t)made->size;
    int rows = cells[0] / made->size, columns = cells[1] / made->size;
    const int source[3] = {rows, cells[1], cells[2]}, target[3] = {cells[0], columns, cells[2]};
    const int lengths[3] = {rows, columns, cells[2]};
    made->sent = malloc(size * sizeof *made->sent), made->filled = malloc(size * sizeof *made->filled);
    made->ones = malloc(size * sizeof *made->ones), made->zeroes = calloc(size, sizeof *made->zeroes);
    for (int peer = 0; peer < made->size; peer++) {
        const int columns_of[3] = {0, peer * columns, 0}, rows_of[3] = {peer * rows, 0, 0};
        made->sent[peer] = block(source, lengths, columns_of);
        made->filled[peer] = block(target, lengths, rows_of);
        made->ones[peer] = 1;
    }
}

enum place { PRIVATE_FIELDS, SHARED_FIELDS };

static struct transpose *new(int comm, const void *problem, enum place place) {
    struct transpose *made = calloc(1, sizeof *made);
    made->problem = problem;
    made->comm = MPI_Comm_f2c(comm);
    MPI_Comm_rank(made->comm, &made->rank);
    MPI_Comm_size(made->comm, &made->size);
    size_t fields = (size_t)made->problem->fields, size = (size_t)made->size;
    made->rows = (size_t)made->problem->cells[0] / size;
    made->run = (size_t)made->problem->cells[1] / size * (size_t)made->problem->cells[2];
    made->values = made->rows * made->run * size;
    size_t bytes = made->values * sizeof(double);
    int is_shared = place == SHARED_FIELDS;
    if (fields > 16 || (is_shared && made->size != 2) ||
        (is_shared && shared_new(&made->shared, made->comm, sizeof(struct segment) + fields * bytes))) {
        free(made);
        return NULL;
    }
    if (is_shared) {
        made->is_shared = 1;
        made->mine = shared_of(&made->shared, made->rank);
        made->other = shared_of(&made->shared, 1 - made->rank);
        made->theirs = (double *)(made->other + 1);
    }
    for (size_t number = 0; number < fields; number++) {
        made->sources[number] =
            is_shared ? (double *)(made->mine + 1) + number * made->values : private_new(bytes);
        made->targets[number] = private_new(bytes);
    }
    return made;
}

static void *with_types(int comm, const void *problem) {
    struct transpose *made = new(comm, problem, PRIVATE_FIELDS);
    if (made) make_types(made);
    return made;
}

static void *with_room(int comm, const void *problem) {
    struct transpose *made = new(comm, problem, PRIVATE_FIELDS);
    if (made) made->packed = private_new(made->values * sizeof(double));
    return made;
}

static void *own(int comm, const void *problem) { return new(comm, problem, PRIVATE_FIELDS); }
static void *pulled(int comm, const void *problem) { return new(comm, problem, SHARED_FIELDS); }

static int run_alltoallw(void *state, int batch) {
    struct transpose *made = state;
    int failed = 0;
    while (batch-- > 0)
        for (int number = 0; number < made->problem->fields; number++)
            failed |= MPI_Alltoallw(made->sources[number], made->ones, made->zeroes, made->sent,
                                    made->targets[number], made->ones, made->zeroes, made->filled, made->comm);
    return failed;
}

/* What a rank gets from another one lies together in its target, in the order in which it is packed. */
static int run_packed(void *state, int batch) {
    struct transpose *made = state;
    int failed = 0;
    int count = (int)(made->rows * made->run);
    while (batch-- > 0)
        for (int number = 0; number < made->problem->fields; number++) {
            double *to = made->packed;
            for (size_t peer = 0; peer < (size_t)made->size; peer++)
                for (size_t row = 0; row < made->rows; row++, to += made->run)
                    memcpy(to, made->sources[number] + (row * (size_t)made->size + peer) * made->run,
                           made->run * sizeof(double));
            failed |= MPI_Alltoall(made->packed, count, MPI_DOUBLE, made->targets[number], count, MPI_DOUBLE,
                                   made->comm);
        }
    return failed;
}

/* Copies the rows of a source, of the rank that has those from `first` on, into a target. */
static void copy_rows(const struct transpose *made, const double *source, int first, double *target) {
    target += (size_t)first * made->rows * made->run;
    for (size_t row = 0; row < made->rows; row++)
        memcpy(target + row * made->run,
               source + (row * (size_t)made->size + (size_t)made->rank) * made->run,
               made->run * sizeof(double));
}

static int run_pulled(void *state, int batch) {
    struct transpose *made = state;
    while (batch-- > 0) {
        uint64_t exchange = ++made->exchanges;
        flag_raise(&made->mine->written, exchange);
        for (int number = 0; number < made->problem->fields; number++)
            copy_rows(made, made->sources[number], made->rank, made->targets[number]);
        flag_await(&made->other->written, exchange);
        for (int number = 0; number < made->problem->fields; number++)
            copy_rows(made, made->theirs + (size_t)number * made->values, 1 - made->rank, made->targets[number]);
        flag_raise(&made->mine->read, exchange);
        flag_await(&made->other->read, exchange);
    }
    return 0;
}

/* Copies the rank's own rows in place of those of the others. */
static int run_pass(void *state, int batch) {
    struct transpose *made = state;
    while (batch-- > 0)
        for (int number = 0; number < made->problem->fields; number++)
            for (int peer = 0; peer < made->size; peer++)
                copy_rows(made, made->sources[number], peer, made->targets[number]);
    return 0;
}

static double *field(void *state, int number) {
    struct transpose *made = state;
    int fields = made->problem->fields;
    return number < fields ? made->sources[number] : made->targets[number - fields];
}

static void destroy(void *state) {
    struct transpose *made = state;
    for (int number = 0; number < made->problem->fields; number++) {
        free(made->targets[number]);
        if (!made->is_shared) free(made->sources[number]);
    }
    for (int peer = 0; made->sent && peer < made->size; peer++) {
        MPI_Type_free(&made->sent[peer]);
        MPI_Type_free(&made->filled[peer]);
    }
    if (made->is_shared) shared_free(&made->shared);
    free(made->sent), free(made->filled), free(made->ones), free(made->zeroes), free(made->packed);
    free(made);
}

const struct peers_strategy transposes_alltoallw = {
    "C: MPI_Alltoallw, subarray types", with_types, run_alltoallw, field, NULL, NULL, destroy, 0};
const struct peers_strategy transposes_packed = {
    "C: packed, MPI_Alltoall", with_room, run_packed, field, NULL, NULL, destroy, 0};
const struct peers_strategy transposes_pulled = {
    "C: copied from the other rank's field", pulled, run_pulled, field, NULL, NULL, destroy, 0};
const struct peers_strategy transposes_pass = {
    "limit: one pass of copies", own, run_pass, field, NULL, NULL, destroy, 1};
