/*
 * Random exchanges against an oracle: cases FIRST COUNT. Ranks are threads; compiled with -DWITH_MPI, at most 4 processes of MPI. A
 * case is a grid or unstructured domains, with a few fields of any type, any order of axes, any strides and addresses; every byte of
 * every array is compared.
 */
#ifdef WITH_MPI
#include <mpi.h>
#endif
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "haloport.h"

#define CHECK(call)                                                                              \
    do {                                                                                         \
        if ((call) != HP_OK) fail("%s", hp_message());                                           \
    } while (0)
#define fail(...)                                                                                \
    do {                                                                                         \
        fprintf(stderr, "case %d: ", current);                                                   \
        fprintf(stderr, __VA_ARGS__);                                                            \
        fprintf(stderr, "\n");                                                                   \
        exit(1);                                                                                 \
    } while (0)

enum { MOST_RANKS = 4, MOST_FIELDS = 3, MOST_AXES = 6, MOST_IDS = 60, ROUNDS = 3, MARGIN = 64 };

static int current;

/* xorshift: the same numbers everywhere. */
static uint64_t draw(uint64_t *state) {
    *state ^= *state << 13, *state ^= *state >> 7, *state ^= *state << 17;
    return *state;
}
static int below(uint64_t *state, int end) { return (int)(draw(state) % (uint64_t)end); }
static int from_to(uint64_t *state, int low, int high) { return low + below(state, high - low + 1); }

/* What all ranks of a case know. */
typedef struct shared {
    int ranks, grid, fields, lists;
    hp_grid of_grid;
    int ids, owner[MOST_IDS], reads[MOST_RANKS][MOST_IDS];
    struct { int type, bytes, levels, components, further; } field[MOST_FIELDS];
    int fixed, memory, rounds;
} shared;

/* An array of this rank: where each element is. */
typedef struct array {
    hp_array like;
    int cell_axis[4], block_axis, level_axis, component_axis; /* places; -1: none */
    int64_t nproma;
    char *memory, *first, *expected;
    size_t bytes, span; /* of the memory, and from the first element to the end of the last one if strides are positive */
} array;

static const int TYPE_BYTES[] = {0, 1, 2, 4, 8, 1, 2, 4, 8, 2, 2, 4, 8, 8, 16};

/* `ranks` is 0 if the case may have any number of ranks. */
static shared draw_shared(int number, int ranks) {
    uint64_t random = 0x9E3779B97F4A7C15u * (uint64_t)(number + 1);
    shared made;
    memset(&made, 0, sizeof made);
    for (int i = 0; i < 8; i++) draw(&random);
    made.ranks = from_to(&random, 1, MOST_RANKS);
    if (ranks > 0) made.ranks = ranks;
    made.grid = below(&random, 2);
    if (made.grid) {
        hp_grid grid = HP_GRID_INIT;
        grid.axes = from_to(&random, 1, 3);
        grid.faces_only = below(&random, 3) == 0;
        for (int axis = 0; axis < grid.axes; axis++) {
            grid.cells[axis] = from_to(&random, 4, 9);
            grid.periodic[axis] = below(&random, 2);
            grid.halo_lower[axis] = below(&random, 3);
            grid.halo_upper[axis] = below(&random, 3);
        }
        made.of_grid = grid;
    } else {
        made.ids = from_to(&random, 1, MOST_IDS);
        made.lists = below(&random, 3) == 0;
        for (int id = 0; id < made.ids; id++) made.owner[id] = below(&random, made.ranks);
        for (int rank = 0; rank < made.ranks; rank++)
            for (int id = 0; id < made.ids; id++) made.reads[rank][id] = made.owner[id] != rank && below(&random, 3) == 0;
    }
    made.fields = from_to(&random, 1, MOST_FIELDS);
    for (int field = 0; field < made.fields; field++) {
        int type = from_to(&random, HP_I8, HP_BYTES);
        made.field[field].type = type;
        made.field[field].bytes = type == HP_BYTES ? from_to(&random, 1, 24) : TYPE_BYTES[type];
        made.field[field].levels = below(&random, 2) ? from_to(&random, 1, 4) : 0;
        made.field[field].components = below(&random, 4) == 0 ? from_to(&random, 1, 3) : 0;
    }
    made.fixed = below(&random, 3) == 0;
    made.memory = below(&random, 2);
    made.rounds = ROUNDS;
    return made;
}

