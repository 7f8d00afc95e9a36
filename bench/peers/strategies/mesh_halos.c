/* Strategies for unstructured meshes on two ranks: lists of cells, packed, sent, staged or gathered. */
#include <immintrin.h>
#include <string.h>

#include "copies.h"
#include "mesh.h"
#include "strategies.h"

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
        copy_cells(mesh, mesh->halo, made->theirs[number], made->source, made->their_nproma,
                   made->fields[number], made->halo, mesh->nproma);
}

static int run_packed(void *state, int batch) { return mesh_by_messages(state, batch, pack, unpack); }

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

static int run_staged(void *state, int batch) { return mesh_by_buffers(state, batch, pack, unpack); }
static int run_past_caches(void *state, int batch) {
    return mesh_by_buffers(state, batch, pack_past_caches, unpack);
}
static int run_pulled(void *state, int batch) { return mesh_by_fields(state, batch, gather_all); }

static int run_gather(void *state, int batch) {
    while (batch-- > 0) gather_all(state);
    return 0;
}

static void *packed(int comm, const void *problem) {
    return mesh_new(comm, problem, PRIVATE_FIELDS, MESSAGES_OF_MPI, TO_HALO);
}
static void *staged(int comm, const void *problem) {
    return mesh_new(comm, problem, PRIVATE_FIELDS, SHARED_BUFFERS, TO_HALO);
}
static void *gather(int comm, const void *problem) {
    return mesh_new(comm, problem, PRIVATE_FIELDS, NO_BUFFERS, TO_HALO);
}
static void *pulled(int comm, const void *problem) {
    return mesh_new(comm, problem, SHARED_FIELDS, NO_BUFFERS, TO_HALO);
}

const struct peers_strategy mesh_packed = {
    "C: packed, persistent message", packed, run_packed, mesh_field, NULL, NULL, mesh_free, 0};
const struct peers_strategy mesh_raw = {
    "C: raw sends of the packed bytes", packed, run_raw, mesh_field, NULL, NULL, mesh_free, 2};
const struct peers_strategy mesh_staged = {
    "C: packed into shared memory", staged, run_staged, mesh_field, NULL, NULL, mesh_free, 0};
const struct peers_strategy mesh_staged_past_caches = {
    "C: packed into shared memory past the caches", staged, run_past_caches, mesh_field, NULL, NULL, mesh_free, 0};
const struct peers_strategy mesh_pulled = {
    "C: gathered from the neighbour's field", pulled, run_pulled, mesh_field, NULL, NULL, mesh_free, 0};
const struct peers_strategy mesh_gather_shared = {
    "limit: one gather pass from the neighbour's field", pulled, run_gather, mesh_field, NULL, NULL, mesh_free, 0};
const struct peers_strategy mesh_gather = {
    "limit: one gather pass", gather, run_gather, mesh_field, NULL, NULL, mesh_free, 1};
