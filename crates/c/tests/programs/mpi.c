/*
 * MPI initialised for one thread (mpi single, mpi funneled) or for any (mpi multiple): exchanges of the main thread are right; another
 * thread gets a status from calls that need MPI; and no call after MPI_Finalize crashes.
 */
#include <mpi.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "haloport.h"

enum { CELLS = 8 };

static const hp_stream STREAM = {HP_DEFAULT, 0, 0};
static hp_comm *comm;
static hp_pattern *pattern;
static hp_plan *plan, *fixed, *messages, *in_flight;
static hp_memory *memory;
static hp_sparse *sparse;
static hp_line *line;
static double u[CELLS], v[CELLS], *shared_u;
static int rank, ranks, logged;

#define REQUIRE(condition)                                                                                   \
    do {                                                                                                     \
        if (!(condition)) {                                                                                  \
            fprintf(stderr, "rank %d, line %d: %s is false: %s\n", rank, __LINE__, #condition, hp_message()); \
            abort();                                                                                         \
        }                                                                                                    \
    } while (0)

/* Counts what is logged of frees. */
static void count_lines(hp_level level, const char *text, void *unused) {
    (void)unused;
    if (level == HP_LOG_ERROR && strstr(text, "was not freed")) logged++;
}

/* Whether the description of a plan has this text. */
static int tells(const hp_plan *of, const char *part) {
    static char text[1 << 16];
    size_t bytes = sizeof text;
    REQUIRE(hp_plan_describe(of, text, &bytes) == HP_OK && bytes <= sizeof text);
    return strstr(text, part) != NULL;
}

/* A plan tells how its arrays get to neighbours, and why in no quicker way. */
static void describe(void) {
    if (ranks == 1) {
        REQUIRE(tells(plan, "\"routes\":[]"));
        return;
    }
    REQUIRE(tells(plan, "\"why\":\"passed\"") || tells(plan, "\"why\":\"apart\""));
    REQUIRE(tells(messages, "\"path\":\"messages\",\"why\":\"asked\"") || tells(messages, "\"why\":\"apart\""));
    REQUIRE(tells(fixed, "\"path\":\"direct\",\"why\":null") || tells(fixed, "\"why\":\"quicker\"") ||
            tells(fixed, "\"why\":\"apart\""));
}

/* A ring: each rank owns CELLS - 2 cells, with a halo of one at each end. */
static void make(void) {
    REQUIRE(hp_comm_mpi(NULL, 0, &comm) == HP_OK);
    int32_t size, number;
    REQUIRE(hp_comm_size(comm, &size) == HP_OK && size == ranks && hp_comm_rank(comm, &number) == HP_OK && number == rank);
    hp_grid grid = HP_GRID_INIT;
    grid.axes = 1, grid.cells[0] = (int64_t)ranks * (CELLS - 2), grid.periodic[0] = 1;
    grid.halo_lower[0] = grid.halo_upper[0] = 1;
    REQUIRE(hp_pattern_grid(comm, &grid, HP_SPLIT, NULL, &pattern) == HP_OK);
    hp_array like = HP_ARRAY_INIT;
    like.type = HP_F64, like.axes = 1, like.extent[0] = CELLS;
    REQUIRE(hp_plan_create(pattern, 1, &like, NULL, NULL, &plan) == HP_OK);
    void *data;
    REQUIRE(hp_memory_create(pattern, &like, &memory, &data) == HP_OK);
    shared_u = data;
    hp_options options = HP_OPTIONS_INIT;
    options.fixed = 1;
    REQUIRE(hp_plan_create(pattern, 1, &like, &data, &options, &fixed) == HP_OK);
    options.fixed = 0, options.path = "messages";
    REQUIRE(hp_plan_create(pattern, 1, &like, NULL, &options, &messages) == HP_OK);
    REQUIRE(hp_plan_create(pattern, 1, &like, NULL, &options, &in_flight) == HP_OK);
    REQUIRE(hp_sparse_create(comm, &sparse) == HP_OK);
    REQUIRE(hp_line_even(comm, ranks, &line) == HP_OK);
    describe();
    if (ranks > 1) {
        /* Every rank gets the reason. */
        hp_plan *none;
        options.path = "direct";
        REQUIRE(hp_plan_create(pattern, 1, &like, NULL, &options, &none) == HP_REFUSED && none == NULL);
        REQUIRE(strstr(hp_message(), "path `direct`") && strstr(hp_message(), ", because "));
    }
}

static void reductions(void) {
    double values[] = {rank + 0.5, -rank};
    int64_t number = rank + 1;
    float largest = (float)rank;
    REQUIRE(hp_comm_all_reduce(comm, HP_SUM, HP_F64, 2, values) == HP_OK);
    REQUIRE(values[0] == ranks * (ranks - 1) / 2 + 0.5 * ranks && values[1] == -ranks * (ranks - 1) / 2);
    REQUIRE(hp_comm_all_reduce(comm, HP_MIN, HP_I64, 1, &number) == HP_OK && number == 1);
    REQUIRE(hp_comm_all_reduce(comm, HP_MAX, HP_F32, 1, &largest) == HP_OK && largest == (float)(ranks - 1));
    /* One rank has a wrong argument, and all learn of it. */
    hp_status wrong = hp_comm_all_reduce(comm, rank == 0 ? 9 : HP_SUM, HP_F64, 2, values);
    REQUIRE(rank == 0 ? wrong == HP_ARGUMENT : wrong == HP_REFUSED);
    REQUIRE(hp_comm_set_warn_after(comm, 30) == HP_OK);
}

/* The last failure has one text on all ranks, with this in it. */
static void all_have(const char *part) {
    char text[500] = "";
    strncpy(text, hp_message(), sizeof text - 1);
    REQUIRE(strstr(text, part));
    MPI_Bcast(text, sizeof text, MPI_CHAR, 0, MPI_COMM_WORLD);
    REQUIRE(strncmp(text, hp_message(), sizeof text - 1) == 0);
}

/* Bytes from one rank to all, and of all ranks on one. */
static void bytes_of_one_rank(void) {
    const int32_t root = ranks - 1;
    static const char name[] = "heat.nml";
    char came[sizeof name] = "";
    /* The root only reads. */
    REQUIRE(hp_comm_broadcast(comm, 0, sizeof name, rank == 0 ? (void *)name : came) == HP_OK);
    REQUIRE(rank == 0 || strcmp(came, name) == 0);
    double found[] = {rank, 10 * rank, 0};
    REQUIRE(hp_comm_broadcast(comm, root, 2 * sizeof *found, found) == HP_OK);
    REQUIRE(found[0] == root && found[1] == 10 * root && found[2] == 0);
    REQUIRE(hp_comm_broadcast(comm, root, 0, NULL) == HP_OK);
    double *all = calloc(2 * (size_t)ranks + 1, sizeof *all), own[] = {rank, -rank};
    REQUIRE(all && hp_comm_gather(comm, root, sizeof own, own, rank == root ? all : NULL) == HP_OK);
    for (int from = 0; from < ranks; from++)
        REQUIRE(rank != root || (all[2 * from] == from && all[2 * from + 1] == -from));
    /* From its place, as one rank can do. */
    if (rank == root) all[2 * root] = -7;
    REQUIRE(hp_comm_gather(comm, root, sizeof own, rank == root ? all + 2 * root : own, rank == root ? all : NULL) == HP_OK);
    REQUIRE(rank != root || all[2 * root] == -7);
    if (rank == 0) all[0] = 5;
    REQUIRE(hp_comm_gather(comm, 0, 0, NULL, NULL) == HP_OK);
    /* One rank has a wrong argument, and all learn of it; nothing is written. */
    hp_status wrong = hp_comm_gather(comm, 0, rank == root ? -1 : (int64_t)sizeof own, own, all);
    REQUIRE(rank == root ? wrong == HP_ARGUMENT : wrong == HP_REFUSED);
    REQUIRE(strstr(hp_message(), "bytes: expected") && (rank != 0 || all[0] == 5));
    wrong = hp_comm_broadcast(comm, rank == root ? ranks : 0, sizeof own, own);
    REQUIRE(rank == root ? wrong == HP_ARGUMENT : wrong == HP_REFUSED);
    REQUIRE(strstr(hp_message(), "root: expected one of the "));
    if (ranks > 1) {
        /* Ranks that disagree, and all have one text. */
        REQUIRE(hp_comm_broadcast(comm, 0, rank == root ? 8 : 16, own) == HP_REFUSED && own[0] == rank);
        all_have("bytes: expected the same number on all ranks, found 8 here and 16 on rank 0");
        REQUIRE(hp_comm_gather(comm, 0, rank == root ? 8 : 16, own, all) == HP_REFUSED && (rank != 0 || all[0] == 5));
        all_have("rank 0: bytes: expected the same number on all ranks, found 16 here and 8 on rank ");
        REQUIRE(hp_comm_broadcast(comm, rank == root, sizeof own, own) == HP_REFUSED && own[1] == -rank);
    }
    free(all);
    REQUIRE(hp_comm_barrier(comm) == HP_OK);
}

static void begin(hp_plan *with, double *values, double step) {
    void *data[] = {values};
    for (int cell = 1; cell < CELLS - 1; cell++) values[cell] = step + rank * (CELLS - 2) + cell - 1;
    values[0] = values[CELLS - 1] = -1;
    REQUIRE(hp_start(with, data, STREAM, NULL) == HP_OK);
}

static void end(hp_plan *with, const double *values, double step) {
    REQUIRE(hp_finish(with, HP_NO_TICKET, STREAM) == HP_OK);
    int last = ranks * (CELLS - 2) - 1;
    REQUIRE(values[0] == step + (rank == 0 ? last : rank * (CELLS - 2) - 1));
    REQUIRE(values[CELLS - 1] == step + (rank == ranks - 1 ? 0 : (rank + 1) * (CELLS - 2)));
}

static void exchange(hp_plan *with, double *values, double step) {
    begin(with, values, step);
    end(with, values, step);
}

/* Sends the rank to the one behind it on the ring, and to the right on the line. */
static void begin_messages(void) {
    const int32_t to = (rank + 1) % ranks;
    const int64_t bytes = sizeof rank;
    const void *const data = &rank;
    const hp_payload none = {HP_NO_PAYLOAD, NULL}, right = {sizeof rank, &rank};
    REQUIRE(hp_sparse_start(sparse, 1, &to, &bytes, &data) == HP_OK);
    REQUIRE(hp_line_start(line, none, right) == HP_OK);
}

static void end_messages(void) {
    const hp_received *came;
    hp_payload left;
    int64_t count;
    int before = (rank + ranks - 1) % ranks;
    REQUIRE(hp_sparse_finish(sparse, &count, &came) == HP_OK);
    REQUIRE(count == 1 && came->rank == before && came->bytes == sizeof rank && memcmp(came->data, &before, sizeof rank) == 0);
    REQUIRE(hp_line_finish(line, &left, NULL) == HP_OK);
    REQUIRE(left.bytes == (rank > 0 ? (int64_t)sizeof rank : HP_NO_PAYLOAD));
    REQUIRE(rank == 0 || memcmp(left.data, &before, sizeof rank) == 0);
}

/* Calls of a thread that MPI was not initialised for. */
static void *refused(void *unused) {
    void *data[] = {u};
    hp_pattern *other = NULL;
    hp_plan *second = NULL;
    hp_grid grid = HP_GRID_INIT;
    grid.axes = 1, grid.cells[0] = 100;
    hp_array like = HP_ARRAY_INIT;
    like.type = HP_F64, like.axes = 1, like.extent[0] = CELLS;
    MPI_Comm world = MPI_COMM_WORLD;
    hp_comm *another = NULL;
    REQUIRE(hp_comm_barrier(comm) == HP_WRONG_THREAD);
    REQUIRE(hp_comm_mpi(&world, sizeof world, &another) == HP_WRONG_THREAD && another == NULL);
    REQUIRE(hp_pattern_grid(comm, &grid, HP_SPLIT, NULL, &other) == HP_WRONG_THREAD && other == NULL);
    REQUIRE(hp_plan_create(pattern, 1, &like, NULL, NULL, &second) == HP_WRONG_THREAD && second == NULL);
    REQUIRE(strstr(hp_message(), "another thread"));
    for (int number = 0; number < 3; number++) {
        hp_plan *one = number == 0 ? plan : number == 1 ? fixed : messages;
        REQUIRE(hp_exchange(one, number == 1 ? NULL : data, STREAM) == HP_WRONG_THREAD);
        REQUIRE(hp_start(one, number == 1 ? NULL : data, STREAM, NULL) == HP_WRONG_THREAD);
    }
    int32_t ready = 1;
    /* A caller that waits until it is ready would wait for ever. */
    REQUIRE(hp_ready(in_flight, HP_NO_TICKET, &ready) == HP_WRONG_THREAD && ready == 0);
    REQUIRE(hp_finish(in_flight, HP_NO_TICKET, STREAM) == HP_WRONG_THREAD);
    hp_sparse *no_sparse = NULL;
    hp_line *no_line = NULL;
    REQUIRE(hp_sparse_create(comm, &no_sparse) == HP_WRONG_THREAD && no_sparse == NULL);
    REQUIRE(hp_line_even(comm, 1, &no_line) == HP_WRONG_THREAD && no_line == NULL);
    const hp_received *came;
    hp_payload left;
    int64_t count;
    ready = 1;
    REQUIRE(hp_sparse_ready(sparse, &ready) == HP_WRONG_THREAD && ready == 0);
    ready = 1;
    REQUIRE(hp_line_ready(line, &ready) == HP_WRONG_THREAD && ready == 0);
    REQUIRE(hp_sparse_finish(sparse, &count, &came) == HP_WRONG_THREAD && count == 0 && came == NULL);
    REQUIRE(hp_line_finish(line, &left, NULL) == HP_WRONG_THREAD && left.bytes == HP_NO_PAYLOAD);
    /* What is in flight is not given up: the main thread finishes it. */
    int lines = logged;
    REQUIRE(hp_plan_free(in_flight) == HP_WRONG_THREAD);
    REQUIRE(hp_sparse_free(sparse) == HP_WRONG_THREAD && hp_line_free(line) == HP_WRONG_THREAD);
    REQUIRE(logged == lines + 3);
    return unused;
}

/* The same, if no round is in flight: none is started. */
static void *refused_to_start(void *unused) {
    const hp_payload none = {HP_NO_PAYLOAD, NULL};
    REQUIRE(hp_sparse_start(sparse, 0, NULL, NULL, NULL) == HP_WRONG_THREAD);
    REQUIRE(hp_sparse_exchange(sparse, 0, NULL, NULL, NULL, NULL, NULL) == HP_WRONG_THREAD);
    REQUIRE(hp_line_start(line, none, none) == HP_WRONG_THREAD);
    REQUIRE(hp_line_exchange(line, none, none, NULL, NULL) == HP_WRONG_THREAD);
    return unused;
}

static void *allowed(void *unused) {
    exchange(plan, u, 5000);
    begin_messages();
    end_messages();
    return unused;
}

static void in_thread(void *(*body)(void *)) {
    pthread_t thread;
    REQUIRE(pthread_create(&thread, NULL, body, NULL) == 0);
    pthread_join(thread, NULL);
}

/* Whatever they return: no call crashes or waits. */
static void after_the_end(void) {
    void *data[] = {u}, *places[1];
    char text[4000];
    size_t bytes = sizeof text;
    int32_t ready;
    hp_array like = HP_ARRAY_INIT;
    like.type = HP_F64, like.axes = 1, like.extent[0] = CELLS;
    MPI_Comm world = MPI_COMM_WORLD;
    hp_comm *another;
    hp_plan *second;
    hp_memory *more;
    hp_sparse *sparse_in_flight = sparse;
    hp_line *idle_line = line;
    REQUIRE(hp_comm_barrier(comm) != HP_OK);
    REQUIRE(hp_comm_mpi(&world, sizeof world, &another) != HP_OK);
    REQUIRE(hp_plan_create(pattern, 1, &like, NULL, NULL, &second) != HP_OK);
    hp_exchange(plan, data, STREAM);
    hp_start(plan, data, STREAM, NULL);
    hp_ready(plan, HP_NO_TICKET, &ready);
    hp_finish(plan, HP_NO_TICKET, STREAM);
    hp_exchange(fixed, NULL, STREAM);
    hp_exchange(messages, data, STREAM);
    hp_finish(in_flight, HP_NO_TICKET, STREAM);
    hp_synchronize(plan);
    hp_plan_describe(plan, text, &bytes);
    if (hp_memory_create(pattern, &like, &more, places) == HP_OK) hp_memory_free(more);
    REQUIRE(hp_comm_rank(comm, &ready) == HP_OK && ready == rank);
    const hp_payload none = {HP_NO_PAYLOAD, NULL};
    REQUIRE(hp_sparse_create(comm, &sparse) != HP_OK && hp_line_even(comm, 1, &line) != HP_OK);
    hp_sparse_ready(sparse_in_flight, &ready);
    hp_sparse_finish(sparse_in_flight, NULL, NULL);
    hp_sparse_exchange(sparse_in_flight, 0, NULL, NULL, NULL, NULL, NULL);
    hp_line_exchange(idle_line, none, none, NULL, NULL);
    hp_sparse_free(sparse_in_flight), hp_line_free(idle_line);
    hp_plan_free(plan), hp_plan_free(fixed), hp_plan_free(messages), hp_plan_free(in_flight), hp_memory_free(memory);
    hp_pattern_free(pattern), hp_comm_free(comm);
}

int main(int arguments, char **argument) {
    const char *level = arguments > 1 ? argument[1] : "single";
    int any = strcmp(level, "multiple") == 0, provided;
    MPI_Init_thread(&arguments, &argument,
                    any ? MPI_THREAD_MULTIPLE : strcmp(level, "funneled") == 0 ? MPI_THREAD_FUNNELED : MPI_THREAD_SINGLE,
                    &provided);
    any = any && provided == MPI_THREAD_MULTIPLE;
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    REQUIRE(hp_set_log(count_lines, NULL) == HP_OK);
    make();
    reductions();
    bytes_of_one_rank();
    exchange(plan, u, 1000);
    exchange(fixed, shared_u, 2000);
    exchange(messages, u, 8000);
    if (any) {
        in_thread(allowed);
    } else {
        in_thread(refused_to_start);
        begin(in_flight, v, 9000);
        begin_messages();
        in_thread(refused);
        end(in_flight, v, 9000);
        end_messages();
    }
    exchange(plan, u, 3000);
    exchange(fixed, shared_u, 4000);
    exchange(messages, u, 7000);
    begin_messages();
    end_messages();
    MPI_Finalize();
    after_the_end();
    if (rank == 0) printf("%d ranks, %s\n", ranks, level);
    return 0;
}