/* The bytes of an element: of a field, in a round, at a cell, a level and a component. */
static void value(char *to, int bytes, int field, int round, int64_t cell, int64_t level, int64_t component) {
    uint64_t state = 0x2545F4914F6CDD1Du ^ (uint64_t)(field + 1) * 1000003u ^ (uint64_t)(round + 1) * 7919u ^
                     (uint64_t)(cell + 1) * 0x100000001B3u ^ (uint64_t)(level + 1) * 104729u ^ (uint64_t)(component + 1) * 15485863u;
    for (int i = 0; i < bytes; i++) to[i] = (char)draw(&state);
}

/* Draws how the cells of this rank lie in an array; `extent` has those of the cells with their halo along each of `own` axes. */
static array draw_array(const shared *of, int field, int own, const int64_t *extent, const int32_t *halo, int simple, uint64_t *random) {
    array made;
    memset(&made, 0, sizeof made);
    hp_array like = HP_ARRAY_INIT;
    like.type = of->field[field].type;
    like.element_bytes = of->field[field].type == HP_BYTES || below(random, 2) ? of->field[field].bytes : 0;
    made.block_axis = made.level_axis = made.component_axis = -1;
    int roles[MOST_AXES], axes = 0;
    for (int axis = 0; axis < own; axis++) roles[axes++] = HP_CELLS + axis;
    int blocked = !of->grid && !simple && below(random, 2);
    if (blocked) roles[axes++] = HP_CELL_BLOCKS;
    if (of->field[field].levels) roles[axes++] = HP_LEVELS;
    if (of->field[field].components) roles[axes++] = HP_COMPONENTS;
    for (int axis = axes - 1; axis > 0; axis--) {
        int other = below(random, axis + 1), role = roles[axis];
        roles[axis] = roles[other], roles[other] = role;
    }
    int roomy = of->grid && !simple && below(random, 3) == 0;
    like.axes = axes;
    for (int axis = 0; axis < axes; axis++) {
        int role = like.role[axis] = roles[axis];
        if (role == HP_CELL_BLOCKS) {
            made.block_axis = axis;
        } else if (role == HP_LEVELS) {
            made.level_axis = axis, like.extent[axis] = of->field[field].levels;
        } else if (role == HP_COMPONENTS) {
            made.component_axis = axis, like.extent[axis] = of->field[field].components;
        } else {
            int cells = role - HP_CELLS;
            made.cell_axis[cells] = axis;
            like.extent[axis] = extent[cells];
            if (roomy) {
                like.origin[cells] = halo[cells] + below(random, 3);
                like.extent[axis] += like.origin[cells] - halo[cells] + below(random, 3);
                if (extent[cells] == 0) like.extent[axis] = 0;
            } else if (!of->grid && !blocked) {
                like.extent[axis] += simple ? 0 : below(random, 4);
            }
        }
    }
    if (roomy) {
        /* An origin of 0 along every axis stands for the widths of the halo. */
        int all_zero = 1;
        for (int cells = 0; cells < own; cells++) all_zero &= like.origin[cells] == 0;
        if (all_zero)
            for (int cells = 0; cells < own; cells++) like.extent[made.cell_axis[cells]] = extent[cells];
    }
    if (blocked) {
        static const int SIZES[] = {1, 8, 32};
        int choice = below(random, 4);
        made.nproma = choice < 3 ? SIZES[choice] : (extent[0] > 0 ? extent[0] : 1);
        like.extent[made.cell_axis[0]] = made.nproma;
        like.extent[made.block_axis] = (extent[0] + made.nproma - 1) / made.nproma + below(random, 2);
    }
    /* Strides: any order of the axes in memory, gaps, either sign. */
    int order[MOST_AXES];
    for (int axis = 0; axis < axes; axis++) order[axis] = axis;
    int plain = below(random, 4) == 0;
    for (int axis = axes - 1; axis > 0 && !plain; axis--) {
        int other = below(random, axis + 1), place = order[axis];
        order[axis] = order[other], order[other] = place;
    }
    int64_t stride = of->field[field].bytes, low = 0;
    for (int place = axes - 1; place >= 0; place--) {
        int axis = order[place];
        like.stride[axis] = stride;
        if (!plain && !simple && below(random, 4) == 0 && !blocked) {
            low += (like.extent[axis] > 0 ? like.extent[axis] - 1 : 0) * stride;
            like.stride[axis] = -stride;
        }
        stride *= (like.extent[axis] > 0 ? like.extent[axis] : 1);
        stride += plain ? 0 : of->field[field].bytes * below(random, 2);
    }
    made.span = (size_t)of->field[field].bytes;
    for (int axis = 0; axis < axes; axis++) {
        made.span += (size_t)((like.extent[axis] > 0 ? like.extent[axis] - 1 : 0) * llabs(like.stride[axis]));
        if (like.extent[axis] == 0) made.span = 0, axis = axes;
    }
    made.bytes = (size_t)stride + 2 * MARGIN;
    made.memory = malloc(made.bytes), made.expected = malloc(made.bytes);
    made.first = made.memory + MARGIN + low;
    if (plain && below(random, 2)) memset(like.stride, 0, sizeof like.stride);
    made.like = like;
    return made;
}

