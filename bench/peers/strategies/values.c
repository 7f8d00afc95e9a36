#include "values.h"

#include <math.h>
#include <stdlib.h>

static int64_t cells_along(const struct peers_case *problem, int axis, int size) {
    return axis == problem->split ? (int64_t)size * problem->local[axis] : problem->local[axis];
}

/* Returns the global number, along an axis, of a place that is counted from the first owned cell. */
static int64_t number_of(const struct peers_case *problem, int axis, int rank, int size, int stand_in,
                         int place) {
    int64_t local = problem->local[axis], global = cells_along(problem, axis, size);
    int64_t first = axis == problem->split ? rank * local : 0;
    return stand_in ? first + (place + local) % local : (first + place + global) % global;
}

/* Computes the values of the columns. The value of a cell is the sum of its row's and its column's. */
static void fill_columns(const struct peers_case *problem, int rank, int size, int field, int version,
                         int stand_in, double *columns) {
    for (int c = -problem->halo; c < problem->local[2] + problem->halo; c++)
        *columns++ = (double)number_of(problem, 2, rank, size, stand_in, c) + field / 64.0 + version * 1e9;
}

static double row_value(const struct peers_case *problem, int rank, int size, int stand_in, int a, int b) {
    int64_t slow = number_of(problem, 0, rank, size, stand_in, a);
    int64_t middle = number_of(problem, 1, rank, size, stand_in, b);
    return (double)((slow * cells_along(problem, 1, size) + middle) * cells_along(problem, 2, size));
}

void peers_fill(const struct peers_case *problem, int rank, int size, int field, int version,
                double *values) {
    int halo = problem->halo, length = problem->local[2] + 2 * halo;
    double columns[length];
    fill_columns(problem, rank, size, field, version, 0, columns);
    for (int a = -halo; a < problem->local[0] + halo; a++)
        for (int b = -halo; b < problem->local[1] + halo; b++) {
            int owned = a >= 0 && a < problem->local[0] && b >= 0 && b < problem->local[1];
            double row = row_value(problem, rank, size, 0, a, b);
            for (int c = 0; c < length; c++)
                *values++ = owned && c >= halo && c < halo + problem->local[2] ? row + columns[c] : NAN;
        }
}

int64_t peers_wrong(const struct peers_case *problem, int rank, int size, int field, int version,
                    int stand_in, const double *values) {
    int halo = problem->halo, length = problem->local[2] + 2 * halo;
    int64_t wrong = 0;
    double columns[length];
    fill_columns(problem, rank, size, field, version, stand_in, columns);
    for (int a = -halo; a < problem->local[0] + halo; a++)
        for (int b = -halo; b < problem->local[1] + halo; b++) {
            double row = row_value(problem, rank, size, stand_in, a, b);
            /* NaN differs from everything. */
            for (int c = 0; c < length; c++) wrong += !(*values++ == row + columns[c]);
        }
    return wrong;
}

static double mesh_value(int64_t id, int level, int field, int version) {
    return (double)(id * 1000 + level) + field / 64.0 + version * 1e9;
}

static int64_t place_of(const struct peers_mesh *mesh, int cell, int level) {
    int64_t block = cell / mesh->nproma, within = cell % mesh->nproma;
    return (block * mesh->levels + level) * mesh->nproma + within;
}

void peers_mesh_fill(const struct peers_mesh *mesh, int field, int version, double *values) {
    for (int cell = 0; cell < mesh->owned + mesh->halo; cell++)
        for (int level = 0; level < mesh->levels; level++)
            values[place_of(mesh, cell, level)] =
                cell < mesh->owned ? mesh_value(mesh->ids[cell], level, field, version) : NAN;
}

int64_t peers_mesh_wrong(const struct peers_mesh *mesh, int field, int version, int stand_in,
                         const double *values) {
    int64_t wrong = 0;
    for (int cell = 0; cell < mesh->owned + mesh->halo; cell++) {
        int from = stand_in && cell >= mesh->owned ? mesh->source[cell - mesh->owned] : cell;
        for (int level = 0; level < mesh->levels; level++)
            wrong +=
                !(values[place_of(mesh, cell, level)] == mesh_value(mesh->ids[from], level, field, version));
    }
    return wrong;
}

/* What a halo cell holds before it is added. A sum of two such values is exact. */
static double halo_value(int64_t id, int level, int field, int version) {
    return mesh_value(id, level, field, version + 1);
}

void peers_sum_fill(const struct peers_mesh *mesh, int field, int version, double *values) {
    for (int cell = 0; cell < mesh->owned + mesh->halo; cell++)
        for (int level = 0; level < mesh->levels; level++)
            values[place_of(mesh, cell, level)] =
                (cell < mesh->owned ? mesh_value : halo_value)(mesh->ids[cell], level, field, version);
}

int64_t peers_sum_wrong(const struct peers_mesh *mesh, int field, int version, int stand_in,
                        const double *values) {
    int64_t wrong = 0;
    /* For each cell the one whose halo value it gets; no cell has two copies on the other rank. */
    int32_t *from = malloc((size_t)(mesh->owned + mesh->halo) * sizeof *from);
    for (int cell = 0; cell < mesh->owned + mesh->halo; cell++) from[cell] = -1;
    for (int at = 0; stand_in && at < mesh->halo; at++) from[mesh->source[at]] = mesh->owned + at;
    for (int at = 0; !stand_in && at < mesh->sends; at++) from[mesh->send[at]] = mesh->send[at];
    for (int cell = 0; cell < mesh->owned + mesh->halo; cell++)
        for (int level = 0; level < mesh->levels; level++) {
            double expected =
                (cell < mesh->owned ? mesh_value : halo_value)(mesh->ids[cell], level, field, version);
            if (from[cell] >= 0) expected += halo_value(mesh->ids[from[cell]], level, field, version);
            wrong += !(values[place_of(mesh, cell, level)] == expected);
        }
    free(from);
    return wrong;
}

static double transpose_value(const struct peers_transpose *problem, int64_t a, int64_t b, int64_t c, int field,
                              int version) {
    return (double)((a * problem->cells[1] + b) * problem->cells[2] + c) + field / 64.0 + version * 1e9;
}

void peers_transpose_fill(const struct peers_transpose *problem, int rank, int size, int field, int version,
                          double *values) {
    int is_source = field < problem->fields, rows = problem->cells[0] / size;
    for (int a = rank * rows; a < (rank + 1) * rows; a++)
        for (int b = 0; b < problem->cells[1]; b++)
            for (int c = 0; c < problem->cells[2]; c++)
                *values++ = is_source ? transpose_value(problem, a, b, c, field, version) : NAN;
}

int64_t peers_transpose_wrong(const struct peers_transpose *problem, int rank, int size, int field, int version,
                              int stand_in, const double *values) {
    int64_t wrong = 0;
    int is_source = field < problem->fields;
    int rows = problem->cells[0] / size, columns = problem->cells[1] / size;
    const int first[2] = {is_source ? rank * rows : 0, is_source ? 0 : rank * columns};
    const int end[2] = {is_source ? first[0] + rows : problem->cells[0],
                        is_source ? problem->cells[1] : first[1] + columns};
    for (int a = first[0]; a < end[0]; a++) {
        int row = stand_in ? rank * rows + a % rows : a;
        for (int b = first[1]; b < end[1]; b++)
            for (int c = 0; c < problem->cells[2]; c++)
                wrong += !(*values++ ==
                           transpose_value(problem, row, b, c, field % problem->fields, version));
    }
    return wrong;
}
