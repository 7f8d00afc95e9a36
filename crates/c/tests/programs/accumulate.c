/*
 * Halo cells go to their owners in each combination, of boxes, meshes and lists: on 1 to 3 ranks, which are threads. What owners find
 * afterwards is compared with the values of all ranks, which each rank works out by itself.
 */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "haloport.h"

#define REQUIRE(condition)                                                                                          \
    do {                                                                                                            \
        if (!(condition)) {                                                                                         \
            fprintf(stderr, "line %d: %s is false: %s (shape %d, %d ranks)\n", __LINE__, #condition, hp_message(), shape, ranks); \
            exit(1);                                                                                                \
        }                                                                                                           \
    } while (0)

enum { MOST_RANKS = 3, MOST_CELLS = 64, ROWS = 4, COLUMNS = 5 };

/* In the first two of them, no cell is in two halos, as 'replace' requires. */
enum { BOXES_OF_ROWS, SPARSE_MESH, BOXES, MESH, SHAPES };

/* The cells of a rank in the order of its arrays. */
typedef struct part {
    int cells, id[MOST_CELLS], owner[MOST_CELLS];
} part;

static int ranks, shape;
static part parts[MOST_RANKS];
static hp_comm *comms[MOST_RANKS];

static int is_of_boxes(void) {
    return shape == BOXES_OF_ROWS || shape == BOXES;
}

/* A grid that is periodic, with a halo of one row below and two above, and perhaps of columns. */
static hp_grid grid_of(void) {
    hp_grid grid = HP_GRID_INIT;
    grid.axes = 2, grid.cells[0] = ROWS * ranks, grid.cells[1] = COLUMNS, grid.parts[0] = ranks, grid.parts[1] = 1;
    grid.periodic[0] = grid.periodic[1] = 1;
    grid.halo_lower[0] = 1, grid.halo_upper[0] = 2;
    if (shape == BOXES) grid.halo_lower[1] = 2, grid.halo_upper[1] = 1;
    return grid;
}

static int64_t extent(const hp_grid *grid, int axis) {
    return grid->halo_lower[axis] + (axis == 0 ? ROWS : COLUMNS) + grid->halo_upper[axis];
}

/* The cells of a box with its halo, row by row. */
static part box_of(int rank) {
    const hp_grid grid = grid_of();
    const int all = (int)grid.cells[0];
    part made = {0};
    for (int i = 0; i < extent(&grid, 0); i++)
        for (int j = 0; j < extent(&grid, 1); j++) {
            const int row = (ROWS * rank + i - grid.halo_lower[0] + all) % all, column = (j - grid.halo_lower[1] + COLUMNS) % COLUMNS;
            const int inside = i >= grid.halo_lower[0] && i < grid.halo_lower[0] + ROWS && j >= grid.halo_lower[1] && j < grid.halo_lower[1] + COLUMNS;
            made.id[made.cells] = row * COLUMNS + column;
            made.owner[made.cells++] = inside ? rank : -1 - row / ROWS;
        }
    return made;
}

/* Owners are ragged; cells of the halo lie among owned ones. */
static part part_of_mesh(int rank) {
    part made = {0};
    for (int cell = 7 * ranks + 2; cell >= 0; cell--) {
        const int owner = (cell * cell / 3 + cell) % ranks;
        const int in_halo = shape == MESH ? (cell + rank) % 3 != 0 : (owner + 1) % ranks == rank && cell % 2 == 1;
        if (owner != rank && !in_halo) continue;
        made.id[made.cells] = cell, made.owner[made.cells++] = owner == rank ? rank : -1 - owner;
    }
    return made;
}

/* Halves, so that sums of floats are exact; of either sign. */
static int halves_of(int rank, int place) {
    return (rank * 7919 + place * 1543) % 2003 - 1000;
}

static int combined(const char *how, int one, int other) {
    if (strcmp(how, "sum") == 0) return one + other;
    if (strcmp(how, "min") == 0) return one < other ? one : other;
    if (strcmp(how, "max") == 0) return one > other ? one : other;
    return other;
}

/* What is at a place of a rank afterwards, in halves. Owners are numbered from 0, those of cells of the halo below 0. */
static int expected(const char *how, int rank, int place, int zero_halo) {
    int value = halves_of(rank, place);
    if (parts[rank].owner[place] < 0) return zero_halo ? 0 : value;
    for (int other = 0; other < ranks; other++)
        for (int at = 0; at < parts[other].cells; at++)
            if (parts[other].owner[at] < 0 && parts[other].id[at] == parts[rank].id[place])
                value = combined(how, value, halves_of(other, at));
    return value;
}

/* The place of a cell on the rank that owns it. */
static int place_of(int id, int owner) {
    int place = 0;
    while (parts[owner].id[place] != id || parts[owner].owner[place] != owner) place++;
    return place;
}

static void make_of_lists(hp_comm *comm, int rank, hp_pattern **pattern) {
    int32_t sent[MOST_RANKS][MOST_CELLS], received[MOST_RANKS][MOST_CELLS];
    hp_list send[MOST_RANKS], receive[MOST_RANKS];
    for (int other = 0; other < ranks; other++) {
        const hp_list none = HP_LIST_INIT;
        send[other] = receive[other] = none;
        send[other].rank = receive[other].rank = other, send[other].at = sent[other], receive[other].at = received[other];
        for (int at = 0; at < parts[other].cells; at++)
            if (parts[other].owner[at] == -1 - rank) sent[other][send[other].cells++] = place_of(parts[other].id[at], rank);
        for (int at = 0; at < parts[rank].cells; at++)
            if (parts[rank].owner[at] == -1 - other) received[other][receive[other].cells++] = at;
    }
    REQUIRE(hp_pattern_lists(comm, parts[rank].cells, ranks, send, ranks, receive, pattern) == HP_OK);
}

static void make(hp_comm *comm, int rank, hp_pattern **pattern) {
    const hp_grid grid = grid_of();
    int64_t ids[MOST_CELLS];
    uint8_t owned[MOST_CELLS];
    hp_ids set = HP_IDS_INIT;
    if (is_of_boxes()) {
        REQUIRE(hp_pattern_grid(comm, &grid, HP_SPLIT, NULL, pattern) == HP_OK);
        return;
    }
    for (int at = 0; at < parts[rank].cells; at++) ids[at] = parts[rank].id[at], owned[at] = parts[rank].owner[at] == rank;
    set.cells = parts[rank].cells, set.ids = ids, set.owned = owned;
    REQUIRE(hp_pattern_ids(comm, 1, &set, pattern) == HP_OK);
}

/* Fields of floats and of whole numbers in one exchange. */
static void accumulate(hp_pattern *pattern, int rank, int has_rows, const char *how, int zero_halo) {
    const hp_grid grid = grid_of();
    double floats[MOST_CELLS];
    int32_t numbers[MOST_CELLS];
    void *data[] = {floats, numbers};
    hp_array like[2] = {HP_ARRAY_INIT, HP_ARRAY_INIT};
    hp_options options = HP_OPTIONS_INIT;
    hp_plan *plan;
    int changed = 0, cells = parts[rank].cells;
    for (int field = 0; field < 2; field++) {
        like[field].axes = has_rows ? 2 : 1, like[field].extent[0] = has_rows ? extent(&grid, 0) : cells;
        if (has_rows) like[field].extent[1] = extent(&grid, 1);
    }
    like[0].type = HP_F64, like[1].type = HP_I32;
    options.accumulate = how, options.zero_halo = zero_halo;
    REQUIRE(hp_plan_create(pattern, 2, like, NULL, &options, &plan) == HP_OK);
    for (int round = 0; round < 2; round++) {
        for (int at = 0; at < cells; at++) floats[at] = 0.5 * halves_of(rank, at), numbers[at] = halves_of(rank, at);
        REQUIRE(hp_exchange(plan, data, (hp_stream){HP_DEFAULT, 0, 0}) == HP_OK);
        for (int at = 0; at < cells; at++) {
            const int halves = expected(how, rank, at, zero_halo);
            REQUIRE(floats[at] == 0.5 * halves && numbers[at] == halves);
            changed += parts[rank].owner[at] == rank && halves != halves_of(rank, at);
        }
    }
    /* The halo of a mesh on one rank is empty. */
    REQUIRE(changed > 0 || strcmp(how, "sum") != 0 || (ranks == 1 && !is_of_boxes()));
    REQUIRE(hp_plan_free(plan) == HP_OK);
}

static void *rank_of(void *argument) {
    static const char *const combinations[] = {"sum", "min", "max", "replace"};
    hp_comm *comm = argument;
    hp_pattern *patterns[2];
    int32_t rank;
    REQUIRE(hp_comm_rank(comm, &rank) == HP_OK);
    make(comm, rank, &patterns[0]);
    make_of_lists(comm, rank, &patterns[1]);
    for (int kind = 0; kind < 2; kind++) {
        for (int number = 0; number < 8; number++) {
            const char *how = combinations[number / 2];
            if (shape <= SPARSE_MESH || number < 6) accumulate(patterns[kind], rank, kind == 0 && is_of_boxes(), how, number % 2);
        }
        REQUIRE(hp_pattern_free(patterns[kind]) == HP_OK);
    }
    return NULL;
}

int main(void) {
    pthread_t threads[MOST_RANKS];
    for (ranks = 1; ranks <= MOST_RANKS; ranks++)
        for (shape = 0; shape < SHAPES; shape++) {
            for (int rank = 0; rank < ranks; rank++) parts[rank] = is_of_boxes() ? box_of(rank) : part_of_mesh(rank);
            REQUIRE(hp_comm_threads(ranks, comms) == HP_OK);
            for (int rank = 0; rank < ranks; rank++) REQUIRE(pthread_create(&threads[rank], NULL, rank_of, comms[rank]) == 0);
            for (int rank = 0; rank < ranks; rank++) pthread_join(threads[rank], NULL);
            for (int rank = 0; rank < ranks; rank++) REQUIRE(hp_comm_free(comms[rank]) == HP_OK);
        }
    return 0;
}