/* The place of an element in an array, in bytes from its first one. */
static int64_t place(const array *of, int own, int bytes, const int64_t *cell, int64_t level, int64_t component) {
    int64_t stride[8];
    memcpy(stride, of->like.stride, sizeof stride);
    int all_zero = 1;
    for (int axis = 0; axis < of->like.axes; axis++) all_zero &= stride[axis] == 0;
    if (all_zero) {
        int64_t next = bytes;
        for (int axis = of->like.axes - 1; axis >= 0; axis--) {
            stride[axis] = next;
            next *= of->like.extent[axis] > 0 ? of->like.extent[axis] : 1;
        }
    }
    int64_t at = 0;
    for (int axis = 0; axis < own; axis++) {
        int64_t index = cell[axis];
        if (of->block_axis >= 0) {
            at += index / of->nproma * stride[of->block_axis];
            index %= of->nproma;
        }
        at += index * stride[of->cell_axis[axis]];
    }
    if (of->level_axis >= 0) at += level * stride[of->level_axis];
    if (of->component_axis >= 0) at += component * stride[of->component_axis];
    return at;
}

/* One rank of a case. */
typedef struct participant {
    shared of;
    int rank, number;
    hp_comm *comm;
} participant;

/* The cells of a rank: for each the number in the grid or mesh, whether it is owned, and whether exchanges fill it. */
typedef struct cells {
    int own, count;
    int64_t extent[4];
    int64_t *number;
    char *owned, *filled;
} cells;

static cells cells_of_grid(const shared *of, const hp_box *owned, const hp_box *all) {
    cells made;
    memset(&made, 0, sizeof made);
    made.own = of->of_grid.axes, made.count = 1;
    for (int axis = 0; axis < made.own; axis++) made.count *= (int)(made.extent[axis] = all->upper[axis] - all->lower[axis]);
    size_t room = (size_t)made.count + 1;
    made.number = malloc(room * sizeof *made.number), made.owned = calloc(room, 1), made.filled = calloc(room, 1);
    for (int cell = 0; cell < made.count; cell++) {
        int64_t rest = cell, number = 0;
        int outside = 0, exists = 1;
        int64_t index[4];
        for (int axis = made.own - 1; axis >= 0; axis--) index[axis] = rest % made.extent[axis] + all->lower[axis], rest /= made.extent[axis];
        for (int axis = 0; axis < made.own; axis++) {
            int64_t end = of->of_grid.cells[axis];
            outside += index[axis] < owned->lower[axis] || index[axis] >= owned->upper[axis];
            if (of->of_grid.periodic[axis]) index[axis] = ((index[axis] % end) + end) % end;
            exists &= index[axis] >= 0 && index[axis] < end;
            number = number * 1000 + index[axis] + 100;
        }
        made.number[cell] = number;
        made.owned[cell] = outside == 0;
        made.filled[cell] = outside > 0 && exists && (outside == 1 || !of->of_grid.faces_only);
    }
    return made;
}

