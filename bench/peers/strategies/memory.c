#define _GNU_SOURCE
#include "memory.h"

#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

void *private_new(size_t bytes) {
    enum { PAGE = 4096, HUGE_FROM = 1 << 21 };
    char *memory = NULL;
    if (posix_memalign((void **)&memory, 64, bytes)) abort();
    if (bytes >= HUGE_FROM) {
        size_t skip = (PAGE - (uintptr_t)memory % PAGE) % PAGE;
        madvise(memory + skip, (bytes - skip) / PAGE * PAGE, MADV_HUGEPAGE);
    }
    memset(memory, 0, bytes);
    return memory;
}

int shared_new(struct shared *shared, MPI_Comm comm, size_t bytes) {
    int size, on_node;
    MPI_Comm_size(comm, &size);
    MPI_Comm_split_type(comm, MPI_COMM_TYPE_SHARED, 0, MPI_INFO_NULL, &shared->comm);
    MPI_Comm_size(shared->comm, &on_node);
    MPI_Comm_rank(shared->comm, &shared->rank);
    int elsewhere = on_node != size, any;
    MPI_Allreduce(&elsewhere, &any, 1, MPI_INT, MPI_MAX, comm);
    if (any) {
        MPI_Comm_free(&shared->comm);
        return 1;
    }
    MPI_Info info;
    MPI_Info_create(&info);
    MPI_Info_set(info, "alloc_shared_noncontig", "true");
    void *mine;
    MPI_Win_allocate_shared((MPI_Aint)bytes, 1, info, shared->comm, &mine, &shared->window);
    MPI_Info_free(&info);
    memset(mine, 0, bytes);
    MPI_Barrier(shared->comm);
    return 0;
}

void *shared_of(const struct shared *shared, int rank) {
    MPI_Aint bytes;
    int unit;
    void *memory;
    MPI_Win_shared_query(shared->window, rank, &bytes, &unit, &memory);
    return memory;
}

void shared_free(struct shared *shared) {
    MPI_Win_free(&shared->window);
    MPI_Comm_free(&shared->comm);
}

void flag_raise(struct flag *flag, uint64_t count) {
    atomic_store_explicit(&flag->count, count, memory_order_release);
}

static int most_spins = 10000;

void peers_share_cores(void) { most_spins = 0; }

void flag_await(struct flag *flag, uint64_t count) {
    for (int spins = 0; atomic_load_explicit(&flag->count, memory_order_acquire) < count; spins++) {
        /* With more ranks than cores, the awaited rank may need this core. */
        if (spins >= most_spins) sched_yield();
        else __builtin_ia32_pause();
    }
}
