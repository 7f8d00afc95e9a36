#include "mesh.h"

#include <stdlib.h>

/* The places of the first levels of listed cells, or of `count` cells from `first` on. */
static int32_t *places_of(const struct peers_mesh *mesh, int32_t nproma, const int32_t *cells, int first,
                          int count) {
    int32_t *places = calloc((size_t)count + 1, sizeof *places);
    for (int at = 0; at < count; at++) {
        int32_t cell = cells ? cells[at] : first + at;
        places[at] = cell / nproma * nproma * mesh->levels + cell % nproma;
    }
    return places;
}

struct mesh *mesh_new(int comm, const struct peers_mesh *mesh, enum place place, enum buffers buffers,
                      enum direction direction) {
    struct mesh *made = calloc(1, sizeof *made);
    made->mesh = mesh;
    int size;
    made->comm = MPI_Comm_f2c(comm);
    MPI_Comm_rank(made->comm, &made->rank);
    MPI_Comm_size(made->comm, &size);
    int blocks = (mesh->owned + mesh->halo + mesh->nproma - 1) / mesh->nproma;
    made->values = (size_t)blocks * (size_t)mesh->nproma * (size_t)mesh->levels;
    size_t field_bytes = made->values * sizeof(double), fields = (size_t)mesh->fields;
    size_t column = (size_t)mesh->levels * fields * sizeof(double);
    size_t needed = (size_t)mesh->sends * column, halo = (size_t)mesh->halo * column;
    size_t sent = direction == TO_HALO ? needed : halo, received = direction == TO_HALO ? halo : needed;
    size_t room = (sent > received ? sent : received) + 128;
    made->is_shared = place == SHARED_FIELDS || buffers == SHARED_BUFFERS;
    /* The ranks may send different numbers of cells: room for the larger number. */
    MPI_Allreduce(MPI_IN_PLACE, &room, 1, MPI_UNSIGNED_LONG, MPI_MAX, made->comm);
    size_t bytes = sizeof(struct segment) + 2 * room + (place == SHARED_FIELDS ? fields * field_bytes : 0);
    if (size != 2 || fields > 16 || (made->is_shared && shared_new(&made->shared, made->comm, bytes))) {
        free(made);
        return NULL;
    }
    double *own = NULL, *other = NULL;
    if (made->is_shared) {
        made->mine = shared_of(&made->shared, made->rank);
        made->other = shared_of(&made->shared, 1 - made->rank);
        own = (double *)((char *)(made->mine + 1) + 2 * room);
        other = (double *)((char *)(made->other + 1) + 2 * room);
    }
    size_t other_values = made->values;
    MPI_Sendrecv(&made->values, 1, MPI_UNSIGNED_LONG, 1 - made->rank, 0, &other_values, 1, MPI_UNSIGNED_LONG,
                 1 - made->rank, 0, made->comm, MPI_STATUS_IGNORE);
    int32_t own_mesh[2] = {mesh->nproma, mesh->owned}, their_mesh[2];
    MPI_Sendrecv(own_mesh, 2, MPI_INT32_T, 1 - made->rank, 0, their_mesh, 2, MPI_INT32_T, 1 - made->rank, 0,
                 made->comm, MPI_STATUS_IGNORE);
    for (size_t number = 0; number < fields; number++) {
        int is_private = place == PRIVATE_FIELDS;
        made->fields[number] = is_private ? private_new(field_bytes) : own + number * made->values;
        made->theirs[number] = is_private ? made->fields[number] : other + number * other_values;
    }
    for (int turn = 0; turn < 2 && buffers != NO_BUFFERS; turn++) {
        int in_mpi = buffers == MESSAGES_OF_MPI;
        made->sent[turn] =
            in_mpi ? private_new(room) : (void *)((char *)(made->mine + 1) + (size_t)turn * room);
        made->received[turn] =
            in_mpi ? private_new(room) : (void *)((char *)(made->other + 1) + (size_t)turn * room);
    }
    if (buffers == MESSAGES_OF_MPI) {
        made->messages = 2;
        MPI_Recv_init(made->received[0], (int)(received / sizeof(double)), MPI_DOUBLE, 1 - made->rank, 0,
                      made->comm, &made->requests[0]);
        MPI_Send_init(made->sent[0], (int)(sent / sizeof(double)), MPI_DOUBLE, 1 - made->rank, 0, made->comm,
                      &made->requests[1]);
    }
    made->their_nproma = place == SHARED_FIELDS ? their_mesh[0] : mesh->nproma;
    made->send = places_of(mesh, mesh->nproma, mesh->send, 0, mesh->sends);
    made->halo = places_of(mesh, mesh->nproma, NULL, mesh->owned, mesh->halo);
    made->source = places_of(mesh, made->their_nproma, mesh->source, 0, mesh->halo);
    made->their_halo = places_of(mesh, made->their_nproma, NULL, their_mesh[1], mesh->sends);
    return made;
}

int mesh_by_messages(struct mesh *made, int batch, void (*pack)(struct mesh *, double *),
                     void (*unpack)(struct mesh *, const double *)) {
    int failed = 0;
    while (batch-- > 0) {
        failed |= MPI_Start(&made->requests[0]);
        pack(made, made->sent[0]);
        failed |= MPI_Start(&made->requests[1]);
        failed |= MPI_Waitall(2, made->requests, MPI_STATUSES_IGNORE);
        unpack(made, made->received[0]);
    }
    return failed;
}

/* As for boxes (`staged.c`). */
int mesh_by_buffers(struct mesh *made, int batch, void (*pack)(struct mesh *, double *),
                    void (*unpack)(struct mesh *, const double *)) {
    while (batch-- > 0) {
        uint64_t number = ++made->exchanges;
        pack(made, made->sent[number % 2]);
        flag_raise(&made->mine->written, number);
        flag_await(&made->other->written, number);
        unpack(made, made->received[number % 2]);
    }
    return 0;
}

/* As for boxes (`shared_fields.c`). */
int mesh_by_fields(struct mesh *made, int batch, void (*pull)(struct mesh *)) {
    while (batch-- > 0) {
        uint64_t number = ++made->exchanges;
        flag_raise(&made->mine->written, number);
        flag_await(&made->other->written, number);
        pull(made);
        flag_raise(&made->mine->read, number);
        flag_await(&made->other->read, number);
    }
    return 0;
}

double *mesh_field(void *state, int number) { return ((struct mesh *)state)->fields[number]; }

void mesh_free(void *state) {
    struct mesh *made = state;
    for (int request = 0; request < made->messages; request++) MPI_Request_free(&made->requests[request]);
    for (int turn = 0; turn < 2 && made->messages; turn++) free(made->sent[turn]), free(made->received[turn]);
    for (int number = 0; number < made->mesh->fields; number++)
        if (!made->is_shared || made->sent[0]) free(made->fields[number]);
    if (made->is_shared) shared_free(&made->shared);
    free(made->send), free(made->halo), free(made->source), free(made->their_halo);
    free(made);
}