/* Fails if the stencil of a cell of the interior, as wide as the halo, has a cell that exchanges fill. */
static void check_interior(const shared *of, const cells *mine, const hp_box *all, const hp_box *interior) {
    const hp_grid *grid = &of->of_grid;
    for (int cell = 0; cell < mine->count; cell++) {
        int64_t index[4], rest = cell, other;
        int inside = 1, steps = 1;
        for (int axis = mine->own - 1; axis >= 0; axis--) {
            index[axis] = rest % mine->extent[axis] + all->lower[axis], rest /= mine->extent[axis];
            inside &= index[axis] >= interior->lower[axis] && index[axis] < interior->upper[axis];
            steps *= grid->halo_lower[axis] + grid->halo_upper[axis] + 1;
        }
        if (inside && !mine->owned[cell]) fail("the interior has a cell that is not owned");
        for (int step = 0; inside && step < steps; step++) {
            int moved = 0;
            rest = step, other = 0;
            for (int axis = 0; axis < mine->own; axis++) {
                int64_t width = grid->halo_lower[axis] + grid->halo_upper[axis] + 1, by = rest % width - grid->halo_lower[axis];
                rest /= width, moved += by != 0;
                other = other * mine->extent[axis] + index[axis] + by - all->lower[axis];
            }
            if (grid->faces_only && moved > 1) continue;
            if (mine->filled[other]) fail("the interior needs a cell that exchanges fill");
        }
    }
}

static hp_pattern *pattern_of_ids(participant *me, cells *made, uint64_t *random) {
    const shared *of = &me->of;
    int64_t ids[MOST_IDS];
    uint8_t owned[MOST_IDS];
    int32_t owners[MOST_IDS];
    int count = 0;
    for (int id = 0; id < of->ids; id++)
        if (of->owner[id] == me->rank || of->reads[me->rank][id]) ids[count++] = id;
    for (int place = count - 1; place > 0; place--) {
        int other = below(random, place + 1);
        int64_t id = ids[place];
        ids[place] = ids[other], ids[other] = id;
    }
    memset(made, 0, sizeof *made);
    made->own = 1, made->count = count, made->extent[0] = count;
    size_t room = (size_t)count + 1;
    made->number = malloc(room * sizeof *made->number), made->owned = calloc(room, 1), made->filled = calloc(room, 1);
    for (int cell = 0; cell < count; cell++) {
        owners[cell] = of->owner[ids[cell]];
        owned[cell] = owners[cell] == me->rank;
        made->number[cell] = ids[cell];
        made->owned[cell] = (char)owned[cell], made->filled[cell] = !owned[cell];
    }
    hp_pattern *pattern;
    if (!of->lists) {
        hp_ids set = HP_IDS_INIT;
        set.cells = count, set.ids = ids, set.owned = owned, set.owners = me->number % 2 ? owners : NULL;
        CHECK(hp_pattern_ids(me->comm, 1, &set, &pattern));
        return pattern;
    }
    /* In the order of ids, which both sides know. */
    static const hp_list NOTHING = HP_LIST_INIT;
    hp_list send[MOST_RANKS], receive[MOST_RANKS];
    int32_t sent[MOST_RANKS][MOST_IDS], received[MOST_RANKS][MOST_IDS], at[MOST_IDS];
    for (int cell = 0; cell < count; cell++) at[ids[cell]] = cell;
    for (int rank = 0; rank < of->ranks; rank++) {
        send[rank] = receive[rank] = NOTHING;
        send[rank].rank = receive[rank].rank = rank, send[rank].at = sent[rank], receive[rank].at = received[rank];
        for (int id = 0; id < of->ids; id++) {
            if (of->owner[id] == me->rank && of->reads[rank][id]) sent[rank][send[rank].cells++] = at[id];
            if (of->owner[id] == rank && of->reads[me->rank][id]) received[rank][receive[rank].cells++] = at[id];
        }
    }
    CHECK(hp_pattern_lists(me->comm, count, of->ranks, send, of->ranks, receive, &pattern));
    return pattern;
}

