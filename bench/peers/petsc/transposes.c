/* The contestant VecScatter: a vector of the parts along the first axis goes to one of the parts along the second. */
#include <petscvec.h>
#include <stdlib.h>

#include "petsc.h"

struct transpose {
    const struct peers_transpose *problem;
    VecScatter scatter;
    Vec *sources, *targets; /* one for each field */
};

/* A block of the index set is a row of the fastest axis. */
static int set_up(struct transpose *made, MPI_Comm comm) {
    const int32_t *cells = made->problem->cells;
    PetscMPIInt rank, size;
    MPI_Comm_rank(comm, &rank);
    MPI_Comm_size(comm, &size);
    PetscInt columns = cells[1] / size, rows = cells[0] * columns, at = 0;
    size_t fields = (size_t)made->problem->fields;
    made->sources = calloc(fields, sizeof *made->sources), made->targets = calloc(fields, sizeof *made->targets);
    for (size_t number = 0; number < fields; number++) {
        TRY(VecCreateMPI(comm, rows * cells[2], PETSC_DETERMINE, &made->sources[number]));
        TRY(VecCreateMPI(comm, rows * cells[2], PETSC_DETERMINE, &made->targets[number]));
    }
    PetscInt *from, first;
    TRY(PetscMalloc1((size_t)rows, &from));
    for (PetscInt a = 0; a < cells[0]; a++)
        for (PetscInt b = 0; b < columns; b++) from[at++] = a * cells[1] + rank * columns + b;
    IS source, target;
    TRY(ISCreateBlock(comm, cells[2], rows, from, PETSC_OWN_POINTER, &source));
    TRY(VecGetOwnershipRange(made->targets[0], &first, NULL));
    PetscInt *to;
    TRY(PetscMalloc1((size_t)rows, &to));
    for (at = 0; at < rows; at++) to[at] = first / cells[2] + at;
    TRY(ISCreateBlock(comm, cells[2], rows, to, PETSC_OWN_POINTER, &target));
    TRY(VecScatterCreate(made->sources[0], source, made->targets[0], target, &made->scatter));
    TRY(ISDestroy(&source));
    TRY(ISDestroy(&target));
    return 0;
}

static void *create(int fcomm, const void *problem) {
    MPI_Comm comm = MPI_Comm_f2c(fcomm);
    if (petsc_start(comm)) return NULL;
    struct transpose *made = calloc(1, sizeof *made);
    made->problem = problem;
    /* After a failure, the memory is not freed before the job ends. */
    return set_up(made, comm) ? NULL : made;
}

static int run(void *state, int batch) {
    struct transpose *made = state;
    while (batch-- > 0)
        for (int number = 0; number < made->problem->fields; number++) {
            Vec source = made->sources[number], target = made->targets[number];
            TRY(VecScatterBegin(made->scatter, source, target, INSERT_VALUES, SCATTER_FORWARD));
            TRY(VecScatterEnd(made->scatter, source, target, INSERT_VALUES, SCATTER_FORWARD));
        }
    return 0;
}

static double *field(void *state, int number) {
    struct transpose *made = state;
    int fields = made->problem->fields;
    return petsc_values(number < fields ? made->sources[number] : made->targets[number - fields]);
}

static void destroy(void *state) {
    struct transpose *made = state;
    VecScatterDestroy(&made->scatter);
    for (int number = 0; number < made->problem->fields; number++) {
        VecDestroy(&made->sources[number]);
        VecDestroy(&made->targets[number]);
    }
    free(made->sources), free(made->targets), free(made);
}

const struct peers_strategy petsc_scatter = {"PETSc VecScatter", create, run, field, NULL, NULL, destroy, 0};
