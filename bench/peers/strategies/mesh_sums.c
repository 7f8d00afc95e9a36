/* Strategies that add the halo of an unstructured mesh to the cells of its owner, on two ranks. */
#include "mesh.h"
#include "strategies.h"

/* Copies listed cells with all levels to consecutive ones, or adds consecutive cells to listed ones, or listed
 * cells to listed ones. Each stride is that of the levels on that side, if they are not fastest. */
static void pack_cells(const struct peers_mesh *mesh, int count, const double *source, const int32_t *from,
                       ptrdiff_t source_stride, double *target) {
    if (mesh->nproma == 1) {
        for (int at = 0; at < count; at++, target += mesh->levels)
            for (int level = 0; level < mesh->levels; level++) target[level] = source[from[at] + level];
        return;
    }
    for (int level = 0; level < mesh->levels; level++, source += source_stride, target += count)
        for (int at = 0; at < count; at++) target[at] = source[from[at]];
}

static void add_cells(const struct peers_mesh *mesh, int count, const double *source, const int32_t *from,
                      ptrdiff_t source_stride, double *target, const int32_t *to) {
    if (mesh->nproma == 1) {
        for (int at = 0; at < count; at++) {
            double *restrict column = target + to[at];
            const double *restrict values = source + (from ? from[at] : at * mesh->levels);
            for (int level = 0; level < mesh->levels; level++) column[level] += values[level];
        }
        return;
    }
    for (int level = 0; level < mesh->levels; level++, source += source_stride, target += mesh->nproma) {
        if (from)
            for (int at = 0; at < count; at++) target[to[at]] += source[from[at]];
        else
            for (int at = 0; at < count; at++) target[to[at]] += source[at];
    }
}

static void pack(struct mesh *made, double *message) {
    const struct peers_mesh *mesh = made->mesh;
    for (int number = 0; number < mesh->fields; number++) {
        pack_cells(mesh, mesh->halo, made->fields[number], made->halo, mesh->nproma, message);
        message += (ptrdiff_t)mesh->halo * mesh->levels;
    }
}

static void add_message(struct mesh *made, const double *message) {
    const struct peers_mesh *mesh = made->mesh;
    for (int number = 0; number < mesh->fields; number++) {
        add_cells(mesh, mesh->sends, message, NULL, mesh->sends, made->fields[number], made->send);
        message += (ptrdiff_t)mesh->sends * mesh->levels;
    }
}

static void add_their_halo(struct mesh *made) {
    const struct peers_mesh *mesh = made->mesh;
    for (int number = 0; number < mesh->fields; number++)
        add_cells(mesh, mesh->sends, made->theirs[number], made->their_halo, made->their_nproma,
                  made->fields[number], made->send);
}

static int run_packed(void *state, int batch) { return mesh_by_messages(state, batch, pack, add_message); }
static int run_staged(void *state, int batch) { return mesh_by_buffers(state, batch, pack, add_message); }
static int run_pulled(void *state, int batch) { return mesh_by_fields(state, batch, add_their_halo); }

static int run_pass(void *state, int batch) {
    while (batch-- > 0) add_their_halo(state);
    return 0;
}

/* Adds the halo to the rank's own cells that have the numbers of its owners. */
static int run_own_pass(void *state, int batch) {
    struct mesh *made = state;
    const struct peers_mesh *mesh = made->mesh;
    while (batch-- > 0)
        for (int number = 0; number < mesh->fields; number++)
            add_cells(mesh, mesh->halo, made->fields[number], made->halo, mesh->nproma, made->fields[number],
                      made->source);
    return 0;
}

static void *packed(int comm, const void *problem) {
    return mesh_new(comm, problem, PRIVATE_FIELDS, MESSAGES_OF_MPI, TO_OWNERS);
}
static void *staged(int comm, const void *problem) {
    return mesh_new(comm, problem, PRIVATE_FIELDS, SHARED_BUFFERS, TO_OWNERS);
}
static void *pulled(int comm, const void *problem) {
    return mesh_new(comm, problem, SHARED_FIELDS, NO_BUFFERS, TO_OWNERS);
}
static void *own(int comm, const void *problem) {
    return mesh_new(comm, problem, PRIVATE_FIELDS, NO_BUFFERS, TO_OWNERS);
}

const struct peers_strategy sums_packed = {
    "C: packed, persistent message, added", packed, run_packed, mesh_field, NULL, NULL, mesh_free, 0};
const struct peers_strategy sums_staged = {
    "C: packed into shared memory, added", staged, run_staged, mesh_field, NULL, NULL, mesh_free, 0};
const struct peers_strategy sums_pulled = {
    "C: added from the neighbour's field", pulled, run_pulled, mesh_field, NULL, NULL, mesh_free, 0};
const struct peers_strategy sums_pass_shared = {
    "limit: one pass that adds from the neighbour's field", pulled, run_pass, mesh_field, NULL, NULL, mesh_free, 0};
const struct peers_strategy sums_pass = {
    "limit: one pass that adds", own, run_own_pass, mesh_field, NULL, NULL, mesh_free, 1};
