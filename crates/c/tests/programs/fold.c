/*
 * Staggered grids, and tripolar grids: all points about both pivots, on 1 to 4 ranks that are threads, scalars and vectors, in plans
 * that keep their arrays and in others. Point (i, j) is the same as (a - i mod n, b - j), as docs/fields.md has it.
 */
#include <haloport.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { N = 8, M = 6, MOST_RANKS = 4, EMPTY = -12345 };

static int ranks, fold, points, vector, fixed, along_x, width;
static hp_comm *comms[MOST_RANKS];

#define REQUIRE(condition)                                                                                \
    do {                                                                                                  \
        if (!(condition)) {                                                                               \
            fprintf(stderr, "line %d: %s: %s (fold %d, points %d, vector %d, fixed %d, %d ranks)\n", __LINE__, #condition, \
                    hp_message(), fold, points, vector, fixed, ranks);                                    \
            exit(1);                                                                                      \
        }                                                                                                 \
    } while (0)

static int wrapped(int i) { return ((i % N) + N) % N; }

static double own(int i, int j) { return 100 * j + i + 1; }

/* What the point must hold. */
static double expected(int i, int j) {
    int east = points == HP_POINTS_EAST_EDGES || points == HP_POINTS_CORNERS;
    int north = points == HP_POINTS_NORTH_EDGES || points == HP_POINTS_CORNERS;
    int a = (fold == HP_FOLD_CELL ? N : N - 1) - east, b = (fold == HP_FOLD_CELL ? 2 * M - 2 : 2 * M - 1) - north;
    double sign = vector ? -1 : 1;
    if (j < 0) return EMPTY;
    i = wrapped(i);
    int other = wrapped(a - i);
    if (2 * j > b || (2 * j == b && i > other)) return sign * own(other, b - j);
    return own(i, j);
}

static void *rank_of(void *argument) {
    hp_comm *comm = argument;
    hp_grid grid = HP_GRID_INIT;
    grid.axes = 2, grid.cells[0] = M, grid.cells[1] = N, grid.periodic[1] = 1;
    grid.halo_lower[0] = grid.halo_lower[1] = grid.halo_upper[0] = grid.halo_upper[1] = width;
    grid.parts[0] = along_x ? 1 : ranks, grid.parts[1] = along_x ? ranks : 1;
    grid.fold = fold, grid.points = points;
    hp_pattern *pattern;
    REQUIRE(hp_pattern_grid(comm, &grid, HP_SPLIT, NULL, &pattern) == HP_OK);
    hp_box owned, all;
    int32_t domains;
    REQUIRE(hp_pattern_domain(pattern, &domains, 0, &owned, &all, NULL) == HP_OK && domains == 1);
    hp_array like = HP_ARRAY_INIT;
    like.type = HP_F64, like.axes = 2;
    for (int axis = 0; axis < 2; axis++) like.extent[axis] = all.upper[axis] - all.lower[axis];
    if (vector) like.vector[0] = vector;
    hp_options options = HP_OPTIONS_INIT;
    options.fixed = fixed;
    double *values = calloc((size_t)(like.extent[0] * like.extent[1]), sizeof *values);
    void *data = values;
    hp_plan *plan;
    REQUIRE(hp_plan_create(pattern, 1, &like, &data, &options, &plan) == HP_OK);
#define EACH(body)                                                                  \
    for (int j = (int)all.lower[0], place = 0; j < all.upper[0]; j++)               \
        for (int i = (int)all.lower[1]; i < all.upper[1]; i++, place++) body
    EACH({
        int mine = j >= owned.lower[0] && j < owned.upper[0] && i >= owned.lower[1] && i < owned.upper[1];
        values[place] = mine ? own(i, j) : EMPTY;
    })
    REQUIRE(hp_exchange(plan, &data, (hp_stream){HP_DEFAULT, 0, 0}) == HP_OK);
    EACH({
        if (values[place] != expected(i, j)) {
            fprintf(stderr, "point (%d, %d) holds %g\n", i, j, values[place]);
            REQUIRE(values[place] == expected(i, j));
        }
    })
    hp_plan_free(plan), hp_pattern_free(pattern), hp_comm_free(comm);
    free(values);
    return NULL;
}

static int64_t size_of(hp_box box) { return (box.upper[0] - box.lower[0]) * (box.upper[1] - box.lower[1]); }

