/* Strategies for unstructured meshes on two ranks: lists of cells, packed, sent, staged or gathered. */
#include <immintrin.h>
#include <mpi.h>
#include <stdlib.h>
#include <string.h>

#include "copies.h"
#include "memory.h"
#include "strategies.h"

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
    /* The places of the first levels of cells: of those that are sent, of the halo, and of its cells in the
     * other rank's fields. */
    int32_t *send, *halo, *source;
    int32_t other_nproma;
};

/* Copies cells with all levels from listed places to listed places; a null list means consecutive cells. Each
 * stride is that of the levels on that side, if they are not fastest. */
static void copy_cells(const struct peers_mesh *mesh, int count, const double *source, const int32_t *from,
                       ptrdiff_t source_stride, double *target, const int32_t *to, ptrdiff_t target_stride) {
    if (mesh->nproma == 1) {
        ptrdiff_t levels = mesh->levels;
        for (int at = 0; at < count; at++) {
            double *column = target + (to ? to[at] : at * levels);
            const double *values = source + (from ? from[at] : at * levels);
            if (levels == 1) *column = *values;
            else memcpy(column, values, (size_t)levels * sizeof(double));
        }
        return;
    }
    for (int level = 0; level < mesh->levels; level++) {
        double *row = target + level * target_stride;
        const double *values = source + level * source_stride;
        if (!to)
            for (int at = 0; at < count; at++) row[at] = values[from[at]];
        else if (!from)
            for (int at = 0; at < count; at++) row[to[at]] = values[at];
        else
            for (int at = 0; at < count; at++) row[to[at]] = values[from[at]];
    }
}

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

enum place { PRIVATE_FIELDS, SHARED_FIELDS };
enum buffers { NO_BUFFERS, MESSAGES_OF_MPI, SHARED_BUFFERS };

static void *create(int comm, const void *problem, enum place place, enum buffers buffers) {
    struct mesh *made = calloc(1, sizeof *made);
    const struct peers_mesh *mesh = made->mesh = problem;
    int size;
    made->comm = MPI_Comm_f2c(comm);
    MPI_Comm_rank(made->comm, &made->rank);
    MPI_Comm_size(made->comm, &size);
    int blocks = (mesh->owned + mesh->halo + mesh->nproma - 1) / mesh->nproma;
    made->values = (size_t)blocks * (size_t)mesh->nproma * (size_t)mesh->levels;
    size_t field_bytes = made->values * sizeof(double), fields = (size_t)mesh->fields;
    size_t column = (size_t)mesh->levels * fields * sizeof(double);
    size_t sent = (size_t)mesh->sends * column, received = (size_t)mesh->halo * column;
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
    made->other_nproma = mesh->nproma;
    MPI_Sendrecv(&mesh->nproma, 1, MPI_INT32_T, 1 - made->rank, 0, &made->other_nproma, 1, MPI_INT32_T,
                 1 - made->rank, 0, made->comm, MPI_STATUS_IGNORE);
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
    int32_t of_source = place == SHARED_FIELDS ? made->other_nproma : mesh->nproma;
    made->send = places_of(mesh, mesh->nproma, mesh->send, 0, mesh->sends);
    made->halo = places_of(mesh, mesh->nproma, NULL, mesh->owned, mesh->halo);
    made->source = places_of(mesh, of_source, mesh->source, 0, mesh->halo);
    made->other_nproma = of_source;
    return made;
}

static void pack(struct mesh *made, double *message) {
    const struct peers_mesh *mesh = made->mesh;
    for (int number = 0; number < mesh->fields; number++) {
        copy_cells(mesh, mesh->sends, made->fields[number], made->send, mesh->nproma, message, NULL,
                   mesh->sends);
        message += (ptrdiff_t)mesh->sends * mesh->levels;
    }
}

static void unpack(struct mesh *made, const double *message) {
    const struct peers_mesh *mesh = made->mesh;
    for (int number = 0; number < mesh->fields; number++) {
        copy_cells(mesh, mesh->halo, message, NULL, mesh->halo, made->fields[number], made->halo,
                   mesh->nproma);
        message += (ptrdiff_t)mesh->halo * mesh->levels;
    }
}

static void gather_all(struct mesh *made) {
    const struct peers_mesh *mesh = made->mesh;
    for (int number = 0; number < mesh->fields; number++)
        copy_cells(mesh, mesh->halo, made->theirs[number], made->source, made->other_nproma,
                   made->fields[number], made->halo, mesh->nproma);
}

