#include "values.h"

#include <math.h>

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
