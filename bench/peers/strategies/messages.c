#include "messages.h"

#include <stdlib.h>

static int is_message(const struct block *block, struct choice choice, int number) {
    return choice.to_self || block_neighbour(block, direction(number)) != block->rank;
}

struct messages messages_new(const struct block *block, struct choice choice) {
    struct messages messages = {.count = choice.per_rank ? block->size : DIRECTIONS};
    size_t count = (size_t)messages.count;
    messages.length = calloc(count, sizeof *messages.length);
    messages.begin = calloc(count, sizeof *messages.begin);
    messages.target = calloc(count, sizeof *messages.target);
    messages.source = calloc(count, sizeof *messages.source);
    for (int number = 0; number < DIRECTIONS; number++) {
        if (!is_message(block, choice, number)) continue;
        int target = block_neighbour(block, direction(number));
        int message = choice.per_rank ? target : number;
        struct box box = box_sent(block, direction(number));
        messages.length[message] += box_cells(&box) * block->fields;
        messages.target[message] = target;
        messages.source[message] = choice.per_rank ? target : block_neighbour(block, direction(25 - number));
    }
    for (int message = 0; message < messages.count; message++) {
        messages.begin[message] = messages.total;
        messages.total += (messages.length[message] + 15) / 16 * 16;
    }
    return messages;
}

void messages_free(struct messages *messages) {
    free(messages->length), free(messages->begin), free(messages->target), free(messages->source);
    *messages = (struct messages){0};
}

void messages_copies(const struct messages *messages, const struct block *block, struct choice choice,
                     double *const *fields, double *const *sent, double *const *received, struct copies *pack,
                     struct copies *own, struct copies *unpack) {
    ptrdiff_t *out = calloc((size_t)messages->count, sizeof *out),
              *in = calloc((size_t)messages->count, sizeof *in);
    for (int field = 0; field < block->fields; field++)
        for (int number = 0; number < DIRECTIONS; number++) {
            double *values = fields[field];
            struct box from = box_sent(block, direction(number)),
                       to = box_halo(block, direction(25 - number));
            /* Both of a pair are messages, or none: they differ only by the sign along the fastest axis. */
            int with_next = choice.paired && opens_pair(number);
            if (!is_message(block, choice, number)) {
                struct copy copy = copy_between(block, values, &from, values, &to);
                copy.with_next = with_next;
                copies_add(own, copy);
                continue;
            }
            int message = choice.per_rank ? block_neighbour(block, direction(number)) : number;
            struct copy copy = copy_pack(block, values, &from, sent[message] + out[message]);
            copy.with_next = with_next;
            copies_add(pack, copy);
            out[message] += box_cells(&from);

            message = choice.per_rank ? block_neighbour(block, direction(25 - number)) : number;
            copy = copy_unpack(block, received[message] + in[message], values, &to);
            copy.with_next = with_next;
            copies_add(unpack, copy);
            in[message] += box_cells(&to);
        }
    free(out), free(in);
}
