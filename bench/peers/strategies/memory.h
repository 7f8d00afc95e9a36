/* The memory of fields, and flags that ranks of a node share. */
#ifndef MEMORY_H
#define MEMORY_H

#include <mpi.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>

/* Returns zeroed memory of this process, in huge pages if the system has them, requested as NumPy does. */
void *private_new(size_t bytes);

/* Memory that all ranks of the communicator share, `bytes` for each rank. */
struct shared {
    MPI_Win window;
    MPI_Comm comm;
    int rank;
};

/* Collective: returns 0, or 1 on every rank if the ranks are not on one node. */
int shared_new(struct shared *shared, MPI_Comm comm, size_t bytes);
void *shared_of(const struct shared *shared, int rank);
/* Collective. */
void shared_free(struct shared *shared);

/* A counter on cache lines of its own, written by one rank. */
struct flag {
    _Alignas(128) _Atomic uint64_t count;
    char rest[128 - sizeof(uint64_t)];
};

void flag_raise(struct flag *flag, uint64_t count);
void flag_await(struct flag *flag, uint64_t count);
/* From now on, `flag_await` gives its core to another rank at once: ranks outnumber cores. */
void peers_share_cores(void);

#endif