static int run_packed(void *state, int batch) {
    struct mesh *made = state;
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

static int run_raw(void *state, int batch) {
    struct mesh *made = state;
    int failed = 0;
    while (batch-- > 0) {
        failed |= MPI_Startall(2, made->requests);
        failed |= MPI_Waitall(2, made->requests, MPI_STATUSES_IGNORE);
    }
    return failed;
}

/* Packs columns directly, and single values through a small contiguous buffer. */
static void pack_past_caches(struct mesh *made, double *message) {
    enum { TOGETHER = 512 };
    const struct peers_mesh *mesh = made->mesh;
    for (int number = 0; number < mesh->fields; number++)
        for (int level = 0; level < (mesh->nproma > 1 ? mesh->levels : 1); level++) {
            const double *values = made->fields[number] + (ptrdiff_t)level * mesh->nproma;
            if (mesh->nproma == 1 && mesh->levels > 1) {
                for (int at = 0; at < mesh->sends; at++, message += mesh->levels)
                    copy_past_caches(message, values + made->send[at], mesh->levels);
                continue;
            }
            for (int at = 0; at < mesh->sends; at += TOGETHER) {
                double together[TOGETHER];
                int count = mesh->sends - at < TOGETHER ? mesh->sends - at : TOGETHER;
                for (int which = 0; which < count; which++) together[which] = values[made->send[at + which]];
                copy_past_caches(message, together, count);
                message += count;
            }
        }
    _mm_sfence();
}

/* As for boxes (`staged.c`). */
static int exchange_staged(struct mesh *made, int batch, void (*pack)(struct mesh *, double *)) {
    while (batch-- > 0) {
        uint64_t number = ++made->exchanges;
        pack(made, made->sent[number % 2]);
        flag_raise(&made->mine->written, number);
        flag_await(&made->other->written, number);
        unpack(made, made->received[number % 2]);
    }
    return 0;
}

static int run_staged(void *state, int batch) { return exchange_staged(state, batch, pack); }
static int run_past_caches(void *state, int batch) { return exchange_staged(state, batch, pack_past_caches); }

/* As for boxes (`shared_fields.c`). */
static int run_pulled(void *state, int batch) {
    struct mesh *made = state;
    while (batch-- > 0) {
        uint64_t number = ++made->exchanges;
        flag_raise(&made->mine->written, number);
        flag_await(&made->other->written, number);
        gather_all(made);
        flag_raise(&made->mine->read, number);
        flag_await(&made->other->read, number);
    }
    return 0;
}

static int run_gather(void *state, int batch) {
    while (batch-- > 0) gather_all(state);
    return 0;
}

static double *field(void *state, int number) { return ((struct mesh *)state)->fields[number]; }

static void destroy(void *state) {
    struct mesh *made = state;
    for (int request = 0; request < made->messages; request++) MPI_Request_free(&made->requests[request]);
    for (int turn = 0; turn < 2 && made->messages; turn++) free(made->sent[turn]), free(made->received[turn]);
    for (int number = 0; number < made->mesh->fields; number++)
        if (!made->is_shared || made->sent[0]) free(made->fields[number]);
    if (made->is_shared) shared_free(&made->shared);
    free(made->send), free(made->halo), free(made->source);
    free(made);
}

static void *packed(int comm, const void *problem) {
    return create(comm, problem, PRIVATE_FIELDS, MESSAGES_OF_MPI);
}
static void *staged(int comm, const void *problem) {
    return create(comm, problem, PRIVATE_FIELDS, SHARED_BUFFERS);
}
static void *gather(int comm, const void *problem) {
    return create(comm, problem, PRIVATE_FIELDS, NO_BUFFERS);
}
static void *pulled(int comm, const void *problem) {
    return create(comm, problem, SHARED_FIELDS, NO_BUFFERS);
}

const struct peers_strategy mesh_packed = {
    "C: packed, persistent message", packed, run_packed, field, NULL, NULL, destroy, 0};
const struct peers_strategy mesh_raw = {
    "C: raw sends of the packed bytes", packed, run_raw, field, NULL, NULL, destroy, 2};
const struct peers_strategy mesh_staged = {
    "C: packed into shared memory", staged, run_staged, field, NULL, NULL, destroy, 0};
const struct peers_strategy mesh_staged_past_caches = {
    "C: packed into shared memory past the caches", staged, run_past_caches, field, NULL, NULL, destroy, 0};
const struct peers_strategy mesh_pulled = {
    "C: gathered from the neighbour's field", pulled, run_pulled, field, NULL, NULL, destroy, 0};
const struct peers_strategy mesh_gather_shared = {
    "limit: one gather pass from the neighbour's field", pulled, run_gather, field, NULL, NULL, destroy, 0};
const struct peers_strategy mesh_gather = {
    "limit: one gather pass", gather, run_gather, field, NULL, NULL, destroy, 1};
