/*
 * Stands in for Cray MPICH: MPICH with the version text of Cray, whose start ends the process if GPU support is on and the
 * library of the GPU transport layer was not visible to all libraries when this one was loaded.
 */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

__attribute__((weak)) int mpix_gtl_pointer_type(void);

int MPI_Init_thread(int *count, char ***arguments, int wanted, int *provided) {
    const char *enabled = getenv("MPICH_GPU_SUPPORT_ENABLED");
    if (enabled && strcmp(enabled, "1") == 0 && !mpix_gtl_pointer_type) {
        fputs("GPU support is enabled, but the library of its transport layer is not linked\n", stderr);
        abort();
    }
    return PMPI_Init_thread(count, arguments, wanted, provided);
}

int MPI_Get_library_version(char *version, int *length) {
    strcpy(version, "MPI VERSION    : CRAY MPICH version 8.1.29.4 (ANL base 3.4a2)\nMPI BUILD INFO : a test\n");
    *length = (int)strlen(version);
    return MPI_SUCCESS;
}

int MPIX_GPU_query_support(int kind, int *is_supported) {
    *is_supported = kind == MPIX_GPU_SUPPORT_CUDA;
    return MPI_SUCCESS;
}

/* By this function Haloport knows the file of an MPI. */
int MPI_Comm_dup(MPI_Comm comm, MPI_Comm *copy) { return PMPI_Comm_dup(comm, copy); }
