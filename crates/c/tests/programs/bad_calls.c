/* Calls with wrong arguments: each returns the status that is expected, and a text that names the argument. */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "haloport.h"

static int calls, wrong;

#define REFUSED(expected, word, call)                                                                         \
    do {                                                                                                      \
        hp_status found = (call);                                                                             \
        calls++;                                                                                              \
        if (found != (expected) || !strstr(hp_message(), word)) {                                             \
            wrong++;                                                                                          \
            fprintf(stderr, "line %d: expected %d and \"%s\", found %d: %s\n", __LINE__, (int)(expected), word, \
                    (int)found, hp_message());                                                                \
        }                                                                                                     \
    } while (0)
#define CHECK(call)                                                \
    do {                                                           \
        if ((call) != HP_OK) {                                     \
            fprintf(stderr, "line %d: %s\n", __LINE__, hp_message()); \
            exit(1);                                               \
        }                                                          \
    } while (0)

static const hp_stream STREAM = {HP_DEFAULT, 0, 0};

static hp_grid row(void) {
    hp_grid grid = HP_GRID_INIT;
    grid.axes = 1, grid.cells[0] = 4, grid.halo_lower[0] = grid.halo_upper[0] = 1, grid.periodic[0] = 1;
    return grid;
}

static hp_array six(void) {
    hp_array array = HP_ARRAY_INIT;
    array.type = HP_F64, array.axes = 1, array.extent[0] = 6;
    return array;
}

static void communicators(hp_comm *comm) {
    hp_comm *made;
    int32_t rank;
    int64_t handle = 0;
    for (int32_t ranks = -3; ranks <= 0; ranks++) REFUSED(HP_ARGUMENT, "ranks", hp_comm_threads(ranks, &made));
    REFUSED(HP_ARGUMENT, "rank", hp_comm_threads(70000, &made));
    REFUSED(HP_ARGUMENT, "null", hp_comm_threads(2, NULL));
    REFUSED(HP_ARGUMENT, "null", hp_comm_rank(NULL, &rank));
    REFUSED(HP_ARGUMENT, "null", hp_comm_barrier(NULL));
    REFUSED(HP_ARGUMENT, "null", hp_comm_set_time_limit(NULL, 1));
    double limits[] = {-1, -1e300, 1e300, 0.0 / 0.0, 1.0 / 0.0};
    for (int i = 0; i < 5; i++) REFUSED(HP_ARGUMENT, "seconds", hp_comm_set_time_limit(comm, limits[i]));
    size_t sizes[] = {0, 1, 2, 3, 5, 7, 9, 16, 1u << 30};
    for (int i = 0; i < 9; i++) REFUSED(HP_ARGUMENT, "bytes", hp_comm_mpi(&handle, sizes[i], &made));
    REFUSED(HP_ARGUMENT, "null", hp_comm_mpi(NULL, 8, &made));
    REFUSED(HP_ARGUMENT, "null", hp_comm_mpi(&handle, 8, NULL));
    REFUSED(HP_ARGUMENT, "null", hp_comm_fortran(0, NULL));
    /* No MPI runs. */
    REFUSED(HP_TRANSPORT, "MPI", hp_comm_mpi(&handle, 8, &made));
    REFUSED(HP_TRANSPORT, "MPI", hp_comm_mpi(NULL, 0, &made));
    REFUSED(HP_TRANSPORT, "MPI", hp_comm_fortran(0, &made));
    hp_comm *freed;
    CHECK(hp_comm_threads(1, &freed));
    CHECK(hp_comm_free(freed));
    REFUSED(HP_ARGUMENT, "freed", hp_comm_free(freed));
    REFUSED(HP_ARGUMENT, "freed", hp_comm_barrier(freed));
    REFUSED(HP_ARGUMENT, "freed", hp_comm_rank(freed, &rank));
    REFUSED(HP_ARGUMENT, "freed", hp_comm_size(freed, &rank));
    /* Its place is used again. */
    CHECK(hp_comm_threads(1, &made));
    REFUSED(HP_ARGUMENT, "freed", hp_comm_barrier(freed));
    CHECK(hp_comm_free(made));
}

static void reductions(hp_comm *comm) {
    double value = 1;
    REFUSED(HP_ARGUMENT, "null", hp_comm_all_reduce(NULL, HP_SUM, HP_F64, 1, &value));
    REFUSED(HP_ARGUMENT, "values", hp_comm_all_reduce(comm, HP_SUM, HP_F64, 1, NULL));
    REFUSED(HP_ARGUMENT, "count", hp_comm_all_reduce(comm, HP_SUM, HP_F64, -1, &value));
    REFUSED(HP_ARGUMENT, "reduction", hp_comm_all_reduce(comm, 0, HP_F64, 1, &value));
    REFUSED(HP_ARGUMENT, "type", hp_comm_all_reduce(comm, HP_SUM, HP_I8, 1, &value));
    REFUSED(HP_ARGUMENT, "type", hp_comm_all_reduce(comm, HP_SUM, HP_BYTES, 1, &value));
    CHECK(hp_comm_all_reduce(comm, HP_MAX, HP_F64, 0, NULL));
    CHECK(hp_comm_all_reduce(comm, HP_SUM, HP_F64, 1, &value));
    REFUSED(HP_ARGUMENT, "null", hp_comm_broadcast(NULL, 0, 8, &value));
    REFUSED(HP_ARGUMENT, "root", hp_comm_broadcast(comm, 1, 8, &value));
    REFUSED(HP_ARGUMENT, "root", hp_comm_gather(comm, -1, 8, &value, &value));
    REFUSED(HP_ARGUMENT, "bytes", hp_comm_broadcast(comm, 0, -8, &value));
    REFUSED(HP_ARGUMENT, "bytes", hp_comm_gather(comm, 0, INT64_MIN, &value, &value));
    REFUSED(HP_ARGUMENT, "data", hp_comm_broadcast(comm, 0, 8, NULL));
    REFUSED(HP_ARGUMENT, "data", hp_comm_broadcast(comm, 0, INT64_MAX, NULL));
    REFUSED(HP_ARGUMENT, "data", hp_comm_gather(comm, 0, 8, NULL, &value));
    REFUSED(HP_ARGUMENT, "all", hp_comm_gather(comm, 0, 8, &value, NULL));
    CHECK(hp_comm_broadcast(comm, 0, 8, &value));
    CHECK(hp_comm_gather(comm, 0, 8, &value, &value));
    CHECK(hp_comm_gather(comm, 0, 0, NULL, NULL));
    REFUSED(HP_ARGUMENT, "seconds", hp_comm_set_warn_after(comm, -1));
    CHECK(hp_comm_set_warn_after(comm, 0));
    CHECK(hp_comm_set_warn_after(comm, 60));
    REFUSED(HP_ARGUMENT, "progress: expected HP_PROGRESS_AUTO, HP_PROGRESS_THREAD or", hp_comm_set_progress(comm, 3));
    REFUSED(HP_ARGUMENT, "found -1", hp_comm_set_progress(comm, -1));
}

