/*
 * Heat spreads over a plate with walls at the ends of one axis: mpirun -n 4 ./heat
 *
 * The interior is computed while halos travel. The result is that of one rank, to the last bit.
 */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>

#include "haloport.h"

enum { NX = 96, NY = 64, STEPS = 200 };

static void check(hp_status status) {
    if (status != HP_OK) {
        fprintf(stderr, "%s\n", hp_message());
        MPI_Abort(MPI_COMM_WORLD, 1);
    }
}

/* The temperature after a step of the cells between two corners, in arrays with rows of `nj`. */
static void step(double *next, const double *u, int64_t nj, hp_box of, hp_box all) {
    for (int64_t i = of.lower[0] - all.lower[0]; i < of.upper[0] - all.lower[0]; i++)
        for (int64_t j = of.lower[1] - all.lower[1]; j < of.upper[1] - all.lower[1]; j++) {
            const double *cell = &u[i * nj + j];
            next[i * nj + j] = cell[0] + 0.2 * (cell[-nj] + cell[nj] + cell[-1] + cell[1] - 4 * cell[0]);
        }
}

int main(int arguments, char **argument) {
    MPI_Init(&arguments, &argument);
    MPI_Comm world = MPI_COMM_WORLD;
    hp_comm *comm;
    check(hp_comm_mpi(&world, sizeof world, &comm));

    hp_grid grid = HP_GRID_INIT;
    grid.axes = 2;
    grid.cells[0] = NX, grid.cells[1] = NY;
    grid.periodic[0] = 1;
    for (int axis = 0; axis < 2; axis++) grid.halo_lower[axis] = grid.halo_upper[axis] = 1;
    hp_pattern *pattern;
    check(hp_pattern_grid(comm, &grid, HP_SPLIT, NULL, &pattern));
    hp_box mine, all, interior;
    check(hp_pattern_domain(pattern, NULL, 0, &mine, &all, &interior));

    int64_t ni = all.upper[0] - all.lower[0], nj = all.upper[1] - all.lower[1];
    double *u = calloc((size_t)(ni * nj), sizeof *u), *next = calloc((size_t)(ni * nj), sizeof *next);
    for (int64_t i = mine.lower[0]; i < mine.upper[0]; i++)
        for (int64_t j = mine.lower[1]; j < mine.upper[1]; j++)
            u[(i - all.lower[0]) * nj + j - all.lower[1]] = i >= 30 && i < 50 && j >= 20 && j < 40 ? 100 : 0;

    hp_array like = HP_ARRAY_INIT;
    like.type = HP_F64, like.axes = 2;
    like.extent[0] = ni, like.extent[1] = nj;
    hp_plan *plan;
    check(hp_plan_create(pattern, 1, &like, NULL, NULL, &plan));

    hp_stream stream = {HP_DEFAULT, 0, 0};
    for (int number = 0; number < STEPS; number++) {
        void *data[] = {u}; /* the arrays change places, so each step passes another one */
        check(hp_start(plan, data, stream, NULL));
        step(next, u, nj, interior, all);
        check(hp_finish(plan, HP_NO_TICKET, stream));
        /* The cells around the interior: four strips. */
        hp_box low = mine, high = mine, left = interior, right = interior;
        low.upper[0] = interior.lower[0], high.lower[0] = interior.upper[0];
        left.lower[1] = mine.lower[1], left.upper[1] = interior.lower[1];
        right.lower[1] = interior.upper[1], right.upper[1] = mine.upper[1];
        step(next, u, nj, low, all), step(next, u, nj, high, all), step(next, u, nj, left, all), step(next, u, nj, right, all);
        double *other = u;
        u = next, next = other;
    }

    double heat = 0, total = 0, highest = 0, peak = 0;
    for (int64_t i = mine.lower[0] - all.lower[0]; i < mine.upper[0] - all.lower[0]; i++)
        for (int64_t j = mine.lower[1] - all.lower[1]; j < mine.upper[1] - all.lower[1]; j++) {
            double found = u[i * nj + j];
            heat += found, highest = found > highest ? found : highest;
        }
    MPI_Reduce(&heat, &total, 1, MPI_DOUBLE, MPI_SUM, 0, MPI_COMM_WORLD);
    MPI_Reduce(&highest, &peak, 1, MPI_DOUBLE, MPI_MAX, 0, MPI_COMM_WORLD);
    int rank, ranks;
    MPI_Comm_rank(MPI_COMM_WORLD, &rank), MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    /* The maximum on one rank. */
    int right = peak > 54.1209 && peak < 54.1211;
    if (rank == 0) printf("%d ranks: the highest temperature after %d steps is %.4f, the mean %.4f\n", ranks, STEPS, peak, total / NX / NY);
    free(u), free(next);
    check(hp_plan_free(plan)), check(hp_pattern_free(pattern)), check(hp_comm_free(comm));
    MPI_Finalize();
    return rank == 0 && !right;
}
