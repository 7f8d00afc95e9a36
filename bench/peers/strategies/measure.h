/* Measures contestants in turns, sample by sample, in a new order each round. */
#ifndef MEASURE_H
#define MEASURE_H

#include <stdint.h>

struct peers_runner {
    int (*run)(void *state, int batch);
    void *state;
    /* Makes no exchange, and takes as long as the call of `run` itself; null if that takes no time. */
    int (*idle)(void *state, int batch);
    void *writes; /* see writes.h */
};

/* Initialises MPI, unless it is initialised, and returns the Fortran handle of the world. */
int peers_init(void);
int peers_rank(int comm);
int peers_size(int comm);
void peers_finalize(void);
/* Collective: returns the largest value of any rank. */
double peers_max(int comm, double value);

/* Collective: returns the nanoseconds that rank 0 needs to write a cache line which rank 1 has just read, as
 * a mean over many adjacent lines; 0 if the ranks share no memory. It shows how far apart the cores are. */
double peers_handover(int comm);

/* Collective: sets `batch` of each runner to the number of exchanges that take about `seconds`, the same on
 * every rank. Returns 0, or 1 + the number of a runner that failed. */
int peers_calibrate(int comm, int count, const struct peers_runner *runners, double seconds, int32_t *batch);

/* Collective: times rounds × count samples of `batch` exchanges each, in a random order that follows from
 * `seed`, and stops early after `budget` seconds. `microseconds` are for one exchange: the largest time of
 * any rank since a common start. `preempted` is set if any rank lost its core meanwhile. With `warm`, a sample
 * follows an exchange of the same contestant that is not timed. With `sweep` bytes, a sample is one exchange,
 * before which each rank writes that much other memory. With `write`, each exchange follows the writes of the
 * contestant, and the median time of these alone, by all rounds, is subtracted. Returns the number of rounds, or minus (1 + the
 * number of a runner that failed). */
int peers_measure(int comm, int count, const struct peers_runner *runners, const int32_t *batch, int rounds,
                  double budget, uint64_t seed, int warm, int64_t sweep, int write,
                  double *microseconds, uint8_t *preempted);

#endif
