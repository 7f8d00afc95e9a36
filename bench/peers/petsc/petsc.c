/* The contestants with PETSc. */
#include "petsc.h"

#include <stddef.h>

int petsc_start(MPI_Comm comm) {
    static PetscBool started = PETSC_FALSE;
    if (started) return 0;
    PETSC_COMM_WORLD = comm;
    TRY(PetscInitializeNoArguments());
    PetscPopSignalHandler();
    started = PETSC_TRUE;
    return 0;
}

double *petsc_values(Vec vector) {
    double *lent = NULL;
    VecGetArray(vector, &lent);
    double *values = lent;
    VecRestoreArray(vector, &lent);
    return values;
}

/* C requires a copy of the structures. */
const struct peers_strategy *peers_strategies(void) {
    static struct peers_strategy list[4];
    list[0] = petsc_global, list[1] = petsc_interlaced, list[2] = petsc_local;
    return list;
}

const struct peers_strategy *peers_sum_strategies(void) {
    static struct peers_strategy list[2];
    list[0] = petsc_reduce;
    return list;
}

const struct peers_strategy *peers_transpose_strategies(void) {
    static struct peers_strategy list[2];
    list[0] = petsc_scatter;
    return list;
}