static void patterns(hp_comm *comm, hp_pattern *pattern) {
    hp_pattern *made;
    hp_grid grid = row();
    REFUSED(HP_ARGUMENT, "null", hp_pattern_grid(NULL, &grid, HP_SPLIT, NULL, &made));
    REFUSED(HP_ARGUMENT, "null", hp_pattern_grid(comm, NULL, HP_SPLIT, NULL, &made));
    REFUSED(HP_ARGUMENT, "null", hp_pattern_grid(comm, &grid, HP_SPLIT, NULL, NULL));
    uint32_t sizes[] = {0, 4, 12, sizeof grid - 4, sizeof grid + 8, 3000};
    for (int i = 0; i < 6; i++) {
        grid = row(), grid.size = sizes[i];
        REFUSED(HP_ARGUMENT, "grid.size", hp_pattern_grid(comm, &grid, HP_SPLIT, NULL, &made));
    }
    int32_t axes[] = {-1, 0, 5, 1 << 30};
    for (int i = 0; i < 4; i++) {
        grid = row(), grid.axes = axes[i];
        REFUSED(HP_ARGUMENT, "grid.axes", hp_pattern_grid(comm, &grid, HP_SPLIT, NULL, &made));
    }
    int64_t cells[] = {-1, INT64_MIN, INT64_MAX};
    for (int i = 0; i < 3; i++) {
        grid = row(), grid.cells[0] = cells[i];
        REFUSED(HP_ARGUMENT, "", hp_pattern_grid(comm, &grid, HP_SPLIT, NULL, &made));
    }
    int32_t widths[] = {-1, INT32_MIN, INT32_MAX};
    for (int i = 0; i < 3; i++) {
        hp_status status = widths[i] < 0 ? HP_ARGUMENT : HP_REFUSED;
        grid = row(), grid.halo_lower[0] = widths[i];
        REFUSED(status, "halo", hp_pattern_grid(comm, &grid, HP_SPLIT, NULL, &made));
        grid = row(), grid.halo_upper[0] = widths[i];
        REFUSED(status, "halo", hp_pattern_grid(comm, &grid, HP_SPLIT, NULL, &made));
    }
    /* A program that was compiled when the struct ended before `fold`. */
    grid = row(), grid.size = offsetof(hp_grid, fold);
    memset((char *)&grid + offsetof(hp_grid, fold), 0xff, sizeof grid - offsetof(hp_grid, fold));
    CHECK(hp_pattern_grid(comm, &grid, HP_SPLIT, NULL, &made));
    CHECK(hp_pattern_free(made));
    grid = row(), grid.parts[0] = 3;
    REFUSED(HP_ARGUMENT, "parts", hp_pattern_grid(comm, &grid, HP_SPLIT, NULL, &made));
    grid = row(), grid.parts[0] = -3;
    REFUSED(HP_ARGUMENT, "parts", hp_pattern_grid(comm, &grid, HP_SPLIT, NULL, &made));
    grid = row(), grid.points = HP_POINTS_CORNERS;
    REFUSED(HP_ARGUMENT, "points: expected HP_POINTS_CELLS on a grid without a fold",
            hp_pattern_grid(comm, &grid, HP_SPLIT, NULL, &made));
    grid = row(), grid.points = 4;
    REFUSED(HP_ARGUMENT, "points: expected one of", hp_pattern_grid(comm, &grid, HP_SPLIT, NULL, &made));
    grid = row(), grid.fold = 3;
    REFUSED(HP_ARGUMENT, "fold: expected 0, HP_FOLD_CELL", hp_pattern_grid(comm, &grid, HP_SPLIT, NULL, &made));
    grid = row(), grid.fold = HP_FOLD_CELL;
    REFUSED(HP_ARGUMENT, "axes: expected 2 or more", hp_pattern_grid(comm, &grid, HP_SPLIT, NULL, &made));
    grid = row(), grid.axes = 2, grid.cells[1] = 7, grid.fold = HP_FOLD_CELL;
    REFUSED(HP_ARGUMENT, "", hp_pattern_grid(comm, &grid, HP_SPLIT, NULL, &made));
    grid = row(), grid.cubed_sphere = 1;
    REFUSED(HP_ARGUMENT, "tiles", hp_pattern_grid(comm, &grid, HP_SPLIT, NULL, &made));
    grid.axes = 3, grid.cells[0] = 6, grid.cells[1] = grid.cells[2] = 4, grid.periodic[0] = 0, grid.periodic[2] = 1;
    REFUSED(HP_ARGUMENT, "axis 2 of a cubed sphere cannot be periodic", hp_pattern_grid(comm, &grid, HP_SPLIT, NULL, &made));
    grid = row();
    REFUSED(HP_ARGUMENT, "domains", hp_pattern_grid(comm, &grid, -2, NULL, &made));
    REFUSED(HP_ARGUMENT, "boxes", hp_pattern_grid(comm, &grid, 1, NULL, &made));
    REFUSED(HP_REFUSED, "", hp_pattern_grid(comm, &grid, 0, NULL, &made));
    hp_box boxes[2];
    memset(boxes, 0, sizeof boxes);
    boxes[0].lower[0] = 3, boxes[0].upper[0] = 1;
    REFUSED(HP_ARGUMENT, "boxes[0]", hp_pattern_grid(comm, &grid, 1, boxes, &made));
    int64_t ends[][2] = {{0, 3}, {1, 4}, {0, 5}, {-1, 4}, {INT64_MIN, INT64_MAX}};
    for (int i = 0; i < 5; i++) {
        boxes[0].lower[0] = ends[i][0], boxes[0].upper[0] = ends[i][1];
        REFUSED(HP_REFUSED, "", hp_pattern_grid(comm, &grid, 1, boxes, &made));
    }
    boxes[0].lower[0] = boxes[1].lower[0] = 0, boxes[0].upper[0] = boxes[1].upper[0] = 4;
    REFUSED(HP_REFUSED, "", hp_pattern_grid(comm, &grid, 2, boxes, &made));

    int64_t numbers[] = {0, 1, 2};
    uint8_t owned[] = {1, 1, 1};
    int32_t owners[] = {0, 0, 7};
    hp_ids ids = HP_IDS_INIT;
    ids.cells = 3, ids.ids = numbers, ids.owned = owned;
    REFUSED(HP_ARGUMENT, "null", hp_pattern_ids(NULL, 1, &ids, &made));
    REFUSED(HP_ARGUMENT, "null", hp_pattern_ids(comm, 1, &ids, NULL));
    REFUSED(HP_ARGUMENT, "ids", hp_pattern_ids(comm, 1, NULL, &made));
    REFUSED(HP_ARGUMENT, "domains", hp_pattern_ids(comm, -1, &ids, &made));
    hp_ids other = ids;
    other.size = 4;
    REFUSED(HP_ARGUMENT, "ids[0].size", hp_pattern_ids(comm, 1, &other, &made));
    other = ids, other.cells = -1;
    REFUSED(HP_ARGUMENT, "cells", hp_pattern_ids(comm, 1, &other, &made));
    other = ids, other.ids = NULL;
    REFUSED(HP_ARGUMENT, "ids.ids", hp_pattern_ids(comm, 1, &other, &made));
    other = ids, other.owned = NULL;
    REFUSED(HP_ARGUMENT, "ids.owned", hp_pattern_ids(comm, 1, &other, &made));
    owned[2] = 0;
    REFUSED(HP_REFUSED, "", hp_pattern_ids(comm, 1, &ids, &made)); /* no rank owns it */
    other = ids, other.owners = owners;
    REFUSED(HP_ARGUMENT, "ids[0].owners[2]: expected one of the 1 ranks", hp_pattern_ids(comm, 1, &other, &made));
    owners[2] = -7;
    REFUSED(HP_ARGUMENT, "ids[0].owners[2]: expected one of the 1 ranks", hp_pattern_ids(comm, 1, &other, &made));
    owned[2] = 1, numbers[2] = 1;
    REFUSED(HP_REFUSED, "", hp_pattern_ids(comm, 1, &ids, &made)); /* owned twice */
    numbers[2] = -5;
    REFUSED(HP_REFUSED, "", hp_pattern_ids(comm, 1, &ids, &made));

    int32_t at[] = {0, 1};
    hp_list list = HP_LIST_INIT;
    list.cells = 1, list.at = at;
    hp_list back = list;
    back.at = at + 1;
    REFUSED(HP_ARGUMENT, "null", hp_pattern_lists(NULL, 2, 1, &list, 1, &back, &made));
    REFUSED(HP_ARGUMENT, "null", hp_pattern_lists(comm, 2, 1, &list, 1, &back, NULL));
    REFUSED(HP_ARGUMENT, "send", hp_pattern_lists(comm, 2, 1, NULL, 1, &back, &made));
    REFUSED(HP_ARGUMENT, "receive", hp_pattern_lists(comm, 2, 1, &list, 1, NULL, &made));
    REFUSED(HP_ARGUMENT, "send", hp_pattern_lists(comm, 2, -1, &list, 1, &back, &made));
    REFUSED(HP_ARGUMENT, "cells", hp_pattern_lists(comm, -2, 1, &list, 1, &back, &made));
    REFUSED(HP_REFUSED, "", hp_pattern_lists(comm, 1, 1, &list, 1, &back, &made));
    REFUSED(HP_REFUSED, "", hp_pattern_lists(comm, 2, 1, &list, 0, NULL, &made));
    REFUSED(HP_REFUSED, "", hp_pattern_lists(comm, 2, 1, &list, 1, &list, &made));
    hp_list bad = list;
    bad.rank = -1;
    REFUSED(HP_ARGUMENT, "send[0].rank: expected one of the 1 ranks", hp_pattern_lists(comm, 2, 1, &bad, 1, &back, &made));
    bad.rank = 1;
    REFUSED(HP_ARGUMENT, "send[0].rank: expected one of the 1 ranks", hp_pattern_lists(comm, 2, 1, &bad, 1, &back, &made));
    bad = list, bad.cells = -1;
    REFUSED(HP_ARGUMENT, "cells", hp_pattern_lists(comm, 2, 1, &bad, 1, &back, &made));
    bad = list, bad.size = 0;
    REFUSED(HP_ARGUMENT, "send[0].size", hp_pattern_lists(comm, 2, 1, &bad, 1, &back, &made));
    bad = list, bad.at = NULL;
    REFUSED(HP_ARGUMENT, "at", hp_pattern_lists(comm, 2, 1, &bad, 1, &back, &made));
    int32_t negative[] = {-1};
    bad = list, bad.at = negative;
    REFUSED(HP_ARGUMENT, "negative", hp_pattern_lists(comm, 2, 1, &bad, 1, &back, &made));

    hp_box box;
    int32_t domains[] = {-1, 1, 2, INT32_MAX};
    for (int i = 0; i < 4; i++) REFUSED(HP_ARGUMENT, "domain", hp_pattern_domain(pattern, NULL, domains[i], &box, NULL, NULL));
    REFUSED(HP_ARGUMENT, "null", hp_pattern_domain(NULL, NULL, 0, &box, NULL, NULL));
    REFUSED(HP_ARGUMENT, "bytes", hp_pattern_describe(pattern, NULL, NULL));
    /* A handle of another kind. */
    REFUSED(HP_ARGUMENT, "another handle", hp_pattern_domain((hp_pattern *)(void *)comm, NULL, 0, &box, NULL, NULL));
}

