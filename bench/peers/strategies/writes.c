#include "writes.h"

#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include "memory.h"

/* Values that lie together. */
struct span {
    ptrdiff_t begin, length;
};

struct writes {
    int fields;
    double **field;
    struct span *spans;
    ptrdiff_t count, room, length; /* `length` is that of all spans */
    double *values;                /* those of all spans, field by field */
};

static void add(struct writes *writes, ptrdiff_t begin, ptrdiff_t length) {
    writes->length += length;
    if (writes->count) {
        struct span *last = &writes->spans[writes->count - 1];
        if (last->begin + last->length == begin) {
            last->length += length;
            return;
        }
    }
    if (writes->count == writes->room) {
        writes->room = 2 * writes->room + 64;
        writes->spans = realloc(writes->spans, (size_t)writes->room * sizeof *writes->spans);
    }
    writes->spans[writes->count++] = (struct span){begin, length};
}

/* Reads the values of all spans. */
static void *filled(struct writes *writes, int fields, double *const *field) {
    writes->fields = fields;
    writes->field = malloc((size_t)fields * sizeof *writes->field);
    writes->values = private_new((size_t)(writes->length * fields) * sizeof(double) + 64);
    double *to = writes->values;
    for (int number = 0; number < fields; number++) {
        writes->field[number] = field[number];
        for (ptrdiff_t at = 0; at < writes->count; to += writes->spans[at++].length)
            memcpy(to, field[number] + writes->spans[at].begin,
                   (size_t)writes->spans[at].length * sizeof(double));
    }
    return writes;
}

void *peers_writes(const struct peers_case *problem, double *const *fields) {
    struct writes *writes = calloc(1, sizeof *writes);
    ptrdiff_t halo = problem->halo, middle = problem->local[1] + 2 * halo, row = problem->local[2] + 2 * halo;
    for (ptrdiff_t a = 0; a < problem->local[0]; a++)
        for (ptrdiff_t b = 0; b < problem->local[1]; b++) {
            ptrdiff_t begin = ((a + halo) * middle + b + halo) * row + halo, length = problem->local[2];
            int inner = a >= halo && a < problem->local[0] - halo && b >= halo && b < problem->local[1] - halo;
            if (!inner || length <= 2 * halo) add(writes, begin, length);
            else add(writes, begin, halo), add(writes, begin + length - halo, halo);
        }
    return filled(writes, problem->fields, fields);
}

/* Adds listed cells, or `count` cells from `first` on, along the faster of the two axes. */
static void add_cells(struct writes *writes, const struct peers_mesh *mesh, const int32_t *cells, ptrdiff_t first,
                      int count) {
    ptrdiff_t nproma = mesh->nproma, levels = mesh->levels;
    if (nproma == 1) {
        for (int at = 0; at < count; at++) add(writes, (cells ? cells[at] : first + at) * levels, levels);
        return;
    }
    for (ptrdiff_t level = 0; level < levels; level++)
        for (int at = 0; at < count; at++) {
            ptrdiff_t cell = cells ? cells[at] : first + at;
            add(writes, (cell / nproma * levels + level) * nproma + cell % nproma, 1);
        }
}

void *peers_mesh_writes(const struct peers_mesh *mesh, double *const *fields) {
    struct writes *writes = calloc(1, sizeof *writes);
    add_cells(writes, mesh, mesh->send, 0, mesh->sends);
    return filled(writes, mesh->fields, fields);
}

void *peers_sum_writes(const struct peers_mesh *mesh, double *const *fields) {
    struct writes *writes = calloc(1, sizeof *writes);
    add_cells(writes, mesh, NULL, mesh->owned, mesh->halo);
    return filled(writes, mesh->fields, fields);
}

void peers_writes_run(const void *made) {
    const struct writes *writes = made;
    const double *from = writes->values;
    for (int number = 0; number < writes->fields; number++)
        for (const struct span *span = writes->spans; span < writes->spans + writes->count; span++) {
            double *to = writes->field[number] + span->begin;
            for (ptrdiff_t at = 0; at < span->length; at++) to[at] = from[at];
            from += span->length;
        }
}

void peers_writes_free(void *made) {
    struct writes *writes = made;
    free(writes->field), free(writes->spans), free(writes->values);
    free(writes);
}
