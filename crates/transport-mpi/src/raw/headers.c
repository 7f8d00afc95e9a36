/* The constants and layouts of the MPI that this file is compiled with, for headers.rs. */

#include <mpi.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

/* The bytes of a handle come first, zeros behind them. */
#define HANDLE(type, value)                                \
    {                                                      \
        type handle = value;                               \
        memcpy(&values[count++], &handle, sizeof(handle)); \
    }
#define NUMBER(value) values[count++] = (uint64_t)(int64_t)(value);

/* Writes the values in the order of headers.rs, and returns their number. */
int haloport_header(uint64_t values[64])
{
    int count = 0;
    memset(values, 0, 64 * sizeof(uint64_t));
    HANDLE(MPI_Comm, MPI_COMM_WORLD)
    HANDLE(MPI_Comm, MPI_COMM_SELF)
    HANDLE(MPI_Comm, MPI_COMM_NULL)
    HANDLE(MPI_Request, MPI_REQUEST_NULL)
    HANDLE(MPI_Message, MPI_MESSAGE_NULL)
    HANDLE(MPI_Info, MPI_INFO_NULL)
    HANDLE(MPI_Errhandler, MPI_ERRORS_RETURN)
    HANDLE(MPI_Datatype, MPI_UINT8_T)
    HANDLE(MPI_Datatype, MPI_INT64_T)
    HANDLE(MPI_Datatype, MPI_UINT64_T)
    HANDLE(MPI_Op, MPI_MAX)
    HANDLE(MPI_Op, MPI_MIN)
    HANDLE(MPI_Op, MPI_SUM)
    HANDLE(MPI_Op, MPI_BOR)
    NUMBER(MPI_ANY_SOURCE)
    NUMBER(MPI_COMM_TYPE_SHARED)
    NUMBER(MPI_TAG_UB)
    NUMBER(MPI_ERR_TRUNCATE)
    NUMBER(MPI_THREAD_SINGLE)
    NUMBER(MPI_THREAD_FUNNELED)
    NUMBER(MPI_THREAD_SERIALIZED)
    NUMBER(MPI_THREAD_MULTIPLE)
    NUMBER((intptr_t)MPI_STATUSES_IGNORE)
    NUMBER(MPI_SUCCESS)
    NUMBER(sizeof(MPI_Comm))
    NUMBER(sizeof(MPI_Aint))
    NUMBER(sizeof(MPI_Count))
    NUMBER(sizeof(MPI_Status))
    NUMBER(_Alignof(MPI_Status))
    NUMBER(MPI_MAX_LIBRARY_VERSION_STRING)
    NUMBER(MPI_MAX_ERROR_STRING)
    return count;
}

void haloport_set_source(void *status, int source) { ((MPI_Status *)status)->MPI_SOURCE = source; }

/* A call, without which the linker would leave out a library whose constants are numbers. */
int haloport_version(int *version, int *minor) { return MPI_Get_version(version, minor); }