static void arrays(hp_pattern *pattern, hp_pattern *mesh) {
    hp_plan *made;
    double memory[64];
    void *data[] = {memory, memory};
    hp_array like = six();
    REFUSED(HP_ARGUMENT, "null", hp_plan_create(NULL, 1, &like, NULL, NULL, &made));
    REFUSED(HP_ARGUMENT, "null", hp_plan_create(pattern, 1, &like, NULL, NULL, NULL));
    REFUSED(HP_ARGUMENT, "like", hp_plan_create(pattern, 1, NULL, NULL, NULL, &made));
    REFUSED(HP_ARGUMENT, "fields", hp_plan_create(pattern, 0, &like, NULL, NULL, &made));
    REFUSED(HP_ARGUMENT, "fields", hp_plan_create(pattern, -1, &like, NULL, NULL, &made));
    for (uint32_t size = 0; size < 4; size++) {
        like = six(), like.size = 7 * size;
        REFUSED(HP_ARGUMENT, "like[0].size", hp_plan_create(pattern, 1, &like, NULL, NULL, &made));
    }
    hp_array of_others[] = {six(), six()};
    of_others[1].of = pattern;
    CHECK(hp_plan_create(pattern, 2, of_others, NULL, NULL, &made));
    CHECK(hp_plan_free(made));
    of_others[1].of = mesh;
    CHECK(hp_plan_create(pattern, 2, of_others, NULL, NULL, &made));
    CHECK(hp_plan_free(made));
    of_others[1].extent[0] = 3;
    REFUSED(HP_ARGUMENT, "like[1]", hp_plan_create(pattern, 2, of_others, NULL, NULL, &made));
    hp_plan *other;
    CHECK(hp_plan_create(pattern, 1, of_others, NULL, NULL, &other));
    CHECK(hp_plan_free(other));
    of_others[1].of = (hp_pattern *)(void *)other; /* a plan, which was freed */
    REFUSED(HP_ARGUMENT, "like[1].of", hp_plan_create(pattern, 2, of_others, NULL, NULL, &made));
    hp_memory *of_memory;
    like = six(), like.of = pattern;
    REFUSED(HP_ARGUMENT, "like[0].of", hp_memory_create(pattern, &like, &of_memory, data));
    int32_t types[] = {-1, 0, 16, INT32_MAX};
    for (int i = 0; i < 4; i++) {
        like = six(), like.type = types[i];
        REFUSED(HP_ARGUMENT, "type", hp_plan_create(pattern, 1, &like, NULL, NULL, &made));
    }
    int32_t bytes[] = {-8, 1, 4, 16};
    for (int i = 0; i < 4; i++) {
        like = six(), like.element_bytes = bytes[i];
        REFUSED(HP_ARGUMENT, "element_bytes", hp_plan_create(pattern, 1, &like, NULL, NULL, &made));
    }
    for (int i = -1; i < 1; i++) {
        like = six(), like.type = HP_BYTES, like.element_bytes = i;
        REFUSED(HP_ARGUMENT, "element_bytes", hp_plan_create(pattern, 1, &like, NULL, NULL, &made));
    }
    int32_t axes[] = {-1, 0, 9};
    for (int i = 0; i < 3; i++) {
        like = six(), like.axes = axes[i];
        REFUSED(HP_ARGUMENT, "axes", hp_plan_create(pattern, 1, &like, NULL, NULL, &made));
    }
    int64_t extents[] = {-1, 0, 5, 7, INT64_MAX};
    for (int i = 0; i < 5; i++) {
        like = six(), like.extent[0] = extents[i];
        REFUSED(HP_ARGUMENT, "ext", hp_plan_create(pattern, 1, &like, NULL, NULL, &made));
        if (extents[i] < 5) REFUSED(HP_ARGUMENT, "ext", hp_plan_create(mesh, 1, &like, NULL, NULL, &made));
    }
    int64_t strides[] = {1, 4, 12, -4};
    for (int i = 0; i < 4; i++) {
        like = six(), like.stride[0] = strides[i];
        REFUSED(HP_ARGUMENT, "stride[0]", hp_plan_create(pattern, 1, &like, NULL, NULL, &made));
    }
    like = six(), like.axes = 2, like.extent[1] = 3, like.stride[0] = 8; /* and 0: cells overlap */
    REFUSED(HP_ARGUMENT, "like[0]", hp_plan_create(pattern, 1, &like, NULL, NULL, &made));
    int32_t roles[] = {-1, HP_CELLS + 1, HP_CELLS + 4, HP_CELL_BLOCKS, HP_LEVELS, HP_COMPONENTS, 99};
    for (int i = 0; i < 7; i++) {
        like = six(), like.role[0] = roles[i];
        REFUSED(HP_ARGUMENT, "", hp_plan_create(pattern, 1, &like, NULL, NULL, &made));
    }
    like = six(), like.axes = 3, like.extent[1] = like.extent[2] = 2;
    like.role[0] = HP_CELLS, like.role[1] = like.role[2] = HP_COMPONENTS;
    REFUSED(HP_ARGUMENT, "components", hp_plan_create(pattern, 1, &like, NULL, NULL, &made));
    like.role[1] = HP_CELLS, like.role[2] = HP_LEVELS;
    REFUSED(HP_ARGUMENT, "axes", hp_plan_create(pattern, 1, &like, NULL, NULL, &made));
    int32_t vectors[][2] = {{-1, 0}, {HP_LEVELS, 0}, {0, HP_CELLS}, {HP_CELLS + 1, 0}, {HP_CELLS, HP_CELLS}};
    for (int i = 0; i < 5; i++) {
        like = six(), like.vector[0] = vectors[i][0], like.vector[1] = vectors[i][1];
        REFUSED(HP_ARGUMENT, "like[0]", hp_plan_create(pattern, 1, &like, NULL, NULL, &made));
    }
    like = six(), like.type = HP_U8, like.vector[0] = HP_CELLS;
    REFUSED(HP_ARGUMENT, "sign", hp_plan_create(pattern, 1, &like, NULL, NULL, &made));
    like = six(), like.origin[0] = 5;
    REFUSED(HP_ARGUMENT, "room", hp_plan_create(pattern, 1, &like, NULL, NULL, &made));
    like.origin[0] = -1;
    REFUSED(HP_ARGUMENT, "origin", hp_plan_create(pattern, 1, &like, NULL, NULL, &made));
    /* Blocks of cells: too few of them. */
    like = six(), like.axes = 2, like.extent[0] = 1, like.extent[1] = 2, like.role[0] = HP_CELL_BLOCKS, like.role[1] = HP_CELLS;
    REFUSED(HP_ARGUMENT, "blocks", hp_plan_create(mesh, 1, &like, NULL, NULL, &made));
    like.extent[1] = 0;
    REFUSED(HP_ARGUMENT, "", hp_plan_create(mesh, 1, &like, NULL, NULL, &made));

    like = six(), like.device = "none";
    REFUSED(HP_ARGUMENT, "none", hp_plan_create(pattern, 1, &like, NULL, NULL, &made));
    like.device = "\xff\xfe";
    REFUSED(HP_ARGUMENT, "UTF-8", hp_plan_create(pattern, 1, &like, NULL, NULL, &made));
    like.device = "cuda:77";
    REFUSED(HP_DEVICE, "cuda", hp_plan_create(pattern, 1, &like, NULL, NULL, &made));

    like = six();
    hp_options options = HP_OPTIONS_INIT;
    options.size = 3;
    REFUSED(HP_ARGUMENT, "options.size", hp_plan_create(pattern, 1, &like, NULL, &options, &made));
    hp_options usual = HP_OPTIONS_INIT;
    options = usual, options.in_flight = -1;
    REFUSED(HP_ARGUMENT, "in_flight", hp_plan_create(pattern, 1, &like, NULL, &options, &made));
    options.in_flight = 65;
    REFUSED(HP_REFUSED, "", hp_plan_create(pattern, 1, &like, NULL, &options, &made));
    options.in_flight = 2, options.fixed = 1;
    REFUSED(HP_REFUSED, "", hp_plan_create(pattern, 1, &like, data, &options, &made));
    options = usual, options.share = 1;
    REFUSED(HP_ARGUMENT, "options.share: expected a fixed plan, found one that is not",
            hp_plan_create(pattern, 1, &like, NULL, &options, &made));
    options = usual, options.queue.unused = 3;
    REFUSED(HP_ARGUMENT, "options.queue.unused: expected 0, found 3", hp_plan_create(pattern, 1, &like, NULL, &options, &made));
    options = usual, options.threads = -1;
    REFUSED(HP_ARGUMENT, "threads", hp_plan_create(pattern, 1, &like, NULL, &options, &made));
    options = usual, options.path = "by hand";
    REFUSED(HP_ARGUMENT, "path", hp_plan_create(pattern, 1, &like, NULL, &options, &made));
    options = usual, options.fixed = 1;
    REFUSED(HP_ARGUMENT, "data", hp_plan_create(pattern, 1, &like, NULL, &options, &made));
    void *nothing[] = {NULL};
    REFUSED(HP_ARGUMENT, "data[0]", hp_plan_create(pattern, 1, &like, nothing, &options, &made));
    void *crooked[] = {(char *)memory + 1};
    REFUSED(HP_REFUSED, "aligned", hp_plan_create(pattern, 1, &like, crooked, &options, &made));

    hp_memory *room;
    void *place;
    REFUSED(HP_ARGUMENT, "null", hp_memory_create(NULL, &like, &room, &place));
    REFUSED(HP_ARGUMENT, "like", hp_memory_create(pattern, NULL, &room, &place));
    REFUSED(HP_ARGUMENT, "null", hp_memory_create(pattern, &like, NULL, &place));
    REFUSED(HP_ARGUMENT, "data", hp_memory_create(pattern, &like, &room, NULL));
    like.stride[0] = -8;
    REFUSED(HP_ARGUMENT, "", hp_memory_create(pattern, &like, &room, &place));
    like = six(), like.extent[0] = 3;
    REFUSED(HP_ARGUMENT, "like[0]", hp_memory_create(pattern, &like, &room, &place));
    like = six(), like.device = "cpu";
    REFUSED(HP_ARGUMENT, "device", hp_memory_create(pattern, &like, &room, &place));
}

