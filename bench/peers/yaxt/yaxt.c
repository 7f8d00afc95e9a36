/* The contestant YAXT: redistributions of meshes, with each of its exchangers. */
#include <stdlib.h>
#include <yaxt.h>

#include "../peers.h"
#include "../strategies/memory.h"

/* How the levels of a cell and the fields become messages. */
enum way {
    AS_ICON,    /* levels not fastest: one level, repeated; all fields together */
    COLUMNS,    /* levels not fastest: a strided column for each cell; all fields together */
    ONE_BY_ONE, /* as the first, with an exchange for each field */
};

struct yaxt {
    const struct peers_mesh *mesh;
    MPI_Comm comm;
    Xt_redist redist;
    int exchanges;  /* 1, or the number of fields */
    double *fields; /* one after the other */
    size_t stride;  /* the number of values from one field to the next */
};

/* The number of contestants that use YAXT. */
static int users;

/* Returns the default configuration, or the one with an exchanger; null if there is no such exchanger. */
static Xt_config configuration(const char *exchanger) {
    Xt_config config = xt_config_new();
    if (!exchanger) return config;
    int method = xt_exchanger_id_by_name(exchanger);
    if (method >= 0) xt_config_set_exchange_method(config, method);
    /* If this MPI lacks what an exchanger needs, YAXT keeps its default instead. */
    if (method >= 0 && xt_config_get_exchange_method(config) == method) return config;
    xt_config_delete(config);
    return NULL;
}

static Xt_idxlist list_of(const int64_t *ids, int count) {
    Xt_int *indices = calloc((size_t)count, sizeof *indices);
    for (int at = 0; at < count; at++) indices[at] = (Xt_int)ids[at];
    Xt_idxlist list = xt_idxvec_new(indices, count);
    free(indices);
    return list;
}

/* Maps owned cells to halo cells. The distributed directory finds the owner of each halo cell. */
static Xt_xmap map_of(const struct peers_mesh *mesh, MPI_Comm comm) {
    Xt_idxlist owned = list_of(mesh->ids, mesh->owned);
    Xt_idxlist halo = list_of(mesh->ids + mesh->owned, mesh->halo);
    Xt_xmap map = xt_xmap_dist_dir_new(owned, halo, comm);
    xt_idxlist_delete(owned);
    xt_idxlist_delete(halo);
    return map;
}

/* Returns the datatype of all levels of a cell. Those of neighbouring cells may follow each other. */
static MPI_Datatype column_of(const struct peers_mesh *mesh) {
    MPI_Datatype column, strided;
    if (mesh->nproma > 1) {
        MPI_Type_vector(mesh->levels, 1, mesh->nproma, MPI_DOUBLE, &strided);
        MPI_Type_create_resized(strided, 0, sizeof(double), &column);
        MPI_Type_free(&strided);
    } else {
        MPI_Type_contiguous(mesh->levels, MPI_DOUBLE, &column);
    }
    MPI_Type_commit(&column);
    return column;
}

/* The place of a cell's first level. */
static int place_of(const struct peers_mesh *mesh, int cell) {
    return cell / mesh->nproma * mesh->nproma * mesh->levels + cell % mesh->nproma;
}

/* Returns the redistribution of elements of a type. From one to the next there are `values` values. */
static Xt_redist of_places(const struct peers_mesh *mesh, Xt_xmap map, MPI_Datatype type, int values,
                           Xt_config config) {
    int *owned = calloc((size_t)mesh->owned, sizeof *owned), *halo = calloc((size_t)mesh->halo, sizeof *halo);
    for (int cell = 0; cell < mesh->owned; cell++) owned[cell] = place_of(mesh, cell) / values;
    for (int cell = 0; cell < mesh->halo; cell++) halo[cell] = place_of(mesh, mesh->owned + cell) / values;
    Xt_redist made = xt_redist_p2p_off_custom_new(map, owned, halo, type, config);
    free(owned), free(halo);
    return made;
}

/* Returns the redistribution of one level, repeated for all levels. */
static Xt_redist repeated(const struct peers_mesh *mesh, Xt_xmap map, Xt_config config) {
    MPI_Aint bytes = (MPI_Aint)mesh->nproma * (MPI_Aint)sizeof(double);
    int *levels = calloc((size_t)mesh->levels, sizeof *levels);
    for (int level = 0; level < mesh->levels; level++) levels[level] = level;
    Xt_redist one = of_places(mesh, map, MPI_DOUBLE, 1, config);
    Xt_redist all = xt_redist_repeat_custom_new(one, bytes, bytes, mesh->levels, levels, config);
    xt_redist_delete(one);
    free(levels);
    return all;
}

/* Returns the redistribution of one field, whose source and target both begin at its first cell. */
static Xt_redist of_field(const struct peers_mesh *mesh, Xt_xmap map, Xt_config config, enum way way) {
    if (mesh->nproma > 1 && way != COLUMNS) return repeated(mesh, map, config);
    MPI_Datatype column = column_of(mesh);
    Xt_redist columns = of_places(mesh, map, column, mesh->nproma > 1 ? 1 : mesh->levels, config);
    MPI_Type_free(&column);
    return columns;
}

