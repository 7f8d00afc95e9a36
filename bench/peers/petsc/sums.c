/* The contestant PetscSFReduce: halo cells of a mesh are added to their owners. */
#include <petscsf.h>
#include <stdlib.h>

#include "petsc.h"

struct sums {
    const struct peers_mesh *problem;
    PetscSF graph;
    MPI_Datatype unit; /* what an edge of the graph moves: the levels of a cell, or a value */
    double **fields;
};

static int32_t place_of(const struct peers_mesh *mesh, int32_t nproma, int32_t cell, int32_t level) {
    return (cell / nproma * mesh->levels + level) * nproma + cell % nproma;
}

/* An edge for each cell of the halo if its levels lie side by side, otherwise one for each value. */
static int set_up(struct sums *sums, MPI_Comm comm) {
    const struct peers_mesh *mesh = sums->problem;
    PetscMPIInt rank;
    MPI_Comm_rank(comm, &rank);
    int32_t their_nproma, cells = mesh->owned + mesh->halo, blocks = (cells + mesh->nproma - 1) / mesh->nproma;
    MPI_Sendrecv(&mesh->nproma, 1, MPI_INT32_T, 1 - rank, 0, &their_nproma, 1, MPI_INT32_T, 1 - rank, 0, comm,
                 MPI_STATUS_IGNORE);
    int whole = mesh->nproma == 1;
    PetscInt edges = mesh->halo * (whole ? 1 : mesh->levels), at = 0;
    PetscInt *leaves;
    PetscSFNode *roots;
    TRY(PetscMalloc1((size_t)edges, &leaves));
    TRY(PetscMalloc1((size_t)edges, &roots));
    for (int32_t level = 0; level < (whole ? 1 : mesh->levels); level++)
        for (int32_t cell = 0; cell < mesh->halo; cell++, at++) {
            int32_t own = mesh->owned + cell, theirs = mesh->source[cell];
            leaves[at] = whole ? own : place_of(mesh, mesh->nproma, own, level);
            roots[at].rank = 1 - rank;
            roots[at].index = whole ? theirs : place_of(mesh, their_nproma, theirs, level);
        }
    /* PETSc adds numbers, and types that it recognises as several numbers. */
    sums->unit = MPIU_REAL;
    if (whole && mesh->levels > 1) {
        TRY(MPI_Type_contiguous(mesh->levels, MPIU_REAL, &sums->unit));
        TRY(MPI_Type_commit(&sums->unit));
    }
    TRY(PetscSFCreate(comm, &sums->graph));
    PetscInt places = blocks * mesh->nproma * (whole ? 1 : mesh->levels);
    TRY(PetscSFSetGraph(sums->graph, places, edges, leaves, PETSC_OWN_POINTER, roots, PETSC_OWN_POINTER));
    TRY(PetscSFSetUp(sums->graph));
    sums->fields = calloc((size_t)mesh->fields, sizeof *sums->fields);
    for (int number = 0; number < mesh->fields; number++)
        sums->fields[number] =
            calloc((size_t)blocks * (size_t)mesh->nproma * (size_t)mesh->levels, sizeof(double));
    return 0;
}

static void *create(int fcomm, const void *problem) {
    MPI_Comm comm = MPI_Comm_f2c(fcomm);
    PetscMPIInt size;
    MPI_Comm_size(comm, &size);
    if (size != 2 || petsc_start(comm)) return NULL;
    struct sums *sums = calloc(1, sizeof *sums);
    sums->problem = problem;
    /* After a failure, the memory is not freed before the job ends. */
    return set_up(sums, comm) ? NULL : sums;
}

/* All fields are under way at once. */
static int run(void *state, int batch) {
    struct sums *sums = state;
    while (batch-- > 0) {
        for (int number = 0; number < sums->problem->fields; number++)
            TRY(PetscSFReduceBegin(sums->graph, sums->unit, sums->fields[number], sums->fields[number], MPI_SUM));
        for (int number = 0; number < sums->problem->fields; number++)
            TRY(PetscSFReduceEnd(sums->graph, sums->unit, sums->fields[number], sums->fields[number], MPI_SUM));
    }
    return 0;
}

static double *field(void *state, int number) { return ((struct sums *)state)->fields[number]; }

static void destroy(void *state) {
    struct sums *sums = state;
    for (int number = 0; number < sums->problem->fields; number++) free(sums->fields[number]);
    PetscSFDestroy(&sums->graph);
    if (sums->unit != MPIU_REAL) MPI_Type_free(&sums->unit);
    free(sums->fields), free(sums);
}

const struct peers_strategy petsc_reduce = {"PETSc PetscSFReduce", create, run, field, NULL, NULL, destroy, 0};