/* Arrays in structs have a value for each axis, and none beyond. */
static void values_beyond_the_axes(hp_comm *comm, hp_pattern *pattern, hp_pattern *mesh) {
    hp_pattern *made;
    hp_plan *plan;
    hp_memory *memory;
    void *data;
    hp_box boxes[2];
    for (int axis = 1; axis < 4; axis++) {
        hp_grid grid = row();
        grid.cells[axis] = 5;
        REFUSED(HP_ARGUMENT, "expected 0, as grid.axes is 1, found 5", hp_pattern_grid(comm, &grid, HP_SPLIT, NULL, &made));
        grid = row(), grid.periodic[axis] = 1;
        REFUSED(HP_ARGUMENT, "grid.periodic[", hp_pattern_grid(comm, &grid, HP_SPLIT, NULL, &made));
        grid = row(), grid.halo_lower[axis] = 1;
        REFUSED(HP_ARGUMENT, "grid.halo_lower[", hp_pattern_grid(comm, &grid, HP_SPLIT, NULL, &made));
        grid = row(), grid.halo_upper[axis] = -1;
        REFUSED(HP_ARGUMENT, "grid.halo_upper[", hp_pattern_grid(comm, &grid, HP_SPLIT, NULL, &made));
        grid = row(), grid.parts[0] = grid.parts[axis] = 1;
        REFUSED(HP_ARGUMENT, "grid.parts[", hp_pattern_grid(comm, &grid, HP_SPLIT, NULL, &made));
        grid = row();
        memset(boxes, 0, sizeof boxes);
        boxes[0].upper[0] = 2, boxes[1].lower[0] = 2, boxes[1].upper[0] = 4, boxes[1].lower[axis] = 1;
        REFUSED(HP_ARGUMENT, "boxes[1].lower[", hp_pattern_grid(comm, &grid, 2, boxes, &made));
        boxes[1].lower[axis] = 0, boxes[1].upper[axis] = 1;
        REFUSED(HP_ARGUMENT, "boxes[1].upper[", hp_pattern_grid(comm, &grid, 2, boxes, &made));
        hp_array like = six();
        like.origin[axis] = 1;
        REFUSED(HP_ARGUMENT, "like[0].origin[", hp_plan_create(pattern, 1, &like, NULL, NULL, &plan));
    }
    for (int axis = 1; axis < 8; axis++) {
        hp_array like = six();
        like.extent[axis] = 1;
        REFUSED(HP_ARGUMENT, "expected 0, as like[0].axes is 1, found 1", hp_plan_create(pattern, 1, &like, NULL, NULL, &plan));
        REFUSED(HP_ARGUMENT, "like[0].extent[", hp_memory_create(pattern, &like, &memory, &data));
        like = six(), like.stride[0] = like.stride[axis] = 8;
        REFUSED(HP_ARGUMENT, "like[0].stride[", hp_plan_create(pattern, 1, &like, NULL, NULL, &plan));
        like = six(), like.role[0] = HP_CELLS, like.role[axis] = HP_LEVELS;
        REFUSED(HP_ARGUMENT, "like[0].role[", hp_plan_create(pattern, 1, &like, NULL, NULL, &plan));
    }
    hp_array like = six();
    like.origin[0] = 1;
    REFUSED(HP_ARGUMENT, "like[0].origin[0]", hp_plan_create(mesh, 1, &like, NULL, NULL, &plan));
    /* Parts are for all axes or for none, and for grids that are split. */
    hp_grid grid = row();
    grid.axes = 2, grid.cells[1] = 4, grid.parts[0] = 1;
    REFUSED(HP_ARGUMENT, "found [1, 0]", hp_pattern_grid(comm, &grid, HP_SPLIT, NULL, &made));
    memset(boxes, 0, sizeof boxes);
    grid = row(), grid.parts[0] = 1, boxes[0].upper[0] = 4;
    REFUSED(HP_ARGUMENT, "grid.parts", hp_pattern_grid(comm, &grid, 1, boxes, &made));
}

