/* One rank's half of a mesh: its fields, messages, and lists of cells. */
#ifndef MESH_H
#define MESH_H

#include <mpi.h>
#include <stddef.h>

#include "../peers.h"
#include "memory.h"

struct segment {
    struct flag written, read;
};

struct mesh {
    const struct peers_mesh *mesh;
    MPI_Comm comm;
    int rank;
    size_t values; /* of one field */
    double *fields[16], *theirs[16];
    double *sent[2], *received[2];
    MPI_Request requests[2];
    int messages;
    int is_shared;
    struct shared shared;
    struct segment *mine, *other;
    uint64_t exchanges;
    /* The places of the first levels of cells: of those that the other rank needs, and of the halo. */
    int32_t *send, *halo;
    /* The places, in `theirs`, of the owners of the halo, and of the other rank's halo in the order of `send`. */
    int32_t *source, *their_halo;
    int32_t their_nproma; /* that of `theirs` */
};

enum place { PRIVATE_FIELDS, SHARED_FIELDS };
enum buffers { NO_BUFFERS, MESSAGES_OF_MPI, SHARED_BUFFERS };
/* Where cells go: from owners into the halo, or from the halo to owners. */
enum direction { TO_HALO, TO_OWNERS };

/* Collective: returns null unless there are two ranks, which share memory if that is wanted. Without shared
 * fields, the rank's own stand in for `theirs`. */
struct mesh *mesh_new(int comm, const struct peers_mesh *problem, enum place place, enum buffers buffers,
                      enum direction direction);
/* Make `batch` exchanges: by messages of MPI, by buffers in shared memory, two in turn, or from `theirs`. `pack` fills a
 * message, `unpack` takes one, and `pull` takes cells of `theirs`. Return 0, or another number for an error. */
int mesh_by_messages(struct mesh *made, int batch, void (*pack)(struct mesh *, double *),
                     void (*unpack)(struct mesh *, const double *));
int mesh_by_buffers(struct mesh *made, int batch, void (*pack)(struct mesh *, double *),
                    void (*unpack)(struct mesh *, const double *));
int mesh_by_fields(struct mesh *made, int batch, void (*pull)(struct mesh *));
double *mesh_field(void *state, int number);
void mesh_free(void *state);

#endif