/* The nodes of a grid, one more than its cells along each axis, in halos that end at its ends. */
static void *staggered(void *argument) {
    hp_comm *comm = argument;
    hp_grid grid = HP_GRID_INIT;
    grid.axes = 2, grid.cells[0] = M, grid.cells[1] = N, grid.clipped = 1;
    for (int axis = 0; axis < 2; axis++) grid.halo_lower[axis] = grid.halo_upper[axis] = 2;
    hp_pattern *cells, *nodes, *none;
    REQUIRE(hp_pattern_grid(comm, &grid, HP_SPLIT, NULL, &cells) == HP_OK);
    grid.cells[0]++, grid.cells[1]++, grid.like = cells;
    REQUIRE(hp_pattern_grid(comm, &grid, HP_SPLIT, NULL, &nodes) == HP_OK);
    hp_box of_cells, inner, owned, all, boundary[8];
    REQUIRE(hp_pattern_domain(cells, NULL, 0, &of_cells, NULL, &inner) == HP_OK);
    int32_t boxes;
    REQUIRE(hp_pattern_boundary(cells, 0, &boxes, boundary) == HP_OK);
    int64_t waiting = size_of(of_cells) - size_of(inner);
    for (int32_t box = 0; box < boxes; box++) waiting -= size_of(boundary[box]);
    REQUIRE(waiting == 0 && (boxes > 0) == (ranks > 1));
    REQUIRE(hp_pattern_domain(nodes, NULL, 0, &owned, &all, NULL) == HP_OK);
    hp_array like = HP_ARRAY_INIT;
    like.type = HP_F64, like.axes = 2;
    for (int axis = 0; axis < 2; axis++) {
        int64_t end = axis == 0 ? M : N;
        REQUIRE(owned.lower[axis] == of_cells.lower[axis]);
        REQUIRE(owned.upper[axis] == of_cells.upper[axis] + (of_cells.upper[axis] == end));
        REQUIRE(all.lower[axis] >= 0 && all.upper[axis] <= end + 1);
        like.extent[axis] = all.upper[axis] - all.lower[axis];
    }
    double *values = calloc((size_t)(like.extent[0] * like.extent[1]), sizeof *values);
    void *data = values;
    hp_plan *plan;
    REQUIRE(hp_plan_create(nodes, 1, &like, NULL, NULL, &plan) == HP_OK);
    EACH({
        int mine = j >= owned.lower[0] && j < owned.upper[0] && i >= owned.lower[1] && i < owned.upper[1];
        values[place] = mine ? own(i, j) : EMPTY;
    })
    REQUIRE(hp_exchange(plan, &data, (hp_stream){HP_DEFAULT, 0, 0}) == HP_OK);
    EACH({ REQUIRE(values[place] == own(i, j)); })
    hp_plan_free(plan);
    /* Cells and nodes in one exchange. */
    hp_box around;
    REQUIRE(hp_pattern_domain(cells, NULL, 0, NULL, &around, NULL) == HP_OK);
    hp_array both[] = {like, like};
    for (int axis = 0; axis < 2; axis++) both[0].extent[axis] = around.upper[axis] - around.lower[axis];
    both[1].of = nodes;
    double *in_cells = calloc((size_t)(both[0].extent[0] * both[0].extent[1]), sizeof *in_cells);
    void *two[] = {in_cells, values};
    REQUIRE(hp_plan_create(cells, 2, both, NULL, NULL, &plan) == HP_OK);
    const hp_box of_nodes[] = {owned, all};
#define FILL(array)                                                                                          \
    EACH({                                                                                                   \
        int mine = j >= owned.lower[0] && j < owned.upper[0] && i >= owned.lower[1] && i < owned.upper[1];   \
        (array)[place] = mine ? own(i, j) : EMPTY;                                                           \
    })
    FILL(values)
    owned = of_cells, all = around;
    FILL(in_cells)
    REQUIRE(hp_exchange(plan, two, (hp_stream){HP_DEFAULT, 0, 0}) == HP_OK);
    EACH({ REQUIRE(in_cells[place] == own(i, j)); })
    owned = of_nodes[0], all = of_nodes[1];
    EACH({ REQUIRE(values[place] == own(i, j)); })
    free(in_cells);
    grid.parts[0] = 1;
    REQUIRE(hp_pattern_grid(comm, &grid, HP_SPLIT, NULL, &none) == HP_ARGUMENT);
    hp_plan_free(plan), hp_pattern_free(nodes), hp_pattern_free(cells), hp_comm_free(comm);
    free(values);
    return NULL;
}

static void on_ranks(void *(*body)(void *)) {
    pthread_t threads[MOST_RANKS];
    REQUIRE(hp_comm_threads(ranks, comms) == HP_OK);
    for (int rank = 0; rank < ranks; rank++) pthread_create(&threads[rank], NULL, body, comms[rank]);
    for (int rank = 0; rank < ranks; rank++) pthread_join(threads[rank], NULL);
}

int main(void) {
    int cases = 0;
    for (ranks = 1; ranks <= MOST_RANKS; ranks++)
        for (int number = 0; number < 64; number++) {
            fold = number & 1 ? HP_FOLD_CELL : HP_FOLD_CORNER, points = number >> 1 & 3;
            /* None, then along x, the last axis, or y. */
            vector = number & 8 ? HP_CELLS + (number >> 4 & 1) : 0, fixed = number >> 5 & 1;
            along_x = number % 3 == 0, width = 1 + number % 2;
            if (!along_x && ranks > 3) continue;
            on_ranks(rank_of);
            cases++;
        }
    for (ranks = 1; ranks <= MOST_RANKS; ranks++) {
        on_ranks(staggered);
        cases++;
    }
    printf("%d cases\n", cases);
    return 0;
}
