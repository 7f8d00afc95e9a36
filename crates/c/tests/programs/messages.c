/*
 * Messages of any size, and payloads along a line of ranks: messages FIRST COUNT. Ranks are threads; compiled with -DWITH_MPI, at
 * most 4 processes of MPI. All ranks draw the messages of all ranks from the number of the case, so each knows what comes. Then calls
 * with wrong arguments on one rank or on all.
 */
#ifdef WITH_MPI
#include <mpi.h>
#endif
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "haloport.h"

#define fail(...)                                                      \
    do {                                                               \
        fprintf(stderr, "case %d, line %d: ", current, __LINE__);      \
        fprintf(stderr, __VA_ARGS__);                                  \
        fprintf(stderr, "\n");                                         \
        exit(1);                                                       \
    } while (0)
#define CHECK(call)                                \
    do {                                           \
        if ((call) != HP_OK) fail("%s", hp_message()); \
    } while (0)
#define REQUIRE(condition)                                                 \
    do {                                                                   \
        if (!(condition)) fail("%s is false: %s", #condition, hp_message()); \
    } while (0)
#define REFUSED(status, word, call)                                                              \
    do {                                                                                         \
        hp_status found_ = (call);                                                               \
        if (found_ != (status) || !strstr(hp_message(), word))                                   \
            fail("expected %d and \"%s\", found %d: %s", (int)(status), word, (int)found_, hp_message()); \
    } while (0)

enum { MOST_RANKS = 4, MOST_MESSAGES = 6, ROUNDS = 3, ANY = 0, BETWEEN = 1 };

static int current;

/* xorshift: the same numbers everywhere. */
static uint64_t draw(uint64_t *state) {
    *state ^= *state << 13, *state ^= *state >> 7, *state ^= *state << 17;
    return *state;
}
static int below(uint64_t *state, int end) { return (int)(draw(state) % (uint64_t)end); }

/* A generator for a part of a case. */
static uint64_t seeded(int number, int part, int round, int rank) {
    uint64_t within = (uint64_t)(part * 1009 + round * 31 + rank + 1);
    uint64_t state = 0x9E3779B97F4A7C15u * (uint64_t)(number + 1) ^ 0xD1342543DE82EF95u * within;
    state += state == 0;
    for (int i = 0; i < 8; i++) draw(&state);
    return state;
}

/* Mostly small, at times empty or larger than what MPI sends before the receiver asks for it. */
static int64_t draw_bytes(uint64_t *random) {
    int kind = below(random, 12);
    return kind < 2 ? 0 : kind == 2 ? 100000 + below(random, 200000) : 1 + below(random, 200);
}

static char byte_of(uint64_t seed, int64_t place) {
    return (char)((seed >> (place % 7)) + (uint64_t)place * 131 + (uint64_t)place / 251);
}

/* A copy of its own, of exactly that size: checkers of memory see what reads or writes beyond it. */
static char *content(uint64_t seed, int64_t bytes) {
    char *made = malloc(bytes > 0 ? (size_t)bytes : 1);
    for (int64_t place = 0; place < bytes; place++) made[place] = byte_of(seed, place);
    return made;
}

static void check_content(const void *found, int64_t bytes, uint64_t seed) {
    const char *data = found;
    REQUIRE((data == NULL) == (bytes == 0));
    /* As memory of malloc is. */
    REQUIRE(bytes < 16 || (uintptr_t)data % 16 == 0);
    for (int64_t place = 0; place < bytes; place++)
        if (data[place] != byte_of(seed, place)) fail("byte %lld of %lld is another one", (long long)place, (long long)bytes);
}

/* What all ranks of a case know: their number, and to which ranks each sends between fixed neighbours. */
typedef struct shared {
    int number, ranks, sends[MOST_RANKS][MOST_RANKS], cuts[MOST_RANKS + 1], even;
} shared;

typedef struct participant {
    shared of;
    int rank;
    hp_comm *comm;
} participant;

typedef struct sent {
    int to;
    int64_t bytes;
    uint64_t seed;
} sent;

/* `ranks` is 0 if the case may have any number of ranks. */
static shared draw_shared(int number, int ranks) {
    uint64_t random = seeded(number, 0, 0, 0);
    shared made;
    memset(&made, 0, sizeof made);
    made.number = number;
    made.ranks = 1 + below(&random, MOST_RANKS);
    if (ranks > 0) made.ranks = ranks;
    for (int from = 0; from < made.ranks; from++)
        for (int to = 0; to < made.ranks; to++) made.sends[from][to] = below(&random, 2);
    made.even = below(&random, 3) == 0;
    made.cuts[0] = 0;
    for (int rank = 0; rank < made.ranks; rank++) made.cuts[rank + 1] = made.cuts[rank] + (below(&random, 3) ? below(&random, 9) : 0);
    return made;
}

/* The messages of a rank in a round, in the order in which it sends them. */
static int draw_messages(const shared *of, int exchange, int round, int rank, sent *made) {
    uint64_t random = seeded(of->number, 1 + exchange, round, rank);
    int count = below(&random, 3) == 0 ? 0 : 1 + below(&random, MOST_MESSAGES), kept = 0;
    for (int message = 0; message < count; message++) {
        sent one;
        one.to = below(&random, of->ranks), one.bytes = draw_bytes(&random), one.seed = draw(&random);
        if (exchange == ANY || of->sends[rank][one.to]) made[kept++] = one;
    }
    return kept;
}

/* The arguments of a start, and what they point to. */
typedef struct letters {
    int count;
    int32_t to[MOST_MESSAGES];
    int64_t bytes[MOST_MESSAGES];
    const void *data[MOST_MESSAGES];
    char *owned[MOST_MESSAGES];
} letters;

static letters letters_of(const participant *me, int exchange, int round) {
    sent list[MOST_MESSAGES];
    letters made;
    made.count = draw_messages(&me->of, exchange, round, me->rank, list);
    for (int place = 0; place < made.count; place++) {
        made.to[place] = list[place].to, made.bytes[place] = list[place].bytes;
        made.data[place] = made.owned[place] = content(list[place].seed, list[place].bytes);
    }
    return made;
}

/* The library has copied them. */
static void spoil(letters *of) {
    for (int place = 0; place < of->count; place++) {
        memset(of->owned[place], 0x5A, (size_t)of->bytes[place]);
        free(of->owned[place]);
        of->to[place] = -7;
    }
}

typedef struct arrived {
    int64_t count;
    const hp_received *messages;
} arrived;

/* Compares what has come with what all ranks have sent to this one. */
static void check_arrived(const participant *me, int exchange, int round, arrived it) {
    int64_t next = 0;
    for (int sender = 0; sender < me->of.ranks; sender++) {
        sent list[MOST_MESSAGES];
        int count = draw_messages(&me->of, exchange, round, sender, list);
        for (int place = 0; place < count; place++) {
            if (list[place].to != me->rank) continue;
            if (next == it.count) fail("rank %d: found %d messages, expected more", me->rank, (int)it.count);
            const hp_received *one = &it.messages[next++];
            if (one->rank != sender || one->bytes != list[place].bytes)
                fail("rank %d: expected %lld bytes of rank %d, found %lld of rank %d", me->rank, (long long)list[place].bytes, sender,
                     (long long)one->bytes, (int)one->rank);
            check_content(one->data, one->bytes, list[place].seed);
        }
    }
    if (next != it.count) fail("rank %d: expected %d messages, found %d", me->rank, (int)next, (int)it.count);
    REQUIRE((it.messages == NULL) == (it.count == 0));
}

static void start(const participant *me, hp_sparse *sparse, int exchange, int round) {
    letters mine = letters_of(me, exchange, round);
    CHECK(hp_sparse_start(sparse, mine.count, mine.to, mine.bytes, mine.data));
    spoil(&mine);
}

static void await(hp_sparse *sparse) {
    int32_t ready = 0;
    while (!ready) CHECK(hp_sparse_ready(sparse, &ready));
}

/* Sends what has come back to its senders, from where it lies. */
static void send_back(const participant *me, hp_sparse *sparse, arrived came) {
    int32_t *to = malloc(((size_t)came.count + 1) * sizeof *to);
    int64_t *bytes = malloc(((size_t)came.count + 1) * sizeof *bytes), next = 0;
    const void **data = malloc(((size_t)came.count + 1) * sizeof *data);
    for (int64_t place = 0; place < came.count; place++)
        to[place] = came.messages[place].rank, bytes[place] = came.messages[place].bytes, data[place] = came.messages[place].data;
    CHECK(hp_sparse_exchange(sparse, came.count, to, bytes, data, &came.count, &came.messages));
    free(to), free(bytes), free(data);
    /* The messages that this rank has sent, in the order of their receivers. */
    sent list[MOST_MESSAGES];
    int count = draw_messages(&me->of, ANY, ROUNDS - 1, me->rank, list);
    REQUIRE(came.count == count);
    for (int receiver = 0; receiver < me->of.ranks; receiver++)
        for (int place = 0; place < count; place++) {
            if (list[place].to != receiver) continue;
            REQUIRE(came.messages[next].rank == receiver && came.messages[next].bytes == list[place].bytes);
            check_content(came.messages[next].data, came.messages[next].bytes, list[place].seed);
            next++;
        }
}

static hp_sparse *between(const participant *me, uint64_t *random) {
    hp_sparse *made;
    int32_t to[MOST_RANKS], come_from[MOST_RANKS];
    int receivers = 0, senders = 0;
    /* In any order. */
    int first = below(random, me->of.ranks);
    for (int step = 0; step < me->of.ranks; step++) {
        int other = (first + step) % me->of.ranks;
        if (me->of.sends[me->rank][other]) to[receivers++] = other;
        if (me->of.sends[other][me->rank]) come_from[senders++] = other;
    }
    CHECK(hp_sparse_between(me->comm, senders, senders ? come_from : NULL, receivers, receivers ? to : NULL, &made));
    return made;
}

static void exchange_messages(const participant *me, uint64_t *random) {
    hp_sparse *exchanges[2];
    arrived came[2] = {{0, NULL}, {0, NULL}};
    CHECK(hp_sparse_create(me->comm, &exchanges[ANY]));
    exchanges[BETWEEN] = between(me, random);
    for (int round = 0; round < ROUNDS; round++) {
        /* Each rank chooses for itself. */
        int manner = below(random, 3), first = below(random, 2);
        for (int exchange = 0; exchange < 2 && manner == 0; exchange++) {
            letters mine = letters_of(me, exchange, round);
            CHECK(hp_sparse_exchange(exchanges[exchange], mine.count, mine.to, mine.bytes, mine.data, &came[exchange].count,
                                     &came[exchange].messages));
            spoil(&mine);
        }
        for (int exchange = 0; exchange < 2 && manner > 0; exchange++) start(me, exchanges[exchange], exchange, round);
        for (int place = 0; place < 2 && manner > 0; place++) {
            int exchange = place == 0 ? first : 1 - first;
            if (manner == 2) await(exchanges[exchange]);
            /* Those of the round before are there until now. */
            if (round > 0) check_arrived(me, exchange, round - 1, came[exchange]);
            CHECK(hp_sparse_finish(exchanges[exchange], &came[exchange].count, &came[exchange].messages));
        }
        for (int exchange = 0; exchange < 2; exchange++) check_arrived(me, exchange, round, came[exchange]);
    }
    send_back(me, exchanges[ANY], came[ANY]);
    for (int exchange = 0; exchange < 2; exchange++) CHECK(hp_sparse_free(exchanges[exchange]));
}

/* The payload that a rank sends to a side, 0 for the left, in a round. */
static sent draw_payload(const shared *of, int round, int rank, int side) {
    uint64_t random = seeded(of->number, 3 + side, round, rank);
    sent made;
    made.to = rank + (side ? 1 : -1);
    made.bytes = below(&random, 4) == 0 ? HP_NO_PAYLOAD : draw_bytes(&random), made.seed = draw(&random);
    return made;
}

/* Compares what has come from a rank, which sent it to that side. */
static void check_payload(const shared *of, int round, int rank, int side, hp_payload found) {
    sent expected = draw_payload(of, round, rank, side);
    int64_t bytes = rank < 0 || rank >= of->ranks ? HP_NO_PAYLOAD : expected.bytes;
    if (found.bytes != bytes) fail("expected a payload of %lld bytes, found %lld", (long long)bytes, (long long)found.bytes);
    if (bytes >= 0) check_content(found.data, bytes, expected.seed);
}

static void pass_payloads(const participant *me, uint64_t *random) {
    const shared *of = &me->of;
    const hp_payload none = {HP_NO_PAYLOAD, NULL};
    int64_t lower, upper, items, all = of->cuts[of->ranks];
    int32_t left, right, ready;
    hp_payload came[2] = {none, none};
    hp_line *line;
    if (of->even)
        CHECK(hp_line_even(me->comm, all, &line));
    else
        CHECK(hp_line_create(me->comm, of->cuts[me->rank], of->cuts[me->rank + 1], &line));
    CHECK(hp_line_items(line, &lower, &upper, &items));
    CHECK(hp_line_neighbours(line, &left, &right));
    int64_t each = all / of->ranks, more = all % of->ranks, rank = me->rank;
    REQUIRE(items == all && left == me->rank - 1 && right == (me->rank + 1 < of->ranks ? me->rank + 1 : -1));
    REQUIRE(lower == (of->even ? rank * each + (rank < more ? rank : more) : of->cuts[rank]));
    REQUIRE(upper == (of->even ? lower + each + (rank < more) : of->cuts[rank + 1]));
    for (int round = 0; round < ROUNDS; round++) {
        int manner = below(random, 3);
        hp_payload given[2];
        char *owned[2];
        for (int side = 0; side < 2; side++) {
            sent it = draw_payload(of, round, me->rank, side);
            owned[side] = content(it.seed, it.bytes);
            given[side].bytes = it.bytes, given[side].data = it.bytes > 0 ? owned[side] : NULL;
        }
        if (manner == 0)
            CHECK(hp_line_exchange(line, given[0], given[1], &came[0], &came[1]));
        else
            CHECK(hp_line_start(line, given[0], given[1]));
        for (int side = 0; side < 2; side++) {
            if (given[side].bytes > 0) memset(owned[side], 0x5A, (size_t)given[side].bytes);
            free(owned[side]);
        }
        if (manner > 0) {
            for (ready = 0; manner == 2 && !ready;) CHECK(hp_line_ready(line, &ready));
            /* Those of the round before are there until now. */
            for (int side = 0; side < 2 && round > 0; side++)
                check_payload(of, round - 1, me->rank + (side ? 1 : -1), 1 - side, came[side]);
            CHECK(hp_line_finish(line, &came[0], &came[1]));
        }
        for (int side = 0; side < 2; side++) check_payload(of, round, me->rank + (side ? 1 : -1), 1 - side, came[side]);
    }
    /* What has come is passed on from where it lies, until it has gone to all ranks behind. */
    char *own = content((uint64_t)me->rank + 1, 5 + me->rank);
    hp_payload next = {5 + me->rank, own};
    for (int step = 0; step < of->ranks; step++) {
        int origin = me->rank - 1 - step;
        CHECK(hp_line_exchange(line, none, next, &next, NULL));
        REQUIRE(next.bytes == (origin >= 0 ? 5 + origin : HP_NO_PAYLOAD));
        if (origin >= 0) check_content(next.data, next.bytes, (uint64_t)origin + 1);
    }
    free(own);
    CHECK(hp_line_free(line));
}

static void *participate(void *argument) {
    const participant *me = argument;
    uint64_t random = seeded(me->of.number, 9, 0, me->rank);
    exchange_messages(me, &random);
    pass_payloads(me, &random);
    CHECK(hp_comm_free(me->comm));
    return NULL;
}

/* --- Wrong arguments --- */

/* A collective call that only rank 0 makes wrongly: all learn of it. */
#define REFUSED_BY_ALL(word, call) REFUSED(me->rank == 0 ? HP_ARGUMENT : HP_REFUSED, word, call)

static void refuse_to_make(const participant *me) {
    int wrong = me->rank == 0;
    int32_t last = me->of.ranks - 1, ranks = me->of.ranks, self = me->rank, negative = -1, twice[] = {me->rank, me->rank};
    hp_sparse *sparse = NULL;
    hp_line *line = NULL;
    REFUSED_BY_ALL("sparse: expected a place", hp_sparse_create(me->comm, wrong ? NULL : &sparse));
    REFUSED_BY_ALL("source_count: expected", hp_sparse_between(me->comm, wrong ? -1 : 1, &self, 1, &self, &sparse));
    REFUSED_BY_ALL("destination_count: expected", hp_sparse_between(me->comm, 1, &self, wrong ? -1 : 1, &self, &sparse));
    REFUSED_BY_ALL("sources: expected an array", hp_sparse_between(me->comm, 1, wrong ? NULL : &self, 1, &self, &sparse));
    REFUSED_BY_ALL("destinations[0]: expected one of the", hp_sparse_between(me->comm, 1, &self, 1, wrong ? &negative : &self, &sparse));
    REFUSED_BY_ALL("items: expected", hp_line_even(me->comm, wrong ? -1 : 5, &line));
    REFUSED_BY_ALL("lower: expected", hp_line_create(me->comm, wrong ? -1 : 0, wrong ? 1 : 0, &line));
    REFUSED_BY_ALL("line: expected a place", hp_line_create(me->comm, 0, 0, wrong ? NULL : &line));
    REFUSED_BY_ALL("sources[0]: expected one of the", hp_sparse_between(me->comm, 1, wrong ? &ranks : &self, 1, &self, &sparse));
    REFUSED_BY_ALL("sources: expected each rank once, found rank 0 twice",
                   hp_sparse_between(me->comm, wrong ? 2 : 1, twice, 1, &self, &sparse));
    /* All ranks have the same text. */
    REFUSED(HP_REFUSED, "which does not send to it", hp_sparse_between(me->comm, wrong, &last, 0, NULL, &sparse));
    REFUSED(HP_REFUSED, "rank 0: its interval 3..2 ends before", hp_line_create(me->comm, wrong ? 3 : 2, 2, &line));
    REFUSED(HP_REFUSED, "rank 0: its interval 1..3 should begin at 0", hp_line_create(me->comm, wrong ? 1 : 3, 3, &line));
    if (ranks > 1) {
        /* Ranks that make different things. */
        hp_status status = wrong ? hp_sparse_create(me->comm, &sparse) : hp_sparse_between(me->comm, 0, NULL, 0, NULL, &sparse);
        REQUIRE(status == HP_REFUSED && sparse == NULL);
        status = wrong ? hp_sparse_create(me->comm, &sparse) : hp_line_even(me->comm, 3, &line);
        REQUIRE(status == HP_REFUSED);
        REFUSED(HP_REFUSED, "", hp_line_even(me->comm, wrong ? 3 : 4, &line));
    }
    REQUIRE(sparse == NULL && line == NULL);
}

/* A start that is refused is none: the next one is of the same round. */
static void refuse_to_start(const participant *me) {
    int32_t to[] = {me->rank, me->of.ranks}, from_self = me->rank;
    int64_t bytes[] = {3, -1}, count = 7;
    const void *data[] = {"abc", NULL};
    const hp_received *came = (const hp_received *)&to;
    int32_t ready = 7;
    hp_sparse *sparse;
    CHECK(hp_sparse_between(me->comm, 1, &from_self, 1, &from_self, &sparse));
    REFUSED(HP_IN_FLIGHT, "start one first", hp_sparse_finish(sparse, &count, &came));
    REQUIRE(count == 0 && came == NULL);
    CHECK(hp_sparse_ready(sparse, &ready)); /* it would not wait */
    REQUIRE(ready == 1);
    count = 7;
    REFUSED(HP_ARGUMENT, "messages: expected", hp_sparse_exchange(sparse, -1, to, bytes, data, &count, &came));
    REQUIRE(count == 0);
    REFUSED(HP_ARGUMENT, "destinations: expected an array", hp_sparse_start(sparse, 1, NULL, bytes, data));
    REFUSED(HP_ARGUMENT, "bytes: expected an array", hp_sparse_start(sparse, 1, to, NULL, data));
    REFUSED(HP_ARGUMENT, "data: expected an array", hp_sparse_start(sparse, 1, to, bytes, NULL));
    REFUSED(HP_ARGUMENT, "destinations[1]: expected one of the", hp_sparse_start(sparse, 2, to, bytes, data));
    to[1] = -1;
    REFUSED(HP_ARGUMENT, "destinations[1]: expected one of the", hp_sparse_start(sparse, 2, to, bytes, data));
    to[1] = me->rank;
    REFUSED(HP_ARGUMENT, "bytes[1]: expected", hp_sparse_start(sparse, 2, to, bytes, data));
    bytes[1] = 1;
    REFUSED(HP_ARGUMENT, "data[1]: expected", hp_sparse_start(sparse, 2, to, bytes, data));
    if (me->of.ranks > 1) {
        to[0] = (me->rank + 1) % me->of.ranks;
        REFUSED(HP_ARGUMENT, "is not among the destinations", hp_sparse_start(sparse, 1, to, bytes, data));
        to[0] = me->rank;
    }
    CHECK(hp_sparse_start(sparse, 1, to, bytes, data));
    REFUSED(HP_IN_FLIGHT, "finish it first", hp_sparse_start(sparse, 1, to, bytes, data));
    REFUSED(HP_IN_FLIGHT, "finish it first", hp_sparse_exchange(sparse, 1, to, bytes, data, &count, &came));
    CHECK(hp_sparse_finish(sparse, &count, &came));
    REQUIRE(count == 1 && came[0].rank == me->rank && came[0].bytes == 3 && memcmp(came[0].data, "abc", 3) == 0);
    /* Results are there although later calls fail, and nobody needs to take them. */
    REFUSED(HP_ARGUMENT, "destinations: expected an array", hp_sparse_start(sparse, 1, NULL, bytes, data));
    REQUIRE(memcmp(came[0].data, "abc", 3) == 0);
    CHECK(hp_sparse_exchange(sparse, 1, to, bytes, data, NULL, NULL));
    CHECK(hp_sparse_exchange(sparse, 0, NULL, NULL, NULL, &count, &came));
    REQUIRE(count == 0 && came == NULL);
    CHECK(hp_sparse_free(sparse));
    REFUSED(HP_ARGUMENT, "freed", hp_sparse_start(sparse, 0, NULL, NULL, NULL));
}

static void refuse_to_pass(const participant *me) {
    const hp_payload none = {HP_NO_PAYLOAD, NULL}, negative = {-2, "abc"}, missing = {3, NULL}, empty = {0, NULL};
    hp_payload left = missing, right = missing;
    hp_line *line;
    CHECK(hp_line_even(me->comm, 2, &line));
    REFUSED(HP_IN_FLIGHT, "start one first", hp_line_finish(line, &left, &right));
    REQUIRE(left.bytes == HP_NO_PAYLOAD && right.bytes == HP_NO_PAYLOAD);
    /* Also at the ends of the line, where they are dropped. */
    REFUSED(HP_ARGUMENT, "left.bytes: expected", hp_line_start(line, negative, none));
    REFUSED(HP_ARGUMENT, "right.bytes: expected", hp_line_exchange(line, none, negative, &left, &right));
    REFUSED(HP_ARGUMENT, "left.data: expected", hp_line_start(line, missing, none));
    REFUSED(HP_ARGUMENT, "right.data: expected", hp_line_start(line, none, missing));
    CHECK(hp_line_start(line, empty, none));
    REFUSED(HP_IN_FLIGHT, "finish it first", hp_line_start(line, none, none));
    CHECK(hp_line_finish(line, NULL, &right));
    REQUIRE(right.bytes == (me->rank + 1 < me->of.ranks ? 0 : HP_NO_PAYLOAD));
    CHECK(hp_line_start(line, none, none));
    CHECK(hp_line_free(line)); /* in flight */
    REFUSED(HP_ARGUMENT, "freed", hp_line_start(line, none, none));
}

/* A rank that frees an exchange in a round takes part in it: the others get their messages. */
static void free_in_flight(const participant *me) {
    int32_t to[] = {(me->rank + 1) % me->of.ranks};
    int64_t bytes[] = {4}, count;
    const void *data[] = {"last"};
    const hp_received *came;
    hp_sparse *sparse;
    CHECK(hp_sparse_create(me->comm, &sparse));
    CHECK(hp_sparse_start(sparse, 1, to, bytes, data));
    if (me->rank > 0) {
        CHECK(hp_sparse_finish(sparse, &count, &came));
        REQUIRE(count == 1 && came[0].rank == me->rank - 1 && memcmp(came[0].data, "last", 4) == 0);
    }
    CHECK(hp_sparse_free(sparse));
}

#ifdef WITH_MPI
enum { THREADS = 0 };
#else
enum { THREADS = 1 };
#endif

/* The round and the exchange of a rank that waits in vain fail for good. */
static void time_out(const participant *me) {
    hp_sparse *sparse;
    hp_pattern *pattern;
    hp_plan *plan;
    double cells[6] = {0};
    void *data[] = {cells};
    int32_t ready = 0;
    hp_grid grid = HP_GRID_INIT;
    hp_array like = HP_ARRAY_INIT;
    grid.axes = 1, grid.cells[0] = 4 * me->of.ranks, grid.halo_lower[0] = grid.halo_upper[0] = 1, grid.periodic[0] = 1;
    like.type = HP_F64, like.axes = 1, like.extent[0] = 6;
    CHECK(hp_pattern_grid(me->comm, &grid, HP_SPLIT, NULL, &pattern));
    CHECK(hp_plan_create(pattern, 1, &like, NULL, NULL, &plan));
    CHECK(hp_sparse_create(me->comm, &sparse));
    CHECK(hp_comm_barrier(me->comm));
    CHECK(hp_comm_set_time_limit(me->comm, 0.05));
    if (me->rank == 0 && me->of.ranks > 1) {
        REFUSED(HP_TIME_LIMIT, "time limit", hp_exchange(plan, data, (hp_stream){HP_DEFAULT, 0, 0}));
        REFUSED(HP_POISONED, "free the plan and make it again, on all ranks", hp_exchange(plan, data, (hp_stream){HP_DEFAULT, 0, 0}));
    }
    if (me->rank == 0 && me->of.ranks > 1) {
        REFUSED(HP_TIME_LIMIT, "time limit", hp_sparse_exchange(sparse, 0, NULL, NULL, NULL, NULL, NULL));
        REFUSED(HP_POISONED, "poisoned", hp_sparse_start(sparse, 0, NULL, NULL, NULL));
        REFUSED(HP_IN_FLIGHT, "start one first", hp_sparse_finish(sparse, NULL, NULL));
        CHECK(hp_sparse_ready(sparse, &ready));
        REQUIRE(ready == 1);
    }
    CHECK(hp_comm_set_time_limit(me->comm, 20));
    CHECK(hp_comm_barrier(me->comm));
    CHECK(hp_sparse_free(sparse));
    CHECK(hp_plan_free(plan));
    CHECK(hp_pattern_free(pattern));
}

static void *refuse(void *argument) {
    const participant *me = argument;
    refuse_to_make(me);
    refuse_to_start(me);
    refuse_to_pass(me);
    free_in_flight(me);
    /* A round that is given up leaves messages in MPI, and some MPIs warn of them. */
    if (THREADS) time_out(me);
    CHECK(hp_comm_free(me->comm));
    return NULL;
}

#ifdef WITH_MPI
static int ranks_of_job(void) {
    int ranks;
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    if (ranks > MOST_RANKS) fail("expected at most %d ranks, found %d", MOST_RANKS, ranks);
    return ranks;
}

static void run(const shared *of, void *(*body)(void *)) {
    participant me = {*of, 0, NULL};
    MPI_Comm world = MPI_COMM_WORLD;
    MPI_Comm_rank(world, &me.rank);
    CHECK(hp_comm_mpi(&world, sizeof world, &me.comm));
    body(&me);
}
#else
static int ranks_of_job(void) { return 0; }

static void run(const shared *of, void *(*body)(void *)) {
    participant ranks[MOST_RANKS];
    hp_comm *comms[MOST_RANKS];
    pthread_t threads[MOST_RANKS];
    CHECK(hp_comm_threads(of->ranks, comms));
    for (int rank = 0; rank < of->ranks; rank++) {
        participant made = {*of, rank, comms[rank]};
        ranks[rank] = made;
        if (pthread_create(&threads[rank], NULL, body, &ranks[rank]) != 0) fail("no thread");
    }
    for (int rank = 0; rank < of->ranks; rank++) pthread_join(threads[rank], NULL);
}
#endif

int main(int arguments, char **argument) {
    int first = arguments > 1 ? atoi(argument[1]) : 0, count = arguments > 2 ? atoi(argument[2]) : 100;
#ifdef WITH_MPI
    MPI_Init(&arguments, &argument);
#endif
    int ranks = ranks_of_job();
    for (current = first; current < first + count; current++) {
        shared of = draw_shared(current, ranks);
        run(&of, participate);
    }
    for (int number = 1; number <= 3; number++) {
        shared of = draw_shared(number, ranks > 0 ? ranks : number);
        run(&of, refuse);
    }
#ifdef WITH_MPI
    MPI_Finalize();
#endif
    printf("%d cases of messages\n", count);
    return 0;
}
