#include "copies.h"

#include <immintrin.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

/* The distance, in rows, at which lines of short rows are prefetched. */
enum { AHEAD = 32 };

#define INLINE static inline __attribute__((always_inline))

INLINE void copy_row(double *target, const double *source, ptrdiff_t row) {
    /* All values are loaded before one is stored, as in a copy of a known, short length. */
    double values[3];
    for (ptrdiff_t at = 0; at < row; at++) values[at] = source[at];
    for (ptrdiff_t at = 0; at < row; at++) target[at] = values[at];
}

INLINE void copy_short(const struct copy *copy, ptrdiff_t row) {
    for (ptrdiff_t a = 0; a < copy->rows[0]; a++) {
        const double *source = copy->source + a * copy->source_stride[0];
        double *target = copy->target + a * copy->target_stride[0];
        for (ptrdiff_t b = 0; b < copy->rows[1]; b++) {
            copy_row(target, source, row);
            source += copy->source_stride[1];
            target += copy->target_stride[1];
        }
    }
}

static void copy_long(const struct copy *copy) {
    for (ptrdiff_t a = 0; a < copy->rows[0]; a++)
        for (ptrdiff_t b = 0; b < copy->rows[1]; b++)
            memcpy(copy->target + a * copy->target_stride[0] + b * copy->target_stride[1],
                   copy->source + a * copy->source_stride[0] + b * copy->source_stride[1],
                   (size_t)copy->row * sizeof(double));
}

static void copy_one(const struct copy *copy) {
    switch (copy->row) {
    case 1: copy_short(copy, 1); break;
    case 2: copy_short(copy, 2); break;
    case 3: copy_short(copy, 3); break;
    default: copy_long(copy);
    }
}

/* Runs a pair in one sweep: a line that holds the end of a row's interior also holds its halo, and is fetched
 * once. */
INLINE void copy_pair(const struct copy *one, const struct copy *other, ptrdiff_t row) {
    for (ptrdiff_t a = 0; a < one->rows[0]; a++) {
        const double *source = one->source + a * one->source_stride[0];
        const double *source2 = other->source + a * other->source_stride[0];
        double *target = one->target + a * one->target_stride[0];
        double *target2 = other->target + a * other->target_stride[0];
        for (ptrdiff_t b = 0; b < one->rows[1]; b++) {
            /* A prefetch of an address past the end does no harm. */
            __builtin_prefetch(source + AHEAD * one->source_stride[1], 0);
            __builtin_prefetch(source2 + AHEAD * other->source_stride[1], 0);
            __builtin_prefetch(target + AHEAD * one->target_stride[1], 1);
            __builtin_prefetch(target2 + AHEAD * other->target_stride[1], 1);
            copy_row(target, source, row);
            copy_row(target2, source2, row);
            source += one->source_stride[1];
            source2 += other->source_stride[1];
            target += one->target_stride[1];
            target2 += other->target_stride[1];
        }
    }
}

void copies_add(struct copies *list, struct copy copy) {
    if (list->count == list->room) {
        list->room = list->room ? 2 * list->room : 32;
        list->items = realloc(list->items, (size_t)list->room * sizeof *list->items);
        if (!list->items) abort();
    }
    list->items[list->count++] = copy;
}

void copies_run(const struct copies *list) {
    for (int at = 0; at < list->count; at++) {
        const struct copy *copy = &list->items[at];
        if (!copy->with_next || copy->row > 3) {
            copy_one(copy);
            continue;
        }
        at++;
        switch (copy->row) {
        case 1: copy_pair(copy, copy + 1, 1); break;
        case 2: copy_pair(copy, copy + 1, 2); break;
        default: copy_pair(copy, copy + 1, 3);
        }
    }
}

void copy_past_caches(double *target, const double *source, ptrdiff_t count) {
    ptrdiff_t at = 0;
    for (; at < count && (uintptr_t)(target + at) % 32; at++)
        _mm_stream_si64((long long *)(target + at), *(const long long *)(source + at));
    for (; at + 4 <= count; at += 4)
        _mm256_stream_si256((__m256i *)(target + at), _mm256_loadu_si256((const __m256i *)(source + at)));
    for (; at < count; at++) _mm_stream_si64((long long *)(target + at), *(const long long *)(source + at));
}

/* Runs one copy, or a pair in one sweep. */
INLINE void stream_rows(const struct copy *copies, int count, ptrdiff_t row) {
    for (ptrdiff_t a = 0; a < copies->rows[0]; a++)
        for (ptrdiff_t b = 0; b < copies->rows[1]; b++)
            for (int at = 0; at < count; at++) {
                const struct copy *copy = copies + at;
                const double *source = copy->source + a * copy->source_stride[0] + b * copy->source_stride[1];
                double *target = copy->target + a * copy->target_stride[0] + b * copy->target_stride[1];
                __builtin_prefetch(source + AHEAD * copy->source_stride[1], 0);
                if (row > 3) copy_past_caches(target, source, row);
                else
                    for (ptrdiff_t value = 0; value < row; value++)
                        _mm_stream_si64((long long *)(target + value), *(const long long *)(source + value));
            }
}

void copies_run_past_caches(const struct copies *list) {
    for (int at = 0; at < list->count; at++) {
        const struct copy *copy = &list->items[at];
        int count = copy->with_next ? 2 : 1;
        switch (copy->row) {
        case 1: stream_rows(copy, count, 1); break;
        case 2: stream_rows(copy, count, 2); break;
        case 3: stream_rows(copy, count, 3); break;
        default: stream_rows(copy, count, copy->row);
        }
        at += count - 1;
    }
    _mm_sfence();
}

void copies_free(struct copies *list) {
    free(list->items);
    *list = (struct copies){0};
}
