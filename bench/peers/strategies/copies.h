/* Copies of boxes, row by row: the same loops for every strategy, so that strategies differ only in the cells
 * that they copy. */
#ifndef COPIES_H
#define COPIES_H

#include <stddef.h>

/* rows[0] × rows[1] rows of `row` values. Strides in values. */
struct copy {
    const double *source;
    double *target;
    ptrdiff_t rows[2], row, source_stride[2], target_stride[2];
    int with_next; /* run in one sweep with the next copy of the list, which has as many rows */
};

struct copies {
    struct copy *items;
    int count, room;
};

void copies_add(struct copies *list, struct copy copy);
void copies_run(const struct copies *list);
/* Runs the copies past the caches: for targets without gaps that another core reads next. */
void copies_run_past_caches(const struct copies *list);
void copy_past_caches(double *target, const double *source, ptrdiff_t count);
void copies_free(struct copies *list);

#endif