/* Fills an array before a round, and what is expected after it. */
static void fill(const array *it, const cells *of, const shared *with, int field, int round) {
    int bytes = with->field[field].bytes;
    int levels = with->field[field].levels ? with->field[field].levels : 1;
    int components = with->field[field].components ? with->field[field].components : 1;
    memset(it->memory, 0x5A, it->bytes);
    memset(it->expected, 0x5A, it->bytes);
    for (int cell = 0; cell < of->count; cell++) {
        int64_t index[4], rest = cell;
        for (int axis = of->own - 1; axis >= 0; axis--) {
            index[axis] = rest % of->extent[axis], rest /= of->extent[axis];
            if (with->grid && it->like.origin[axis] > with->of_grid.halo_lower[axis])
                index[axis] += it->like.origin[axis] - with->of_grid.halo_lower[axis];
        }
        for (int level = 0; level < levels; level++)
            for (int component = 0; component < components; component++) {
                int64_t at = it->first - it->memory + place(it, of->own, bytes, index, level, component);
                char found[32];
                value(found, bytes, field, round, of->number[cell], level, component);
                if (of->owned[cell]) memcpy(it->memory + at, found, (size_t)bytes);
                if (of->owned[cell] || of->filled[cell]) memcpy(it->expected + at, found, (size_t)bytes);
            }
    }
}

/* Compares a set of arrays with what is expected after a round; `memory` is that of the fields of set 0, or null. */
static void compare(const participant *me, array (*fields)[2], int set, hp_memory *const *memory, void *const *data, int round) {
    for (int field = 0; field < me->of.fields; field++) {
        array *it = &fields[field][set];
        if (memory[field]) memcpy(it->first, data[field], it->span);
        if (memcmp(it->memory, it->expected, it->bytes) != 0)
            fail("rank %d, field %d, round %d: other elements than expected", me->rank, field, round);
    }
}

