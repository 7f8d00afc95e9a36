/* The limit: one pass of copies of the same cells, from the rank's own field, without synchronisation. No
 * exchange that moves every value once can be faster. */
#include <stdlib.h>

#include "block.h"
#include "fields.h"
#include "strategies.h"

struct limit {
    struct block block;
    double **fields;
    struct copies copies;
};

static void *create(int comm, const void *problem) {
    struct limit *limit = calloc(1, sizeof *limit);
    struct block *block = &limit->block;
    *block = block_new(comm, problem);
    limit->fields = fields_new(block);
    for (int number = 0; number < block->fields; number++)
        for (int n = 0; n < DIRECTIONS; n++) {
            struct box from = box_sent(block, direction(25 - n)), to = box_halo(block, direction(n));
            struct copy copy = copy_between(block, limit->fields[number], &from, limit->fields[number], &to);
            copy.with_next = opens_pair(n);
            copies_add(&limit->copies, copy);
        }
    return limit;
}

static int run(void *state, int batch) {
    while (batch-- > 0) copies_run(&((struct limit *)state)->copies);
    return 0;
}

static double *field(void *state, int number) { return ((struct limit *)state)->fields[number]; }

static void destroy(void *state) {
    struct limit *limit = state;
    copies_free(&limit->copies);
    fields_free(limit->fields, limit->block.fields);
    free(limit);
}

const struct peers_strategy limit_private = {
    "limit: one pass of copies, paired", create, run, field, NULL, NULL, destroy, 1};
