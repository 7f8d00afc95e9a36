/*
 * Finite elements: Poisson's equation on the unit square with linear triangles, whose parts have ragged borders: mpirun -n 4 ./poisson
 *
 * Each rank computes with its own triangles. It adds to vertices that other ranks own, so these sums go from halos to their owners.
 */
#include <math.h>
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>

#include "haloport.h"

static const double PI = 3.14159265358979323846;

static hp_comm *comm;
static int32_t rank, ranks;

static void check(hp_status status) {
    if (status != HP_OK) {
        fprintf(stderr, "%s\n", hp_message());
        MPI_Abort(MPI_COMM_WORLD, 1);
    }
}

static void *room(int64_t count, size_t bytes) {
    void *made = calloc((size_t)count + 1, bytes);
    if (!made) MPI_Abort(MPI_COMM_WORLD, 1);
    return made;
}

/* The part of a rank: its triangles and their vertices, first those that it owns. */
typedef struct part {
    int64_t triangles, owned, vertices;
    int64_t (*corners)[3];
    double (*points)[2];
    uint8_t *inner;
    double *sums, *values; /* of all vertices: of triangles, and of a vector with its halo */
    hp_pattern *pattern;
    hp_plan *to_owners, *to_halos;
} part;

/* The vertices of a triangle of n by n squares, two in each. */
static void corners_of(int64_t n, int64_t triangle, int64_t corners[3]) {
    int64_t square = triangle / 2, first = square / n * (n + 1) + square % n;
    corners[0] = first;
    corners[1] = triangle % 2 ? first + n + 2 : first + n + 1;
    corners[2] = triangle % 2 ? first + 1 : first + n + 2;
}

/* The rank of a triangle: that of the nearest of some points. */
static int32_t rank_of(int64_t n, const int64_t corners[3]) {
    double x = 0, y = 0, least = INFINITY;
    int32_t nearest = 0;
    for (int k = 0; k < 3; k++) x += (double)(corners[k] / (n + 1)) / (3.0 * (double)n), y += (double)(corners[k] % (n + 1)) / (3.0 * (double)n);
    for (int32_t one = 0; one < ranks; one++) {
        double to_x = fmod(0.5 + 0.754877666 * one, 1) - x, to_y = fmod(0.5 + 0.569840291 * one, 1) - y;
        if (to_x * to_x + to_y * to_y < least) least = to_x * to_x + to_y * to_y, nearest = one;
    }
    return nearest;
}

/* Makes the part of this rank. A vertex belongs to the lowest rank of its triangles, and is in the halo of the others. */
static void make(int64_t n, part *to) {
    int64_t all = (n + 1) * (n + 1), corners[3], *ids = room(all, sizeof *ids), *place = room(all, sizeof *place);
    int32_t *owner = room(all, sizeof *owner);
    uint8_t *touched = room(all, 1), *owned = room(all, 1);
    part made = {0};
    made.corners = room(2 * n * n, sizeof *made.corners);
    for (int64_t vertex = 0; vertex < all; vertex++) owner[vertex] = ranks;
    for (int64_t triangle = 0; triangle < 2 * n * n; triangle++) {
        corners_of(n, triangle, corners);
        int32_t its = rank_of(n, corners);
        for (int k = 0; k < 3; k++) {
            if (its < owner[corners[k]]) owner[corners[k]] = its;
            if (its == rank) touched[corners[k]] = 1, made.corners[made.triangles][k] = corners[k];
        }
        made.triangles += its == rank;
    }
    for (int is_owned = 1; is_owned >= 0; is_owned--)
        for (int64_t vertex = 0; vertex < all; vertex++)
            if (is_owned == (owner[vertex] == rank) && (is_owned || touched[vertex])) {
                place[vertex] = made.vertices, owned[made.vertices] = (uint8_t)is_owned;
                ids[made.vertices++] = vertex, made.owned += is_owned;
            }
    made.points = room(made.vertices, sizeof *made.points);
    made.inner = room(made.vertices, 1);
    for (int64_t vertex = 0; vertex < made.vertices; vertex++) {
        int64_t i = ids[vertex] / (n + 1), j = ids[vertex] % (n + 1);
        made.points[vertex][0] = (double)i / (double)n, made.points[vertex][1] = (double)j / (double)n;
        made.inner[vertex] = i > 0 && i < n && j > 0 && j < n; /* the solution is 0 on the boundary */
    }
    for (int64_t triangle = 0; triangle < made.triangles; triangle++)
        for (int k = 0; k < 3; k++) made.corners[triangle][k] = place[made.corners[triangle][k]];
    made.sums = room(made.vertices, sizeof *made.sums), made.values = room(made.vertices, sizeof *made.values);

    /* A vertex in the halo has a sum of its own on each rank that has a triangle of it. */
    hp_ids set = {.size = sizeof set, .cells = made.vertices, .ids = ids, .owned = owned};
    check(hp_pattern_ids(comm, 1, &set, &made.pattern));
    hp_array like = {.size = sizeof like, .type = HP_F64, .axes = 1, .extent = {made.vertices}};
    hp_options options = {.size = sizeof options, .accumulate = "sum", .zero_halo = 1};
    check(hp_plan_create(made.pattern, 1, &like, NULL, &options, &made.to_owners));
    check(hp_plan_create(made.pattern, 1, &like, NULL, NULL, &made.to_halos));
    free(ids), free(place), free(owner), free(touched), free(owned);
    *to = made;
}