/* Returns the redistribution of all fields in one exchange. The collection is static: no field moves. */
static Xt_redist of_fields(const struct yaxt *yaxt, Xt_redist field, Xt_config config) {
    int fields = yaxt->mesh->fields;
    Xt_redist *redists = calloc((size_t)fields, sizeof *redists);
    MPI_Aint *places = calloc((size_t)fields, sizeof *places);
    for (int number = 0; number < fields; number++) {
        redists[number] = field;
        places[number] = (MPI_Aint)((size_t)number * yaxt->stride * sizeof(double));
    }
    Xt_redist all =
        xt_redist_collection_static_custom_new(redists, fields, places, places, yaxt->comm, config);
    free(redists), free(places);
    return all;
}

static void *create(int fcomm, const void *problem, const char *exchanger, enum way way) {
    Xt_config config = configuration(exchanger);
    if (!config) return NULL;
    struct yaxt *yaxt = calloc(1, sizeof *yaxt);
    const struct peers_mesh *mesh = yaxt->mesh = problem;
    if (!users++) xt_initialize(MPI_Comm_f2c(fcomm));
    MPI_Comm_dup(MPI_Comm_f2c(fcomm), &yaxt->comm);
    xt_mpi_comm_mark_exclusive(yaxt->comm); /* so YAXT makes no copy of its own */
    int blocks = (mesh->owned + mesh->halo + mesh->nproma - 1) / mesh->nproma;
    size_t values = (size_t)blocks * (size_t)mesh->nproma * (size_t)mesh->levels;
    yaxt->stride = (values + 7) / 8 * 8; /* every field begins on a cache line */
    yaxt->fields = private_new((size_t)mesh->fields * yaxt->stride * sizeof(double));
    Xt_xmap map = map_of(mesh, yaxt->comm);
    yaxt->redist = of_field(mesh, map, config, way);
    yaxt->exchanges = way == ONE_BY_ONE ? mesh->fields : 1;
    if (yaxt->exchanges < mesh->fields) {
        Xt_redist field = yaxt->redist;
        yaxt->redist = of_fields(yaxt, field, config);
        xt_redist_delete(field);
    }
    xt_xmap_delete(map);
    xt_config_delete(config);
    return yaxt;
}

static int run(void *state, int batch) {
    struct yaxt *yaxt = state;
    while (batch-- > 0)
        for (int number = 0; number < yaxt->exchanges; number++) {
            double *values = yaxt->fields + (size_t)number * yaxt->stride;
            xt_redist_s_exchange1(yaxt->redist, values, values);
        }
    return 0; /* YAXT returns no errors: it ends the job */
}

static double *field(void *state, int number) {
    struct yaxt *yaxt = state;
    return yaxt->fields + (size_t)number * yaxt->stride;
}

static void destroy(void *state) {
    struct yaxt *yaxt = state;
    xt_redist_delete(yaxt->redist);
    MPI_Comm_free(&yaxt->comm);
    free(yaxt->fields), free(yaxt);
    if (!--users) xt_finalize();
}

/* The default exchanger is mix_irecv_isend. */
static void *as_icon(int comm, const void *problem) { return create(comm, problem, NULL, AS_ICON); }
static void *columns(int comm, const void *problem) { return create(comm, problem, NULL, COLUMNS); }
static void *one_by_one(int comm, const void *problem) { return create(comm, problem, NULL, ONE_BY_ONE); }
static void *irecv_send(int comm, const void *problem) {
    return create(comm, problem, "irecv_send", AS_ICON);
}
static void *irecv_isend(int comm, const void *problem) {
    return create(comm, problem, "irecv_isend", AS_ICON);
}
static void *packed(int comm, const void *problem) {
    return create(comm, problem, "irecv_isend_packed", AS_ICON);
}
static void *ddt_packed(int comm, const void *problem) {
    return create(comm, problem, "irecv_isend_ddt_packed", AS_ICON);
}
static void *neigh_alltoall(int comm, const void *problem) {
    return create(comm, problem, "neigh_alltoall", AS_ICON);
}

const struct peers_strategy *peers_mesh_strategies(void) {
    static const struct peers_strategy list[] = {
        {"YAXT", as_icon, run, field, NULL, NULL, destroy, 0},
        {"YAXT: a column for each cell", columns, run, field, NULL, NULL, destroy, 0},
        {"YAXT: an exchange for each field", one_by_one, run, field, NULL, NULL, destroy, 0},
        {"YAXT: irecv_send", irecv_send, run, field, NULL, NULL, destroy, 0},
        {"YAXT: irecv_isend", irecv_isend, run, field, NULL, NULL, destroy, 0},
        {"YAXT: irecv_isend_packed", packed, run, field, NULL, NULL, destroy, 0},
        {"YAXT: irecv_isend_ddt_packed", ddt_packed, run, field, NULL, NULL, destroy, 0},
        {"YAXT: neigh_alltoall", neigh_alltoall, run, field, NULL, NULL, destroy, 0},
        {NULL, NULL, NULL, NULL, NULL, NULL, NULL, 0},
    };
    return list;
}
