/* Which cells travel in which message, and the copies between fields and messages. */
#ifndef MESSAGES_H
#define MESSAGES_H

#include "block.h"

/* The most messages that there are: ranks, or directions. */
#define MESSAGES 64

struct choice {
    int to_self;  /* messages to oneself too, where others copy straight */
    int per_rank; /* one message for each rank, or for each of the 26 neighbours */
    int paired;   /* the two sides of the fastest axis in one sweep */
};

/* Messages by number: with `per_rank` the other rank; otherwise the sender's direction n, which fills the
 * halo at side 25 - n of the receiver. Lengths and places are in values, and as many are received as are
 * sent. */
struct messages {
    int count;
    ptrdiff_t *length, *begin, total;
    int *target, *source;
};

struct messages messages_new(const struct block *block, struct choice choice);
void messages_free(struct messages *messages);

/* Adds to each list what it copies: from fields to messages, from fields to themselves, from messages to
 * fields. `sent` and `received` say for each message where it lies. */
void messages_copies(const struct messages *messages, const struct block *block, struct choice choice,
                     double *const *fields, double *const *sent, double *const *received, struct copies *pack,
                     struct copies *own, struct copies *unpack);

#endif
