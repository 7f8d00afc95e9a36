/* Exact sums: the same on 1 to 3 ranks, and those that are known; NaN, infinities, weights, masks, calls that are refused, and
 * programs that have the processor round otherwise. */
#include <fenv.h>
#include <float.h>
#include <math.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#if defined __SSE2__
#include <immintrin.h>
#endif

#include "haloport.h"

#define REQUIRE(condition)                                                                          \
    do {                                                                                            \
        if (!(condition)) {                                                                         \
            fprintf(stderr, "line %d: %s: %s (%d ranks)\n", __LINE__, #condition, hp_message(), ranks); \
            exit(1);                                                                                \
        }                                                                                           \
    } while (0)

enum { MOST_RANKS = 3, TERMS = 3000, SUMS = 4 };

static int ranks;
static hp_comm *comms[MOST_RANKS];
static double terms[TERMS], weights[TERMS];
static float narrow[TERMS];
/* The same terms with a NaN behind each, and the mask that leaves these out. */
static double gaps[2 * TERMS];
static uint8_t no_gap[2 * TERMS];
/* The bits of the sums on one rank. */
static uint64_t on_one[SUMS];

static uint64_t bits_of(double value) {
    uint64_t bits;
    memcpy(&bits, &value, sizeof bits);
    return bits;
}

/* Terms of very different sizes and both signs. */
static void draw_terms(void) {
    uint64_t state = 42;
    for (int term = 0; term < TERMS; term++) {
        state ^= state << 13, state ^= state >> 7, state ^= state << 17;
        double mantissa = (double)(state >> 11) / 9007199254740992.0 - 0.5;
        terms[term] = ldexp(mantissa, (int)(state % 400) - 200);
        narrow[term] = (float)ldexp(mantissa, (int)(state % 60) - 30);
        weights[term] = 1 + mantissa;
        gaps[2 * term] = terms[term], gaps[2 * term + 1] = NAN, no_gap[2 * term] = 1;
    }
}

/* The sum of this rank's values, of other ranks none. */
static double sum_of(hp_comm *comm, int64_t count, const double *values) {
    double sum = 0;
    const void *at = values;
    REQUIRE(hp_comm_sum_exact(comm, HP_F64, 1, &count, &at, NULL, NULL, &sum) == HP_OK);
    return sum;
}

/* Cells of the ocean alone count: elsewhere are a NaN, an infinity and a fill value, which no weight removes. */
static void leave_out(hp_comm *comm, int32_t rank) {
    enum { CELLS = 8 };
    double heat[CELLS], area[CELLS], sums[4];
    float salt[CELLS], of_salt[CELLS];
    uint8_t wet[CELLS], dry[CELLS] = {0};
    for (int cell = 0; cell < CELLS; cell++) {
        heat[cell] = cell + 8.0 * rank, area[cell] = 0.5, salt[cell] = 0.25f * (float)cell, of_salt[cell] = 2;
        wet[cell] = (uint8_t)(cell % 4 == 1 ? 0 : 1 + 100 * (cell % 3));
    }
    heat[1] = NAN, heat[5] = 1e20, area[5] = INFINITY, salt[1] = -INFINITY, salt[5] = NAN, of_salt[5] = 0;
    const int64_t counts[] = {CELLS, CELLS, CELLS, 0};
    const void *const values[] = {heat, heat, heat, NULL}, *const weights[] = {NULL, area, area, NULL};
    const uint8_t *const masks[] = {wet, wet, dry, NULL};
    REQUIRE(hp_comm_sum_exact(comm, HP_F64, 4, counts, values, weights, masks, sums) == HP_OK);
    /* 0 + 2 + 3 + 4 + 6 + 7 = 22 of each rank, and 6 cells of 8 times its number. */
    const double expected = 22 * ranks + 48 * ranks * (ranks - 1) / 2;
    REQUIRE(sums[0] == expected && sums[1] == expected / 2 && bits_of(sums[2]) == 0 && bits_of(sums[3]) == 0);
    const void *const narrow_values[] = {salt, salt, salt, salt}, *const narrow_weights[] = {NULL, of_salt, NULL, of_salt};
    const uint8_t *const some[] = {wet, wet, NULL, NULL};
    const int64_t all[] = {CELLS, CELLS, CELLS, CELLS};
    REQUIRE(hp_comm_sum_exact(comm, HP_F32, 4, all, narrow_values, narrow_weights, some, sums) == HP_OK);
    REQUIRE(sums[0] == 5.5 * ranks && sums[1] == 11 * ranks && isnan(sums[2]) && isnan(sums[3]));
    const int64_t length = rank == 0 ? 2 * TERMS : 0;
    const void *const at = gaps;
    const uint8_t *const of_gaps = no_gap;
    REQUIRE(hp_comm_sum_exact(comm, HP_F64, 1, &length, &at, NULL, &of_gaps, sums) == HP_OK && bits_of(sums[0]) == on_one[0]);
}

/* Large numbers that cancel, beside numbers whose last bits are the smallest floats and the smallest floats themselves, or beside
 * larger ones: on one rank, in all directions of rounding, and where floats below the normal ones are taken for 0. */
static void round_otherwise(hp_comm *comm) {
    enum { EACH = 1000 };
    static double values[EACH][5], normal[EACH][3];
    for (int number = 1; number <= EACH; number++) {
        double *these = values[number - 1];
        const double some = terms[number], little = 0x1p-1000;
        these[0] = some, these[1] = -some, these[2] = little * (1 + number * DBL_EPSILON), these[3] = -little;
        these[4] = ldexp(number, -1074);
        normal[number - 1][0] = some, normal[number - 1][1] = -some, normal[number - 1][2] = ldexp(number, -300);
    }
    /* 1 + 2 + ... + 1000, of 2^-1052 and of 2^-1074. */
    const uint64_t expected = bits_of(ldexp(500500.0 * (1 + 0x1p22), -1074));
    const int directions[] = {FE_TONEAREST, FE_UPWARD, FE_DOWNWARD, FE_TOWARDZERO};
    for (int direction = 0; direction < 4; direction++) {
        REQUIRE(fesetround(directions[direction]) == 0);
        REQUIRE(sum_of(comm, EACH * 3, normal[0]) == ldexp(500500, -300));
        REQUIRE(bits_of(sum_of(comm, EACH * 5, values[0])) == expected);
    }
    fesetround(FE_TONEAREST);
#if defined __SSE2__
    const unsigned before = _mm_getcsr();
    /* As -ffast-math does: results (15) and arguments (6). */
    _mm_setcsr(before | 1u << 15 | 1u << 6);
    const uint64_t found = bits_of(sum_of(comm, EACH * 5, values[0]));
    _mm_setcsr(before);
    REQUIRE(found == expected);
#endif
}

static void *rank_of(void *argument) {
    hp_comm *comm = argument;
    int32_t rank;
    REQUIRE(hp_comm_rank(comm, &rank) == HP_OK);
    /* Shares of different sizes; the last of three ranks has none. */
    int first = rank == 0 ? 0 : rank == 1 ? 17 : TERMS, end = rank == 0 && ranks > 1 ? 17 : TERMS;
    const int64_t counts[] = {end - first, end - first, 0};
    const void *const values[] = {terms + first, terms + first, NULL};
    const void *const by[] = {NULL, weights + first, NULL};
    double sums[SUMS] = {1, 1, 1, 1};
    REQUIRE(hp_comm_sum_exact(comm, HP_F64, 3, counts, values, by, NULL, sums) == HP_OK);
    const void *const of_narrow = narrow + first;
    REQUIRE(hp_comm_sum_exact(comm, HP_F32, 1, counts, &of_narrow, NULL, NULL, &sums[3]) == HP_OK);
    for (int sum = 0; sum < SUMS; sum++) {
        if (ranks == 1) on_one[sum] = bits_of(sums[sum]);
        REQUIRE(bits_of(sums[sum]) == on_one[sum]);
    }
    REQUIRE(on_one[2] == 0 && on_one[0] != on_one[1] && fabs(sums[3]) > 0);

    /* Large terms that cancel, over the ranks. */
    const double cancel[] = {1e100, 1, 0x1p-600, -1e100, 0x1p-53, 0};
    int share = 6 / ranks;
    REQUIRE(sum_of(comm, share, cancel + share * rank) == 1 + DBL_EPSILON);
    /* Products are not rounded: (1 + e)(1 - e) - 1 = -e^2. */
    const double left[] = {1 + 0x1p-30, -1}, right[] = {1 - 0x1p-30, 1};
    int64_t two = rank == 0 ? 2 : 0;
    const void *const a = left, *const b = right;
    double sum;
    REQUIRE(hp_comm_sum_exact(comm, HP_F64, 1, &two, &a, &b, NULL, &sum) == HP_OK && sum == -0x1p-60);
    const double large[] = {DBL_MAX, DBL_MAX, -DBL_MAX}, infinite[] = {INFINITY, 1}, both[] = {INFINITY, -INFINITY};
    const double not_a_number = NAN;
    REQUIRE(sum_of(comm, rank == 0 ? 3 : 0, large) == DBL_MAX);
    REQUIRE(isinf(sum_of(comm, rank == 0 ? 2 : 0, large)));
    REQUIRE(isinf(sum_of(comm, rank == 0 ? 2 : 0, infinite)));
    REQUIRE(isnan(sum_of(comm, rank == 0 ? 2 : 0, both)));
    REQUIRE(isnan(sum_of(comm, rank == ranks - 1, &not_a_number)));

    leave_out(comm, rank);
    if (ranks == 1) round_otherwise(comm);

    /* In place. */
    double own = 3;
    const void *const of_own = &own;
    int64_t single = 1;
    REQUIRE(hp_comm_sum_exact(comm, HP_F64, 1, &single, &of_own, NULL, NULL, &own) == HP_OK && own == 3 * ranks);

    /* Wrong arguments of rank 0; the others find that it does not sum. */
    const hp_status mine = rank == 0 ? HP_ARGUMENT : HP_REFUSED;
    int64_t one = 1, negative = -1;
    const void *const at = left, *const nothing = NULL;
#define WRONG(text, number, counts, values, weights, sums)                                                       \
    do {                                                                                                         \
        hp_status found = rank == 0 ? hp_comm_sum_exact(comm, HP_F64, number, counts, values, weights, NULL, sums) \
                                    : hp_comm_sum_exact(comm, HP_F64, 1, &one, &at, NULL, NULL, &sum);             \
        REQUIRE(found == mine && strstr(hp_message(), rank == 0 ? text : "out of step"));                        \
    } while (0)
    WRONG("number: expected a number of 0 or more, found -1", -1, &one, &at, NULL, &sum);
    WRONG("counts[0]: expected a number of 0 or more, found -1", 1, &negative, &at, NULL, &sum);
    REQUIRE(isnan(sum));
    WRONG("values[0]: expected an array of 1 elements, found null", 1, &one, &nothing, NULL, &sum);
    WRONG("counts: expected an array", 1, NULL, &at, NULL, &sum);
    WRONG("values: expected an array", 1, &one, NULL, NULL, &sum);
    WRONG("sums: expected an array", 1, &one, &at, NULL, NULL);
    hp_status found = hp_comm_sum_exact(comm, rank == 0 ? HP_I64 : HP_F64, 1, &one, &at, NULL, NULL, &sum);
    REQUIRE(found == mine && strstr(hp_message(), rank > 0 ? "out of step" : "type: expected HP_F32 or HP_F64, found 4"));
    sum = 1;
    REQUIRE(hp_comm_sum_exact(NULL, HP_F64, 1, &one, &at, NULL, NULL, &sum) == HP_ARGUMENT && isnan(sum));
    REQUIRE(hp_comm_sum_exact(comm, HP_F64, 0, NULL, NULL, NULL, NULL, NULL) == HP_OK);
    return NULL;
}

int main(void) {
    pthread_t threads[MOST_RANKS];
    draw_terms();
    for (ranks = 1; ranks <= MOST_RANKS; ranks++) {
        REQUIRE(hp_comm_threads(ranks, comms) == HP_OK);
        for (int rank = 0; rank < ranks; rank++) pthread_create(&threads[rank], NULL, rank_of, comms[rank]);
        for (int rank = 0; rank < ranks; rank++) pthread_join(threads[rank], NULL);
        for (int rank = 0; rank < ranks; rank++) REQUIRE(hp_comm_free(comms[rank]) == HP_OK);
    }
    return 0;
}
