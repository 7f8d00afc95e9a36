/*
 * Several exchanges of a plan are in flight between two ranks, and finished in every order: each time that one was finished, its own
 * halo is in place. Tickets of other exchanges are refused.
 */
#define _POSIX_C_SOURCE 200809L

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "haloport.h"

enum { CELLS = 6, RANKS = 2, FLIGHTS = 3 };

typedef struct participant {
    int rank;
    hp_comm *comm;
} participant;

static const hp_stream STREAM = {HP_DEFAULT, 0, 0};

#define REQUIRE(condition)                                                                                        \
    do {                                                                                                          \
        if (!(condition)) {                                                                                       \
            fprintf(stderr, "line %d: %s is false: %s\n", __LINE__, #condition, hp_message());                     \
            exit(1);                                                                                              \
        }                                                                                                         \
    } while (0)
#define REFUSED(status, word, call) REQUIRE((call) == (status) && strstr(hp_message(), word))

/* Rank 1 starts late, so that an exchange that a neighbour does not finish has not arrived there by chance. */
static void pause_on(int rank) {
    const struct timespec late = {0, 20 * 1000 * 1000};
    if (rank == 1) nanosleep(&late, NULL);
}

static void fill(double *values, int rank, double step) {
    for (int cell = 0; cell < CELLS; cell++) values[cell] = cell > 0 && cell < CELLS - 1 ? step + 10 * rank + cell : -1;
}

/* Whether the halo is in place; both neighbours on the ring are the other rank. */
static int is_filled(const double *values, int rank, double step) {
    double other = step + 10 * (1 - rank);
    return values[0] == other + CELLS - 2 && values[CELLS - 1] == other + 1;
}

static hp_plan *plan_of(hp_pattern *pattern, int in_flight, const char *path) {
    hp_array like = HP_ARRAY_INIT;
    hp_options options = HP_OPTIONS_INIT;
    hp_plan *plan;
    like.type = HP_F64, like.axes = 1, like.extent[0] = CELLS;
    options.in_flight = in_flight, options.path = path;
    REQUIRE(hp_plan_create(pattern, 1, &like, NULL, &options, &plan) == HP_OK);
    return plan;
}

static void finish_in_order(hp_plan *plan, int rank, const int *order, double step) {
    double values[FLIGHTS][CELLS];
    hp_ticket tickets[FLIGHTS];
    int32_t ready = 7;
    for (int flight = 0; flight < FLIGHTS; flight++) {
        void *data[] = {values[flight]};
        fill(values[flight], rank, step + 100 * flight);
        pause_on(rank);
        REQUIRE(hp_start(plan, data, STREAM, &tickets[flight]) == HP_OK && tickets[flight] != HP_NO_TICKET);
    }
    for (int place = 0; place < FLIGHTS; place++) {
        int flight = order[place];
        REQUIRE(hp_finish(plan, tickets[flight], STREAM) == HP_OK);
        REQUIRE(is_filled(values[flight], rank, step + 100 * flight));
        REFUSED(HP_ARGUMENT, "was finished", hp_finish(plan, tickets[flight], STREAM));
        REFUSED(HP_ARGUMENT, "was finished", hp_ready(plan, tickets[flight], &ready));
        REQUIRE(ready == 0);
        REFUSED(HP_ARGUMENT, "up to 3 exchanges of the plan can be in flight", hp_finish(plan, HP_NO_TICKET, STREAM));
    }
}

static void refuse(hp_plan *plan, hp_plan *other, int rank) {
    double values[2][CELLS];
    void *data[] = {values[0]}, *data_of_other[] = {values[1]};
    hp_ticket ticket = 7, ticket_of_other = 7;
    int32_t ready = 7;
    fill(values[0], rank, 1000), fill(values[1], rank, 2000);
    /* The one ticket would be lost. */
    REFUSED(HP_ARGUMENT, "found null", hp_start(plan, data, STREAM, NULL));
    REFUSED(HP_ARGUMENT, "data", hp_start(plan, NULL, STREAM, &ticket));
    REQUIRE(ticket == HP_NO_TICKET);
    REQUIRE(hp_start(plan, data, STREAM, &ticket) == HP_OK);
    REQUIRE(hp_start(other, data_of_other, STREAM, &ticket_of_other) == HP_OK);
    /* No ticket does not stand for the one in flight: a start that failed has none, either. */
    REFUSED(HP_ARGUMENT, "and 1 are, found none", hp_finish(plan, HP_NO_TICKET, STREAM));
    REFUSED(HP_ARGUMENT, "and 1 are, found none", hp_ready(plan, HP_NO_TICKET, &ready));
    REFUSED(HP_ARGUMENT, "another plan", hp_finish(plan, ticket_of_other, STREAM));
    REFUSED(HP_ARGUMENT, "another plan", hp_ready(other, ticket, &ready));
    REFUSED(HP_ARGUMENT, "hp_start has given", hp_finish(plan, ticket + 1, STREAM));
    REFUSED(HP_ARGUMENT, "another plan", hp_finish(plan, 7, STREAM));
    REQUIRE(ready == 0);
    /* All is as it was. */
    REQUIRE(hp_ready(plan, ticket, &ready) == HP_OK);
    REQUIRE(hp_finish(plan, ticket, STREAM) == HP_OK && is_filled(values[0], rank, 1000));
    REQUIRE(hp_finish(other, ticket_of_other, STREAM) == HP_OK && is_filled(values[1], rank, 2000));
}

/* With one exchange in flight at most, tickets can be left out. */
static void one_at_once(hp_plan *plan, int rank) {
    double values[CELLS];
    void *data[] = {values};
    hp_ticket ticket;
    int32_t ready = 7;
    REFUSED(HP_IN_FLIGHT, "found none", hp_finish(plan, HP_NO_TICKET, STREAM));
    REFUSED(HP_IN_FLIGHT, "found none", hp_ready(plan, HP_NO_TICKET, &ready));
    REQUIRE(ready == 0);
    for (int step = 0; step < 3; step++) {
        fill(values, rank, step);
        REQUIRE(hp_start(plan, data, STREAM, step == 0 ? NULL : &ticket) == HP_OK);
        while (!ready) REQUIRE(hp_ready(plan, step == 2 ? ticket : HP_NO_TICKET, &ready) == HP_OK);
        REQUIRE(hp_finish(plan, step == 2 ? ticket : HP_NO_TICKET, STREAM) == HP_OK && is_filled(values, rank, step));
    }
    REFUSED(HP_ARGUMENT, "was finished", hp_finish(plan, ticket, STREAM));
}

/* Halo cells go to their owners, in two exchanges that are finished the other way round. */
static void accumulate(hp_pattern *pattern, int rank) {
    double values[2][CELLS];
    void *first[] = {values[0]}, *second[] = {values[1]};
    hp_array like = HP_ARRAY_INIT;
    hp_options options = HP_OPTIONS_INIT;
    hp_plan *plan;
    hp_ticket tickets[2];
    like.type = HP_F64, like.axes = 1, like.extent[0] = CELLS;
    options.accumulate = "mean";
    REFUSED(HP_ARGUMENT, "options.accumulate: expected sum, min, max or replace, found \"mean\"",
            hp_plan_create(pattern, 1, &like, NULL, &options, &plan));
    options.accumulate = "sum", options.zero_halo = 1, options.in_flight = 2;
    REQUIRE(hp_plan_create(pattern, 1, &like, NULL, &options, &plan) == HP_OK);
    for (int flight = 0; flight < 2; flight++)
        for (int cell = 0; cell < CELLS; cell++) values[flight][cell] = 100 * flight + 10 * rank + cell;
    REQUIRE(hp_start(plan, first, STREAM, &tickets[0]) == HP_OK && hp_start(plan, second, STREAM, &tickets[1]) == HP_OK);
    REQUIRE(hp_finish(plan, tickets[1], STREAM) == HP_OK && hp_finish(plan, tickets[0], STREAM) == HP_OK);
    for (int flight = 0; flight < 2; flight++) {
        const double own = 100 * flight + 10 * rank, other = 100 * flight + 10 * (1 - rank), *found = values[flight];
        REQUIRE(found[1] == own + 1 + other + CELLS - 1 && found[CELLS - 2] == own + CELLS - 2 + other);
        REQUIRE(found[2] == own + 2 && found[0] == 0 && found[CELLS - 1] == 0);
    }
    REQUIRE(hp_plan_free(plan) == HP_OK);
}

static void *participate(void *argument) {
    static const int orders[6][FLIGHTS] = {{0, 1, 2}, {0, 2, 1}, {1, 0, 2}, {1, 2, 0}, {2, 0, 1}, {2, 1, 0}};
    const participant *me = argument;
    const char *paths[] = {NULL, "messages"};
    hp_grid grid = HP_GRID_INIT;
    hp_pattern *pattern;
    grid.axes = 1, grid.cells[0] = RANKS * (CELLS - 2), grid.periodic[0] = 1, grid.halo_lower[0] = grid.halo_upper[0] = 1;
    REQUIRE(hp_pattern_grid(me->comm, &grid, HP_SPLIT, NULL, &pattern) == HP_OK);
    for (int path = 0; path < 2; path++) {
        hp_plan *plan = plan_of(pattern, FLIGHTS, paths[path]), *other = plan_of(pattern, 2, paths[path]);
        hp_plan *single = plan_of(pattern, 0, paths[path]);
        for (int order = 0; order < 6; order++) finish_in_order(plan, me->rank, orders[order], 1000 * order);
        refuse(plan, other, me->rank);
        one_at_once(single, me->rank);
        REQUIRE(hp_plan_free(plan) == HP_OK && hp_plan_free(other) == HP_OK && hp_plan_free(single) == HP_OK);
    }
    accumulate(pattern, me->rank);
    REQUIRE(hp_pattern_free(pattern) == HP_OK && hp_comm_free(me->comm) == HP_OK);
    return NULL;
}

int main(void) {
    participant participants[RANKS];
    pthread_t threads[RANKS];
    hp_comm *comms[RANKS];
    REQUIRE(hp_comm_threads(RANKS, comms) == HP_OK);
    for (int rank = 0; rank < RANKS; rank++) {
        participants[rank] = (participant){rank, comms[rank]};
        REQUIRE(pthread_create(&threads[rank], NULL, participate, &participants[rank]) == 0);
    }
    for (int rank = 0; rank < RANKS; rank++) pthread_join(threads[rank], NULL);
    return 0;
}
