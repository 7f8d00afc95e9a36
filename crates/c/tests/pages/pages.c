/*
 * The code of the pages in C: scripts/pages puts it in place of the comments that name it. Runs on 3 ranks of MPI. Where a page has no
 * value yet, a macro makes it.
 */
#include <haloport.h>
#include <math.h>
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int rank, ranks;

static void require(int right, const char *what) {
    if (right) return;
    fprintf(stderr, "rank %d: %s: %s\n", rank, what, hp_message());
    MPI_Abort(MPI_COMM_WORLD, 1);
}

/* The pages leave statuses out. */
#define CALL(call) require((call) == HP_OK, #call)
#define hp_comm_mpi(...) CALL(hp_comm_mpi(__VA_ARGS__))
#define hp_pattern_grid(...) CALL(hp_pattern_grid(__VA_ARGS__))
#define hp_pattern_redistribution(...) CALL(hp_pattern_redistribution(__VA_ARGS__))
#define hp_plan_create(...) CALL(hp_plan_create(__VA_ARGS__))
#define hp_start(...) CALL(hp_start(__VA_ARGS__))
#define hp_finish(...) CALL(hp_finish(__VA_ARGS__))
#define hp_exchange(...) CALL(hp_exchange(__VA_ARGS__))
#define hp_sparse_create(...) CALL(hp_sparse_create(__VA_ARGS__))
#define hp_sparse_exchange(...) CALL(hp_sparse_exchange(__VA_ARGS__))
#define hp_line_even(...) CALL(hp_line_even(__VA_ARGS__))
#define hp_line_exchange(...) CALL(hp_line_exchange(__VA_ARGS__))
#define hp_comm_sum_exact(...) CALL(hp_comm_sum_exact(__VA_ARGS__))

/* The cells of this rank, with their halo. */
static hp_box cells_of(hp_pattern *pattern) {
    hp_box box;
    CALL(hp_pattern_domain(pattern, NULL, 0, NULL, &box, NULL));
    return box;
}

static int64_t extent(hp_pattern *pattern, int axis) {
    hp_box box = cells_of(pattern);
    return box.upper[axis] - box.lower[axis];
}

static double memory[66 * 50], other_memory[66 * 50], turned[48 * 64];

/* An array with the rank in all elements; of those that are at hand here, each has the size of the whole grid. */
static double *filled(double *array) {
    for (int place = 0; place < 66 * 50; place++) array[place] = rank;
    return array;
}

/* Whether cells of the halo have come from another rank. */
static int has_halo(const double *array) {
    for (int place = 0; place < 66 * 50; place++)
        if (array[place] != rank) return 1;
    return 0;
}

static void interior(const double *array) {
    require(array != NULL, "an array");
}

static void exchanges(void) {
#define ni extent(pattern, 0)
#define nj extent(pattern, 1)
    double *u = filled(memory);
    /* page: docs/c.md 1 */
    require(has_halo(u), "a halo");

    hp_options options = HP_OPTIONS_INIT;
    hp_stream stream = {HP_DEFAULT, 0, 0};
    void *other_data[] = {filled(other_memory)};
    filled(u);
    options.in_flight = 2;
    CALL(hp_plan_free(plan));
    hp_plan_create(pattern, 1, &like, NULL, &options, &plan);
    /* page: docs/c.md 2 */
    require(has_halo(u) && has_halo(other_memory), "halos of two exchanges");
    CALL(hp_plan_free(plan));
    CALL(hp_pattern_free(pattern));
    CALL(hp_comm_free(comm));
#undef ni
#undef nj
}

static int taken;

static void take(int source, int64_t bytes, const void *data) {
    int value;
    require(bytes == sizeof value, "a message of one number");
    memcpy(&value, data, sizeof value);
    require(value == source, "the number of the source");
    taken++;
}

static void messages(hp_comm *comm) {
    const int moved[] = {rank}, left[] = {rank};
    /* page: docs/c.md 3 */
    require(taken == (rank == 1 ? 0 : 3), "a message of each rank");
    CALL(hp_sparse_free(sparse));
}

static void rows_of_a_table(hp_comm *comm) {
    const int64_t rows = 100;
    const int row = rank;
    /* page: docs/c.md 4 */
    require(before.bytes == (rank == 0 ? HP_NO_PAYLOAD : (int64_t)sizeof row), "a row from the rank before");
    if (rank > 0) require(*(const int *)before.data == rank - 1, "the row of the rank before");
    CALL(hp_line_free(line));
}

static void step(const void *queue, const void *array) {
    require(queue != NULL && array != NULL, "a queue");
}

/* Compiled, and not run: it needs devices of CUDA and OpenCL. */
void devices(hp_pattern *pattern, hp_array like, hp_plan *plan, const void *queue, double *u) {
    /* page: docs/c.md 5 */
}

static void sums(hp_comm *comm) {
    const int64_t cells = 2;
    const double height[] = {1e30, rank}, area[] = {rank == 0 ? 1 : rank == 1 ? -1 : 0, 2}, heat[] = {NAN, 0.5};
    const uint8_t wet[] = {0, 1};
    /* page: docs/exact-sums.md 1 */
    require(sums[0] == 6 && sums[1] == 6 && sums[2] == 3, "exact sums");
}

/* The rows of this rank: each element has its place in the whole grid. */
static double *of_rows(hp_pattern *rows) {
    hp_box box = cells_of(rows);
    for (int64_t i = box.lower[0]; i < box.upper[0]; i++)
        for (int64_t j = 0; j < 48; j++) memory[(i - box.lower[0]) * 48 + j] = (double)(48 * i + j);
    return memory;
}

static void transposes(hp_comm *comm) {
#define ni extent(rows, 0)
#define nj extent(columns, 1)
#define u of_rows(rows)
#define u_of_columns turned
    /* page: docs/redistribute.md 1 */
    hp_box box = cells_of(columns);
    for (int64_t j = box.lower[1]; j < box.upper[1]; j++)
        for (int64_t i = 0; i < 64; i++) require(turned[(j - box.lower[1]) * 64 + i] == (double)(48 * i + j), "a transposed cell");
    CALL(hp_plan_free(transpose));
    CALL(hp_pattern_free(to_columns)), CALL(hp_pattern_free(rows)), CALL(hp_pattern_free(columns));
}

int main(int argc, char **argv) {
    MPI_Init(&argc, &argv);
    MPI_Comm world = MPI_COMM_WORLD;
    MPI_Comm_rank(world, &rank);
    MPI_Comm_size(world, &ranks);
    require(ranks == 3, "3 ranks");
    hp_comm *comm;
    hp_comm_mpi(&world, sizeof world, &comm);
    exchanges();
    messages(comm);
    rows_of_a_table(comm);
    sums(comm);
    transposes(comm);
    CALL(hp_comm_free(comm));
    MPI_Finalize();
    return 0;
}
