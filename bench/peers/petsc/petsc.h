/* What the contestants with PETSc share. */
#ifndef PEERS_PETSC_H
#define PEERS_PETSC_H

#include <petscvec.h>

#include "../peers.h"

#define TRY(call)                                                                                            \
    do {                                                                                                     \
        if ((call)) return 1;                                                                                \
    } while (0)

/* Collective: initialises PETSc on the communicator, the first time. Returns 0, or another number for an error. */
int petsc_start(MPI_Comm comm);
/* Returns the address of a vector's values, for longer than PETSc lends them. */
double *petsc_values(Vec vector);

extern const struct peers_strategy petsc_global, petsc_interlaced, petsc_local, petsc_reduce, petsc_scatter;

#endif
