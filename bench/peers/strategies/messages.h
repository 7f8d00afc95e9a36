/* Lays out messages, and makes the copies between fields and messages. */
#ifndef MESSAGES_H
#define MESSAGES_H

#include "block.h"

/* The maximum number of messages: ranks, or directions. */
#define MESSAGES 64

struct choice {
    int to_self;  /* messages to the rank itself, instead of copies */
    int per_rank; /* one message for each rank, instead of one for each of the 26 neighbours */
    int paired;   /* the two sides of the fastest axis in one sweep */
};

/* Messages by number: with `per_rank` the number of the other rank; otherwise the sender's direction n, which
 * fills the halo at side 25 - n of the receiver. Lengths and places are in values. A rank receives as many
 * messages, and of the same lengths, as it sends. */
struct messages {
    int count;
    ptrdiff_t *length, *begin, total;
    int *target, *source;
};

struct messages messages_new(const struct block *block, struct choice choice);
void messages_free(struct messages *messages);

/* Adds copies to the lists: from fields to messages (`pack`), within fields (`own`), and from messages to
 * fields (`unpack`). `sent` and `received` are the addresses of the messages. */
void messages_copies(const struct messages *messages, const struct block *block, struct choice choice,
                     double *const *fields, double *const *sent, double *const *received, struct copies *pack,
                     struct copies *own, struct copies *unpack);

#endif