static void *participate(void *argument) {
    participant *me = argument;
    const shared *of = &me->of;
    uint64_t random = 0xD1342543DE82EF95u * (uint64_t)(me->number * 8 + me->rank + 1);
    for (int i = 0; i < 8; i++) draw(&random);
    hp_pattern *pattern;
    cells mine;
    if (of->grid) {
        hp_box owned, all, interior;
        CHECK(hp_pattern_grid(me->comm, &of->of_grid, HP_SPLIT, NULL, &pattern));
        CHECK(hp_pattern_domain(pattern, NULL, 0, &owned, &all, &interior));
        mine = cells_of_grid(of, &owned, &all);
        check_interior(of, &mine, &all, &interior);
    } else {
        pattern = pattern_of_ids(me, &mine, &random);
    }
    array fields[MOST_FIELDS][2];
    hp_array like[MOST_FIELDS];
    void *data[2][MOST_FIELDS];
    hp_memory *memory[MOST_FIELDS] = {NULL};
    for (int field = 0; field < of->fields; field++) {
        int simple = of->fixed && of->memory;
        fields[field][0] = draw_array(of, field, mine.own, mine.extent, of->of_grid.halo_lower, simple, &random);
        like[field] = fields[field][0].like;
        /* The same layout at another address. */
        array *other = &fields[field][1];
        *other = fields[field][0];
        other->memory = malloc(other->bytes), other->expected = malloc(other->bytes);
        other->first = other->memory + (fields[field][0].first - fields[field][0].memory);
        for (int set = 0; set < 2; set++) data[set][field] = fields[field][set].first;
        if (simple) {
            CHECK(hp_memory_create(pattern, &like[field], &memory[field], &data[0][field]));
        }
    }
    /* After MPI_Init no other thread may call MPI. */
    hp_status asked = hp_comm_set_progress(me->comm, below(&random, 2) ? HP_PROGRESS_THREAD : HP_PROGRESS_CALLER);
    if (asked != HP_WRONG_THREAD) CHECK(asked);
    hp_options options = HP_OPTIONS_INIT;
    options.fixed = of->fixed, options.in_flight = of->fixed ? 1 : 2, options.share = of->fixed && below(&random, 2);
    hp_plan *plan;
    hp_stream stream = {HP_DEFAULT, 0, 0};
    CHECK(hp_plan_create(pattern, of->fields, like, of->fixed ? data[0] : NULL, &options, &plan));
    for (int round = 0; round < of->rounds; round++) {
        /* Each rank chooses for itself. */
        int set = of->fixed ? 0 : below(&random, 2), manner = below(&random, 3), two = !of->fixed && round == 1;
        for (int field = 0; field < of->fields; field++)
            for (int which = 0; which < 2; which++) {
                fill(&fields[field][which], &mine, of, field, two && which != set ? round + 100 : round);
                if (memory[field] && which == 0) {
                    memcpy(data[0][field], fields[field][0].first, fields[field][0].span);
                }
            }
        if (two) {
            hp_ticket tickets[2];
            int first = below(&random, 2) ? set : 1 - set;
            CHECK(hp_start(plan, data[set], stream, &tickets[set]));
            CHECK(hp_start(plan, data[1 - set], stream, &tickets[1 - set]));
            CHECK(hp_finish(plan, tickets[first], stream));
            compare(me, fields, first, memory, data[0], round);
            CHECK(hp_finish(plan, tickets[1 - first], stream));
            compare(me, fields, 1 - first, memory, data[0], round);
        } else if (manner == 0) {
            CHECK(hp_exchange(plan, of->fixed ? NULL : data[set], stream));
        } else {
            int32_t ready = 0;
            hp_ticket ticket;
            CHECK(hp_start(plan, of->fixed ? NULL : data[set], stream, &ticket));
            while (manner == 2 && !ready) CHECK(hp_ready(plan, ticket, &ready));
            CHECK(hp_finish(plan, ticket, stream));
        }
        if (!two) compare(me, fields, set, memory, data[0], round);
    }
    CHECK(hp_plan_free(plan));
    for (int field = 0; field < of->fields; field++) {
        CHECK(hp_memory_free(memory[field]));
        for (int which = 0; which < 2; which++) free(fields[field][which].memory), free(fields[field][which].expected);
    }
    CHECK(hp_pattern_free(pattern));
    CHECK(hp_comm_free(me->comm));
    free(mine.number), free(mine.owned), free(mine.filled);
    return NULL;
}

#ifdef WITH_MPI
static int ranks_of_job(void) {
    int ranks;
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    if (ranks > MOST_RANKS) fail("expected at most %d ranks, found %d", MOST_RANKS, ranks);
    return ranks;
}

static void run_case(const shared *of) {
    participant me = {*of, 0, current, NULL};
    MPI_Comm world = MPI_COMM_WORLD;
    MPI_Comm_rank(world, &me.rank);
    CHECK(hp_comm_mpi(&world, sizeof world, &me.comm));
    participate(&me);
}
#else
static int ranks_of_job(void) { return 0; }

static void run_case(const shared *of) {
    participant ranks[MOST_RANKS];
    hp_comm *comms[MOST_RANKS];
    pthread_t threads[MOST_RANKS];
    CHECK(hp_comm_threads(of->ranks, comms));
    for (int rank = 0; rank < of->ranks; rank++) {
        participant made = {*of, rank, current, comms[rank]};
        ranks[rank] = made;
        if (pthread_create(&threads[rank], NULL, participate, &ranks[rank]) != 0) fail("no thread");
    }
    for (int rank = 0; rank < of->ranks; rank++) pthread_join(threads[rank], NULL);
}
#endif

int main(int arguments, char **argument) {
    int first = arguments > 1 ? atoi(argument[1]) : 0, count = arguments > 2 ? atoi(argument[2]) : 300, grids = 0;
#ifdef WITH_MPI
    MPI_Init(&arguments, &argument);
#endif
    int ranks = ranks_of_job();
    for (current = first; current < first + count; current++) {
        shared of = draw_shared(current, ranks);
        grids += of.grid;
        run_case(&of);
    }
#ifdef WITH_MPI
    MPI_Finalize();
#endif
    printf("%d cases, %d of them on grids\n", count, grids);
    return 0;
}