/* The area of a triangle, and the edge opposite each vertex. */
static double edges_of(const part *mesh, int64_t triangle, double edges[3][2]) {
    for (int k = 0; k < 3; k++)
        for (int axis = 0; axis < 2; axis++)
            edges[k][axis] = mesh->points[mesh->corners[triangle][(k + 2) % 3]][axis] - mesh->points[mesh->corners[triangle][(k + 1) % 3]][axis];
    return fabs(edges[0][0] * edges[1][1] - edges[0][1] * edges[1][0]) / 2;
}

/* Takes the sums of all triangles to the owners of vertices, and writes those of inner vertices. */
static void assemble(const part *mesh, double *to) {
    check(hp_exchange(mesh->to_owners, (void *[]){mesh->sums}, (hp_stream){HP_DEFAULT, 0, 0}));
    for (int64_t vertex = 0; vertex < mesh->owned; vertex++) {
        to[vertex] = mesh->inner[vertex] ? mesh->sums[vertex] : 0;
        mesh->sums[vertex] = 0;
    }
}

/* The product of the stiffness matrix and a vector. */
static void apply(const part *mesh, const double *vector, double *product) {
    for (int64_t vertex = 0; vertex < mesh->owned; vertex++) mesh->values[vertex] = vector[vertex];
    check(hp_exchange(mesh->to_halos, (void *[]){mesh->values}, (hp_stream){HP_DEFAULT, 0, 0}));
    for (int64_t triangle = 0; triangle < mesh->triangles; triangle++) {
        double edges[3][2], area = edges_of(mesh, triangle, edges);
        for (int k = 0; k < 3; k++)
            for (int l = 0; l < 3; l++)
                mesh->sums[mesh->corners[triangle][k]] += (edges[k][0] * edges[l][0] + edges[k][1] * edges[l][1]) / (4 * area) *
                                                         mesh->values[mesh->corners[triangle][l]];
    }
    assemble(mesh, product);
}

static double dot(const part *mesh, const double *one, const double *other) {
    double sum;
    check(hp_comm_sum_exact(comm, HP_F64, 1, &mesh->owned, (const void *[]){one}, (const void *[]){other}, NULL, &sum));
    return sum;
}

static double exact(const double point[2]) {
    return sin(PI * point[0]) * sin(PI * point[1]);
}

/* The largest error of the solution on n by n squares. */
static double solve(int64_t n) {
    part mesh;
    make(n, &mesh);
    double *u = room(mesh.owned, sizeof *u), *residual = room(mesh.owned, sizeof *u), *product = room(mesh.owned, sizeof *u);
    double *direction = room(mesh.owned, sizeof *u), edges[3][2];
    for (int64_t triangle = 0; triangle < mesh.triangles; triangle++) {
        const int64_t *corners = mesh.corners[triangle];
        double mean = 0;
        for (int k = 0; k < 3; k++) mean += exact(mesh.points[corners[k]]) / 3;
        for (int k = 0; k < 3; k++) mesh.sums[corners[k]] += 2 * PI * PI * mean * edges_of(&mesh, triangle, edges) / 3;
    }
    assemble(&mesh, residual);
    for (int64_t vertex = 0; vertex < mesh.owned; vertex++) direction[vertex] = residual[vertex];
    double first = dot(&mesh, residual, residual), square = first;
    int iterations = 0;
    for (; square > 1e-20 * first; iterations++) {
        apply(&mesh, direction, product);
        double step = square / dot(&mesh, direction, product), before = square;
        for (int64_t vertex = 0; vertex < mesh.owned; vertex++)
            u[vertex] += step * direction[vertex], residual[vertex] -= step * product[vertex];
        square = dot(&mesh, residual, residual);
        for (int64_t vertex = 0; vertex < mesh.owned; vertex++) direction[vertex] = residual[vertex] + square / before * direction[vertex];
    }
    double error = 0;
    for (int64_t vertex = 0; vertex < mesh.owned; vertex++) error = fmax(error, fabs(u[vertex] - exact(mesh.points[vertex])));
    check(hp_comm_all_reduce(comm, HP_MAX, HP_F64, 1, &error));
    if (rank == 0) printf("%3d by %d squares: error %.2e after %d iterations\n", (int)n, (int)n, error, iterations);
    check(hp_plan_free(mesh.to_owners)), check(hp_plan_free(mesh.to_halos)), check(hp_pattern_free(mesh.pattern));
    free(mesh.corners), free(mesh.points), free(mesh.inner), free(mesh.sums), free(mesh.values);
    free(u), free(residual), free(product), free(direction);
    return error;
}

int main(int arguments, char **argument) {
    MPI_Init(&arguments, &argument);
    check(hp_comm_mpi(NULL, 0, &comm)); /* of MPI_COMM_WORLD */
    check(hp_comm_rank(comm, &rank));
    check(hp_comm_size(comm, &ranks));
    double coarse = solve(16), fine = solve(32), order = log2(coarse / fine);
    int right = order > 1.8 && order < 2.2;
    if (rank == 0) printf("%d ranks: the error falls by order %.2f\n", ranks, order);
    check(hp_comm_free(comm));
    MPI_Finalize();
    return rank == 0 && !right;
}
