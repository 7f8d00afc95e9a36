/* The contestants DMGlobalToLocal and DMLocalToLocal: halos of a DMDA, one vector for each field or one for all. */
#include <petscdmda.h>
#include <stdlib.h>
#include <string.h>

#include "petsc.h"

struct petsc {
    const struct peers_case *problem;
    DM grid;
    Vec *global, *local; /* one for each field, or one for all */
    int vectors;
    double **fields; /* dense blocks with their halos; the memory of `local` if each field has a vector */
    int from_local;  /* DMLocalToLocal instead of DMGlobalToLocal */
};

static int set_up(struct petsc *petsc, MPI_Comm comm, int interlaced) {
    const struct peers_case *problem = petsc->problem;
    PetscMPIInt size;
    MPI_Comm_size(comm, &size);
    PetscInt cells[3], parts[3], dof = interlaced ? problem->fields : 1;
    for (int axis = 0; axis < 3; axis++) {
        parts[axis] = axis == problem->split ? size : 1;
        cells[axis] = problem->local[axis] * parts[axis];
    }
    /* PETSc names axes from the fastest on. */
    TRY(DMDACreate3d(comm, DM_BOUNDARY_PERIODIC, DM_BOUNDARY_PERIODIC, DM_BOUNDARY_PERIODIC, DMDA_STENCIL_BOX,
                     cells[2], cells[1], cells[0], parts[2], parts[1], parts[0], dof, problem->halo, NULL,
                     NULL, NULL, &petsc->grid));
    TRY(DMSetUp(petsc->grid));
    petsc->vectors = interlaced ? 1 : problem->fields;
    petsc->global = calloc((size_t)petsc->vectors, sizeof *petsc->global);
    petsc->local = calloc((size_t)petsc->vectors, sizeof *petsc->local);
    petsc->fields = calloc((size_t)problem->fields, sizeof *petsc->fields);
    for (int number = 0; number < petsc->vectors; number++) {
        TRY(DMCreateGlobalVector(petsc->grid, &petsc->global[number]));
        TRY(DMCreateLocalVector(petsc->grid, &petsc->local[number]));
    }
    PetscInt values;
    TRY(VecGetLocalSize(petsc->local[0], &values));
    for (int number = 0; number < problem->fields; number++) {
        if (interlaced) petsc->fields[number] = calloc((size_t)(values / dof), sizeof(double));
        else petsc->fields[number] = petsc_values(petsc->local[number]);
    }
    return 0;
}

static void *create(int fcomm, const void *problem, int interlaced, int from_local) {
    MPI_Comm comm = MPI_Comm_f2c(fcomm);
    if (petsc_start(comm)) return NULL;
    struct petsc *petsc = calloc(1, sizeof *petsc);
    petsc->problem = problem;
    petsc->from_local = from_local;
    /* After a failure, the memory is not freed before the job ends. */
    return set_up(petsc, comm, interlaced) ? NULL : petsc;
}

static int run(void *state, int batch) {
    struct petsc *petsc = state;
    while (batch-- > 0) {
        /* A scatter of PETSc has one exchange under way at a time. */
        for (int number = 0; number < petsc->vectors; number++) {
            Vec local = petsc->local[number], global = petsc->global[number];
            if (petsc->from_local) {
                TRY(DMLocalToLocalBegin(petsc->grid, local, INSERT_VALUES, local));
                TRY(DMLocalToLocalEnd(petsc->grid, local, INSERT_VALUES, local));
            } else {
                TRY(DMGlobalToLocalBegin(petsc->grid, global, INSERT_VALUES, local));
                TRY(DMGlobalToLocalEnd(petsc->grid, global, INSERT_VALUES, local));
            }
        }
    }
    return 0;
}

static double *field(void *state, int number) { return ((struct petsc *)state)->fields[number]; }

/* Copies between dense blocks and a vector that holds the fields of a cell side by side. */
static void interlace(struct petsc *petsc, int load) {
    int fields = petsc->problem->fields;
    PetscInt values;
    double *mixed = petsc_values(petsc->local[0]);
    VecGetLocalSize(petsc->local[0], &values);
    if (mixed == petsc->fields[0]) return; /* each field has a vector */
    for (int number = 0; number < fields; number++)
        for (PetscInt at = 0; at < values / fields; at++) {
            if (load) mixed[at * fields + number] = petsc->fields[number][at];
            else petsc->fields[number][at] = mixed[at * fields + number];
        }
}

/* Copies local vectors to the global ones, which hold only the owned cells. PETSc's own DMLocalToGlobal
 * refuses periodic axes that are not split. */
static void load(void *state) {
    struct petsc *petsc = state;
    const struct peers_case *problem = petsc->problem;
    interlace(petsc, 1);
    size_t dof = (size_t)(problem->fields / petsc->vectors), halo = (size_t)problem->halo;
    size_t owned[3], extent[3];
    for (int axis = 0; axis < 3; axis++) {
        owned[axis] = (size_t)problem->local[axis];
        extent[axis] = owned[axis] + 2 * halo;
    }
    size_t row = owned[2] * dof;
    for (int number = 0; number < petsc->vectors; number++) {
        const double *local = petsc_values(petsc->local[number]);
        double *global = petsc_values(petsc->global[number]);
        for (size_t a = 0; a < owned[0]; a++)
            for (size_t b = 0; b < owned[1]; b++)
                memcpy(global + (a * owned[1] + b) * row,
                       local + (((a + halo) * extent[1] + b + halo) * extent[2] + halo) * dof,
                       row * sizeof(double));
    }
}

static void store(void *state) { interlace(state, 0); }

static void destroy(void *state) {
    struct petsc *petsc = state;
    int own = petsc_values(petsc->local[0]) != petsc->fields[0];
    for (int number = 0; own && number < petsc->problem->fields; number++) free(petsc->fields[number]);
    for (int number = 0; number < petsc->vectors; number++) {
        VecDestroy(&petsc->local[number]);
        VecDestroy(&petsc->global[number]);
    }
    DMDestroy(&petsc->grid);
    free(petsc->fields), free(petsc->local), free(petsc->global), free(petsc);
}

static void *global(int comm, const void *problem) { return create(comm, problem, 0, 0); }
static void *local(int comm, const void *problem) { return create(comm, problem, 0, 1); }
static void *interlaced(int comm, const void *problem) { return create(comm, problem, 1, 0); }

const struct peers_strategy petsc_global = {
    "PETSc DMGlobalToLocal", global, run, field, load, store, destroy, 0};
const struct peers_strategy petsc_interlaced = {
    "PETSc DMGlobalToLocal, fields interlaced", interlaced, run, field, load, store, destroy, 0};
const struct peers_strategy petsc_local = {
    "PETSc DMLocalToLocal", local, run, field, load, store, destroy, 0};
