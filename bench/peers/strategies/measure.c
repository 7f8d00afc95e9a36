#define _GNU_SOURCE
#include "measure.h"

#include <mpi.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>

#include "memory.h"
#include "writes.h"

int peers_init(void) {
    int done, level;
    MPI_Initialized(&done);
    if (!done) MPI_Init_thread(NULL, NULL, MPI_THREAD_FUNNELED, &level);
    return MPI_Comm_c2f(MPI_COMM_WORLD);
}

int peers_rank(int comm) {
    int rank;
    MPI_Comm_rank(MPI_Comm_f2c(comm), &rank);
    return rank;
}

int peers_size(int comm) {
    int size;
    MPI_Comm_size(MPI_Comm_f2c(comm), &size);
    return size;
}

void peers_finalize(void) { MPI_Finalize(); }

double peers_max(int comm, double value) {
    double most;
    MPI_Allreduce(&value, &most, 1, MPI_DOUBLE, MPI_MAX, MPI_Comm_f2c(comm));
    return most;
}

/* Returns the time of a clock that all processes of a node share, in seconds. */
static double now(void) {
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (double)time.tv_sec + 1e-9 * (double)time.tv_nsec;
}

static long preemptions(void) {
    struct rusage usage;
    getrusage(RUSAGE_SELF, &usage);
    return usage.ru_nivcsw;
}

/* What a batch is made of. */
enum work { EXCHANGES, WRITES_AND_EXCHANGES, WRITES };

static int work(const struct peers_runner *runner, enum work what, int batch) {
    if (what == EXCHANGES) return runner->run(runner->state, batch);
    int (*run)(void *, int) = what == WRITES ? runner->idle : runner->run;
    int failed = 0;
    while (batch-- > 0) {
        peers_writes_run(runner->writes);
        if (run) failed |= run(runner->state, 1);
    }
    return failed;
}

/* Takes one sample: the microseconds of the slowest rank since the common start, and whether any rank was
 * preempted. */
static int sample(MPI_Comm comm, const struct peers_runner *runner, enum work what, int batch,
                  double *microseconds, uint8_t *preempted) {
    enum { LEAD = 15 }; /* microseconds from the last rank's arrival to the start */
    double arrival = now(), begin;
    MPI_Allreduce(&arrival, &begin, 1, MPI_DOUBLE, MPI_MAX, comm);
    begin += 1e-6 * LEAD;
    long before = preemptions();
    while (now() < begin) continue;
    int failed = work(runner, what, batch);
    double mine[3] = {now() - begin, preemptions() != before, failed != 0}, all[3];
    MPI_Allreduce(mine, all, 3, MPI_DOUBLE, MPI_MAX, comm);
    *microseconds = 1e6 * all[0] / batch;
    *preempted = all[1] > 0;
    return all[2] > 0;
}

static int ascending(const void *one, const void *other) {
    double a = *(const double *)one, b = *(const double *)other;
    return (a > b) - (a < b);
}

double peers_handover(int fcomm) {
    enum { LINES = 1024, VALUES = 8 * LINES, TIMES = 101 };
    MPI_Comm comm = MPI_Comm_f2c(fcomm);
    struct shared shared;
    int rank = peers_rank(fcomm);
    double nanoseconds[TIMES], median;
    if (peers_size(fcomm) < 2 || shared_new(&shared, comm, 2 * sizeof(struct flag) + VALUES * sizeof(double)))
        return 0;
    struct flag *written = shared_of(&shared, 0), *read = written + 1;
    volatile double *values = (double *)(read + 1);
    for (uint64_t time = 1; time <= TIMES; time++) {
        if (rank == 0) {
            double begin = now();
            for (int at = 0; at < VALUES; at++) values[at] = (double)time;
            nanoseconds[time - 1] = 1e9 * (now() - begin) / LINES;
            flag_raise(written, time);
            flag_await(read, time);
        } else if (rank == 1) {
            flag_await(written, time);
            for (int at = 0; at < VALUES; at += 8) (void)values[at];
            flag_raise(read, time);
        }
    }
    if (rank == 0) qsort(nanoseconds, TIMES, sizeof *nanoseconds, ascending);
    median = nanoseconds[TIMES / 2];
    MPI_Bcast(&median, 1, MPI_DOUBLE, 0, comm);
    shared_free(&shared);
    return median;
}

int peers_calibrate(int fcomm, int count, const struct peers_runner *runners, double seconds,
                    int32_t *batch) {
    enum { TRIES = 5, MOST = 1 << 14 };
    MPI_Comm comm = MPI_Comm_f2c(fcomm);
    for (int at = 0; at < count; at++) {
        batch[at] = 1;
        for (;;) {
            double best = 1e30;
            for (int try = 0; try < TRIES; try++) {
                double microseconds;
                uint8_t preempted;
                if (sample(comm, &runners[at], EXCHANGES, batch[at], &microseconds, &preempted)) return 1 + at;
                if (microseconds < best) best = microseconds;
            }
            double wanted = 1e6 * seconds / best;
            if (wanted < 2 * batch[at] || batch[at] == MOST) {
                batch[at] = wanted < 1 ? 1 : wanted > MOST ? MOST : (int32_t)(wanted + 0.5);
                break;
            }
            batch[at] = 4 * batch[at] > MOST ? MOST : 4 * batch[at];
        }
    }
    return 0;
}

static uint64_t next(uint64_t *state) {
    /* Marsaglia's xorshift64. */
    *state ^= *state << 13;
    *state ^= *state >> 7;
    *state ^= *state << 17;
    return *state;
}

int peers_measure(int fcomm, int count, const struct peers_runner *runners, const int32_t *batch, int rounds,
                  double budget, uint64_t seed, int warm, int64_t sweep, int write,
                  double *microseconds, uint8_t *preempted) {
    MPI_Comm comm = MPI_Comm_f2c(fcomm);
    uint64_t random = seed * 2654435769u + 88172645463325252u;
    char *other = sweep ? private_new((size_t)sweep) : NULL;
    int *order = malloc((size_t)count * sizeof *order);
    double *writing = write ? malloc((size_t)(rounds * count) * sizeof *writing) : NULL;
    for (int at = 0; at < count; at++) order[at] = at;
    double begin = now();
    int round = 0, failed = 0;
    for (; round < rounds && !failed; round++) {
        double spent = now() - begin;
        MPI_Bcast(&spent, 1, MPI_DOUBLE, 0, comm);
        if (spent > budget) break;
        for (int at = count - 1; at > 0; at--) {
            int with = (int)(next(&random) % (uint64_t)(at + 1)), kept = order[at];
            order[at] = order[with];
            order[with] = kept;
        }
        for (int at = 0; at < count && !failed; at++) {
            int who = order[at];
            if (sweep) memset(other, round, (size_t)sweep);
            if (warm) failed = runners[who].run(runners[who].state, 1) != 0;
            int place = round * count + who;
            failed |= sample(comm, &runners[who], write ? WRITES_AND_EXCHANGES : EXCHANGES, sweep ? 1 : batch[who],
                             &microseconds[place], &preempted[place]);
            uint8_t unused;
            if (write)
                failed |= sample(comm, &runners[who], WRITES, batch[who], &writing[who * rounds + round], &unused);
            if (failed) failed = 1 + who;
        }
    }
    for (int who = 0; write && !failed && who < count && round > 0; who++) {
        double *alone = writing + who * rounds;
        qsort(alone, (size_t)round, sizeof *alone, ascending);
        for (int at = 0; at < round; at++) microseconds[at * count + who] -= alone[round / 2];
    }
    free(order), free(other), free(writing);
    return failed ? -failed : round;
}