#define REQUIRE(condition)                                            \
    do {                                                              \
        calls++;                                                      \
        if (!(condition)) {                                           \
            wrong++;                                                  \
            fprintf(stderr, "line %d: %s is false\n", __LINE__, #condition); \
        }                                                             \
    } while (0)

/* Statuses have the names of the header, other numbers none. */
static void statuses(void) {
#define NAMED(status) {status, #status}
    static const struct { hp_status status; const char *name; } known[] = {
        NAMED(HP_OK), NAMED(HP_ARGUMENT), NAMED(HP_REFUSED), NAMED(HP_TRANSPORT), NAMED(HP_TIME_LIMIT), NAMED(HP_DEVICE),
        NAMED(HP_NO_MEMORY), NAMED(HP_WRONG_THREAD), NAMED(HP_IN_FLIGHT), NAMED(HP_POISONED), NAMED(HP_PANIC),
    };
    for (size_t place = 0; place < sizeof known / sizeof known[0]; place++)
        REQUIRE(strcmp(hp_status_name(known[place].status), known[place].name) == 0);
    REQUIRE(strcmp(hp_status_name((hp_status)(HP_PANIC + 1)), "unknown status") == 0);
}

/* Of a communicator alone: its rank and its number of ranks. */
static void ranks_of(hp_comm *comm) {
    int32_t rank = 7, ranks = 7;
    CHECK(hp_comm_rank(comm, &rank));
    CHECK(hp_comm_size(comm, &ranks));
    REQUIRE(rank == 0 && ranks == 1);
    CHECK(hp_comm_rank(comm, NULL));
    CHECK(hp_comm_size(comm, NULL));
}

/* After a failure, results are empty. */
static void results_of_nothing(hp_comm *comm, hp_pattern *pattern) {
    int32_t rank = 7, ranks = 7, domains = 7, ready = 7;
    hp_box boxes[3];
    hp_comm *no_comm = comm;
    hp_pattern *no_pattern = pattern;
    hp_plan *no_plan = (hp_plan *)(void *)comm;
    hp_memory *no_memory = (hp_memory *)(void *)comm;
    hp_ticket ticket = 7;
    void *data = NULL;
    memset(boxes, 1, sizeof boxes);
    REFUSED(HP_ARGUMENT, "null", hp_comm_rank(NULL, &rank));
    REFUSED(HP_ARGUMENT, "null", hp_comm_size(NULL, &ranks));
    REQUIRE(rank == -1 && ranks == 0);
    REFUSED(HP_ARGUMENT, "null", hp_pattern_domain(NULL, &domains, 0, &boxes[0], &boxes[1], &boxes[2]));
    REQUIRE(domains == 0);
    for (int box = 0; box < 3; box++)
        for (int axis = 0; axis < 4; axis++) REQUIRE(boxes[box].lower[axis] == 0 && boxes[box].upper[axis] == 0);
    domains = 7;
    REFUSED(HP_ARGUMENT, "null", hp_pattern_boundary(NULL, 0, &domains, boxes));
    REQUIRE(domains == 0);
    REFUSED(HP_ARGUMENT, "domain", hp_pattern_boundary(pattern, 1, &domains, boxes));
    REFUSED(HP_ARGUMENT, "domain", hp_pattern_boundary(pattern, -1, &domains, boxes));
    REFUSED(HP_ARGUMENT, "boundary", hp_pattern_boundary(pattern, 0, &domains, NULL));
    REFUSED(HP_ARGUMENT, "boxes", hp_pattern_boundary(pattern, 0, NULL, boxes));
    REFUSED(HP_ARGUMENT, "null", hp_ready(NULL, HP_NO_TICKET, &ready));
    REQUIRE(ready == 0);
    REFUSED(HP_ARGUMENT, "null", hp_start(NULL, &data, STREAM, &ticket));
    REQUIRE(ticket == HP_NO_TICKET);
    REFUSED(HP_ARGUMENT, "bytes", hp_comm_mpi(&data, 3, &no_comm));
    REQUIRE(no_comm == NULL);
    REFUSED(HP_ARGUMENT, "null", hp_pattern_grid(NULL, NULL, HP_SPLIT, NULL, &no_pattern));
    REQUIRE(no_pattern == NULL);
    no_pattern = pattern;
    REFUSED(HP_ARGUMENT, "ids", hp_pattern_ids(comm, 1, NULL, &no_pattern));
    REQUIRE(no_pattern == NULL);
    no_pattern = pattern;
    REFUSED(HP_ARGUMENT, "send", hp_pattern_lists(comm, 2, 1, NULL, 0, NULL, &no_pattern));
    REQUIRE(no_pattern == NULL);
    REFUSED(HP_ARGUMENT, "like", hp_plan_create(pattern, 1, NULL, NULL, NULL, &no_plan));
    REQUIRE(no_plan == NULL);
    REFUSED(HP_ARGUMENT, "like", hp_memory_create(pattern, NULL, &no_memory, &data));
    REQUIRE(no_memory == NULL);
}

static void exchanges(hp_pattern *pattern) {
    double memory[6] = {0};
    void *data[] = {memory}, *nothing[] = {NULL}, *crooked[] = {(char *)memory + 1};
    hp_array like = six();
    hp_plan *plan;
    int32_t ready;
    CHECK(hp_plan_create(pattern, 1, &like, NULL, NULL, &plan));
    REFUSED(HP_IN_FLIGHT, "none", hp_finish(plan, HP_NO_TICKET, STREAM));
    REFUSED(HP_ARGUMENT, "data", hp_start(plan, NULL, STREAM, NULL));
    REFUSED(HP_ARGUMENT, "data[0]", hp_start(plan, nothing, STREAM, NULL));
    REFUSED(HP_ARGUMENT, "multiple", hp_start(plan, crooked, STREAM, NULL));
    REFUSED(HP_ARGUMENT, "multiple", hp_exchange(plan, crooked, STREAM));
    for (int32_t kind = -1; kind < 8; kind++) {
        hp_stream stream = {kind, 0, 0};
        if (kind < HP_DEFAULT || kind > HP_SYCL) REFUSED(HP_ARGUMENT, "stream.kind", hp_exchange(plan, data, stream));
    }
    hp_stream stream = {HP_DEFAULT, 2, 0};
    REFUSED(HP_ARGUMENT, "stream.unused: expected 0, found 2", hp_exchange(plan, data, stream));
    CHECK(hp_exchange(plan, data, STREAM)); /* it is as it was */
    CHECK(hp_start(plan, data, STREAM, NULL));
    REFUSED(HP_IN_FLIGHT, "larger `options.in_flight`", hp_start(plan, data, STREAM, NULL));
    REFUSED(HP_IN_FLIGHT, "larger `options.in_flight`", hp_exchange(plan, data, STREAM));
    CHECK(hp_finish(plan, HP_NO_TICKET, STREAM));
    REFUSED(HP_IN_FLIGHT, "none", hp_finish(plan, HP_NO_TICKET, STREAM));
    REFUSED(HP_ARGUMENT, "null", hp_start(NULL, data, STREAM, NULL));
    REFUSED(HP_ARGUMENT, "null", hp_finish(NULL, HP_NO_TICKET, STREAM));
    REFUSED(HP_ARGUMENT, "null", hp_exchange(NULL, data, STREAM));
    REFUSED(HP_ARGUMENT, "null", hp_ready(NULL, HP_NO_TICKET, &ready));
    REFUSED(HP_ARGUMENT, "null", hp_synchronize(NULL));
    CHECK(hp_plan_free(plan));
    REFUSED(HP_ARGUMENT, "freed", hp_start(plan, data, STREAM, NULL));
    REFUSED(HP_ARGUMENT, "freed", hp_finish(plan, HP_NO_TICKET, STREAM));
    REFUSED(HP_ARGUMENT, "freed", hp_exchange(plan, data, STREAM));
    REFUSED(HP_ARGUMENT, "freed", hp_ready(plan, HP_NO_TICKET, &ready));
    REFUSED(HP_ARGUMENT, "freed", hp_synchronize(plan));
    REFUSED(HP_ARGUMENT, "freed", hp_plan_free(plan));
    hp_options options = HP_OPTIONS_INIT;
    options.fixed = 1;
    CHECK(hp_plan_create(pattern, 1, &like, data, &options, &plan));
    double elsewhere[6];
    void *others[] = {elsewhere};
    REFUSED(HP_ARGUMENT, "fixed", hp_exchange(plan, others, STREAM));
    REFUSED(HP_ARGUMENT, "data[0]", hp_exchange(plan, nothing, STREAM));
    CHECK(hp_exchange(plan, data, STREAM));
    CHECK(hp_exchange(plan, NULL, STREAM));
    CHECK(hp_start(plan, NULL, STREAM, NULL));
    REFUSED(HP_IN_FLIGHT, "", hp_start(plan, NULL, STREAM, NULL));
    CHECK(hp_plan_free(plan)); /* in flight */
    /* An array without elements has any address, such as the null of an empty std::vector. */
    like.axes = 2, like.extent[1] = 0;
    CHECK(hp_plan_create(pattern, 1, &like, NULL, NULL, &plan));
    CHECK(hp_exchange(plan, nothing, STREAM));
    CHECK(hp_plan_free(plan));
    CHECK(hp_plan_create(pattern, 1, &like, nothing, &options, &plan));
    CHECK(hp_exchange(plan, NULL, STREAM));
    CHECK(hp_exchange(plan, nothing, STREAM));
    CHECK(hp_plan_free(plan));
    /* Two of them, in memory of Haloport, are two fields all the same: both can be in flight. */
    hp_memory *made[2];
    hp_plan *plans[2];
    for (int i = 0; i < 2; i++) {
        CHECK(hp_memory_create(pattern, &like, &made[i], data));
        CHECK(hp_plan_create(pattern, 1, &like, data, &options, &plans[i]));
    }
    for (int i = 0; i < 2; i++) CHECK(hp_start(plans[i], NULL, STREAM, NULL));
    for (int i = 0; i < 2; i++) {
        CHECK(hp_plan_free(plans[i]));
        CHECK(hp_memory_free(made[i]));
    }
}

/* Of messages and lines, those that need one rank alone; messages.c has more. */
static void messages(hp_comm *comm) {
    hp_sparse *sparse, *no_sparse = NULL;
    hp_line *line, *no_line = NULL;
    int32_t self = 0, ready = 7, left = 7, right = 7;
    int64_t bytes = 1, count = 7, lower = 7, upper = 7, items = 7;
    const void *data = "a";
    const hp_received *came = (const hp_received *)&count;
    hp_payload none = {HP_NO_PAYLOAD, NULL}, from_left = {7, data}, from_right = {7, data};
    REFUSED(HP_ARGUMENT, "null", hp_sparse_create(NULL, &no_sparse));
    REFUSED(HP_ARGUMENT, "null", hp_sparse_between(NULL, 1, &self, 1, &self, &no_sparse));
    REFUSED(HP_ARGUMENT, "null", hp_line_even(NULL, 1, &no_line));
    REFUSED(HP_ARGUMENT, "null", hp_line_create(NULL, 0, 1, &no_line));
    REQUIRE(no_sparse == NULL && no_line == NULL);
    REFUSED(HP_ARGUMENT, "upper", hp_line_create(comm, 0, INT64_MIN, &no_line));
    CHECK(hp_sparse_create(comm, &sparse));
    CHECK(hp_line_create(comm, 0, INT64_MAX, &line));
    CHECK(hp_line_items(line, NULL, &upper, &items));
    REQUIRE(upper == INT64_MAX && items == INT64_MAX);
    REFUSED(HP_ARGUMENT, "messages", hp_sparse_start(sparse, INT64_MIN, &self, &bytes, &data));
    /* Another handle. */
    REFUSED(HP_ARGUMENT, "another handle", hp_sparse_ready((hp_sparse *)line, &ready));
    REFUSED(HP_ARGUMENT, "another handle", hp_line_free((hp_line *)sparse));
    CHECK(hp_sparse_ready(sparse, NULL));
    CHECK(hp_line_ready(line, NULL));
    for (int freed = 0; freed < 2; freed++) {
        const char *word = freed ? "freed" : "null";
        hp_sparse *of = freed ? sparse : NULL;
        hp_line *along = freed ? line : NULL;
        if (freed) {
            CHECK(hp_sparse_free(sparse));
            CHECK(hp_line_free(line));
            REFUSED(HP_ARGUMENT, word, hp_sparse_free(sparse));
            REFUSED(HP_ARGUMENT, word, hp_line_free(line));
        }
        REFUSED(HP_ARGUMENT, word, hp_sparse_start(of, 1, &self, &bytes, &data));
        REFUSED(HP_ARGUMENT, word, hp_sparse_ready(of, &ready));
        REFUSED(HP_ARGUMENT, word, hp_sparse_finish(of, &count, &came));
        REQUIRE(ready == 0 && count == 0 && came == NULL);
        count = 7;
        REFUSED(HP_ARGUMENT, word, hp_sparse_exchange(of, 1, &self, &bytes, &data, &count, &came));
        REFUSED(HP_ARGUMENT, word, hp_line_items(along, &lower, &upper, &items));
        REFUSED(HP_ARGUMENT, word, hp_line_neighbours(along, &left, &right));
        REQUIRE(count == 0 && lower == 0 && upper == 0 && items == 0 && left == -1 && right == -1);
        REFUSED(HP_ARGUMENT, word, hp_line_start(along, none, none));
        REFUSED(HP_ARGUMENT, word, hp_line_ready(along, &ready));
        REFUSED(HP_ARGUMENT, word, hp_line_finish(along, &from_left, &from_right));
        REFUSED(HP_ARGUMENT, word, hp_line_exchange(along, none, none, &from_left, &from_right));
        REQUIRE(from_left.bytes == HP_NO_PAYLOAD && from_right.bytes == HP_NO_PAYLOAD);
        ready = 7, count = 7, lower = upper = items = 7, left = right = 7, from_left.bytes = from_right.bytes = 7;
    }
    CHECK(hp_sparse_free(NULL));
    CHECK(hp_line_free(NULL));
}

/* Numbers for which there is no memory; the test limits it. */
static void claims(hp_comm *comm, hp_pattern *pattern) {
    hp_pattern *made;
    hp_plan *plan;
    REFUSED(HP_REFUSED, "no memory", hp_pattern_lists(comm, UINT32_MAX, 0, NULL, 0, NULL, &made));
    REFUSED(HP_REFUSED, "no memory", hp_pattern_lists(comm, 1 << 28, 0, NULL, 0, NULL, &made));
    REFUSED(HP_REFUSED, "cells", hp_pattern_lists(comm, INT64_MAX, 0, NULL, 0, NULL, &made));
    hp_array like[2] = {six(), six()};
    like[1].size = 7;
    REFUSED(HP_ARGUMENT, "like[1].size", hp_plan_create(pattern, INT32_MAX, like, NULL, NULL, &plan));
}

int main(int arguments, char **argument) {
    hp_comm *comm;
    hp_pattern *pattern, *mesh;
    CHECK(hp_comm_threads(1, &comm));
    hp_grid grid = row();
    CHECK(hp_pattern_grid(comm, &grid, HP_SPLIT, NULL, &pattern));
    int64_t ids[] = {0, 1, 2, 3, 4};
    uint8_t owned[] = {1, 1, 1, 1, 1};
    hp_ids set = HP_IDS_INIT;
    set.cells = 5, set.ids = ids, set.owned = owned;
    CHECK(hp_pattern_ids(comm, 1, &set, &mesh));
    if (arguments > 1 && !strcmp(argument[1], "claims")) {
        claims(comm, pattern);
    } else {
        statuses();
        ranks_of(comm);
        communicators(comm);
        reductions(comm);
        patterns(comm, pattern);
        arrays(pattern, mesh);
        values_beyond_the_axes(comm, pattern, mesh);
        results_of_nothing(comm, pattern);
        exchanges(pattern);
        messages(comm);
    }
    CHECK(hp_plan_free(NULL));
    CHECK(hp_memory_free(NULL));
    CHECK(hp_pattern_free(NULL));
    CHECK(hp_comm_free(NULL));
    CHECK(hp_pattern_free(mesh));
    CHECK(hp_pattern_free(pattern));
    REFUSED(HP_ARGUMENT, "freed", hp_pattern_free(pattern));
    CHECK(hp_comm_free(comm));
    printf("%d bad calls\n", calls);
    return wrong != 0;
}
