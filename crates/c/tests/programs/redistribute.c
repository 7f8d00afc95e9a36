/*
 * Redistributions against an oracle: redistribute FIRST COUNT. Ranks are threads. A case has the cells of a grid, or cells with ids, cut
 * in two ways, with any domains on each rank on either side, and pairs of arrays with levels and any order of axes. Before the
 * cases, calls that are refused.
 */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "haloport.h"

#define CHECK(call)                                                                              \
    do {                                                                                         \
        if ((call) != HP_OK) fail("%s", hp_message());                                           \
    } while (0)
#define REFUSED(expected, word, call)                                                            \
    do {                                                                                         \
        hp_status found = (call);                                                                \
        if (found != (expected) || !strstr(hp_message(), word))                                  \
            fail("line %d: expected %d and \"%s\", found %d: %s", __LINE__, (int)(expected), word, (int)found, hp_message()); \
    } while (0)
#define fail(...)                                                                                \
    do {                                                                                         \
        fprintf(stderr, "case %d: ", current);                                                   \
        fprintf(stderr, __VA_ARGS__);                                                            \
        fprintf(stderr, "\n");                                                                   \
        exit(1);                                                                                 \
    } while (0)

enum { MOST_RANKS = 4, MOST_DOMAINS = 9, MOST_FIELDS = 2, ROUNDS = 2, NOTHING = -7 };

static int current;

static uint64_t draw(uint64_t *state) {
    *state ^= *state << 13, *state ^= *state >> 7, *state ^= *state << 17;
    return *state;
}
static int below(uint64_t *state, int end) { return (int)(draw(state) % (uint64_t)end); }

/* A way to cut the cells: which rank has each domain, and in a mesh which domain owns each cell. */
typedef struct cut {
    int domains, owner[MOST_DOMAINS], halo;
    hp_box box[MOST_DOMAINS];
    int domain_of[64];
} cut;

/* What all ranks of a case know. */
typedef struct shared {
    int ranks, axes, cells[3], all, fields, levels[MOST_FIELDS], fill_halo, fixed, memory, path, number;
    cut sides[2];
    hp_comm *comms[MOST_RANKS];
} shared;

/* An array of a domain. */
typedef struct array {
    hp_array like;
    int64_t cells, levels, cell_stride[4], level_stride, extent[4];
    double *first;
    hp_memory *memory;
} array;

typedef struct participant {
    shared *of;
    int rank;
} participant;

/* Halves boxes at random places, until there are enough, or none has two cells along the axis that is drawn. */
static void cut_grid(cut *made, const shared *of, uint64_t *random) {
    int wanted = 1 + below(random, MOST_DOMAINS);
    memset(made, 0, sizeof *made);
    made->domains = 1;
    for (int axis = 0; axis < of->axes; axis++) made->box[0].upper[axis] = of->cells[axis];
    for (int attempt = 0; attempt < 40 && made->domains < wanted; attempt++) {
        hp_box *box = &made->box[below(random, made->domains)], *other = &made->box[made->domains];
        int axis = below(random, of->axes), width = (int)(box->upper[axis] - box->lower[axis]);
        if (width < 2) continue;
        *other = *box;
        box->upper[axis] = other->lower[axis] = box->lower[axis] + 1 + below(random, width - 1);
        made->domains++;
    }
    made->halo = below(random, 2);
}

static shared draw_case(int number) {
    uint64_t random = 0x9E3779B97F4A7C15u * (uint64_t)(number + 1);
    shared made;
    memset(&made, 0, sizeof made);
    for (int i = 0; i < 8; i++) draw(&random);
    made.number = number;
    made.ranks = 1 + below(&random, MOST_RANKS);
    made.axes = below(&random, 4); /* 0: a mesh */
    made.all = 1;
    for (int axis = 0; axis < made.axes; axis++) made.all *= made.cells[axis] = 1 + below(&random, 6);
    if (made.axes == 0) made.all = 1 + below(&random, 40);
    for (int side = 0; side < 2; side++) {
        cut *to = &made.sides[side];
        if (made.axes > 0) {
            cut_grid(to, &made, &random);
        } else {
            to->domains = 1 + below(&random, MOST_DOMAINS), to->halo = below(&random, 2);
            for (int cell = 0; cell < made.all; cell++) to->domain_of[cell] = below(&random, to->domains);
        }
        /* All on one rank at times. */
        int alone = below(&random, 3) == 0, one = below(&random, made.ranks);
        for (int domain = 0; domain < to->domains; domain++) to->owner[domain] = alone ? one : below(&random, made.ranks);
    }
    made.fields = 1 + below(&random, MOST_FIELDS);
    for (int field = 0; field < made.fields; field++) made.levels[field] = 1 + below(&random, 3);
    made.fill_halo = below(&random, 2), made.fixed = below(&random, 2), made.memory = below(&random, 2);
    made.path = below(&random, 3);
    return made;
}

/* The cells of a domain: those that it owns, and its halo. In a mesh every second cell that it does not own is in the halo. */
static int64_t cells_of(const shared *of, const cut *from, int domain, int64_t extent[4]) {
    if (of->axes == 0) {
        extent[0] = 0;
        for (int cell = 0; cell < of->all; cell++)
            extent[0] += from->domain_of[cell] == domain || (from->halo && cell % 2 == domain % 2);
        return extent[0];
    }
    int64_t count = 1;
    for (int axis = 0; axis < of->axes; axis++) {
        extent[axis] = from->box[domain].upper[axis] - from->box[domain].lower[axis] + 2 * from->halo;
        count *= extent[axis];
    }
    return count;
}

/* The number of cell `place` of a domain, and whether the domain owns it; -1 beyond the ends of the grid. */
static int number_of(const shared *of, const cut *from, int domain, int64_t place, int *owned) {
    if (of->axes == 0) {
        for (int cell = 0; cell < of->all; cell++) {
            *owned = from->domain_of[cell] == domain;
            if ((*owned || (from->halo && cell % 2 == domain % 2)) && place-- == 0) return cell;
        }
        return -1;
    }
    int64_t extent[4], index[4];
    cells_of(of, from, domain, extent);
    for (int axis = of->axes - 1; axis >= 0; axis--) index[axis] = place % extent[axis], place /= extent[axis];
    int number = 0, inside = 1;
    *owned = 1;
    for (int axis = 0; axis < of->axes; axis++) {
        const hp_box *box = &from->box[domain];
        int64_t at = index[axis] + box->lower[axis] - from->halo;
        *owned &= at >= box->lower[axis] && at < box->upper[axis];
        inside &= at >= 0 && at < of->cells[axis];
        number = number * of->cells[axis] + (int)at;
    }
    return inside ? number : -1;
}

static hp_pattern *pattern_of(const shared *of, const cut *from, int rank) {
    hp_pattern *made;
    if (of->axes > 0) {
        hp_grid grid = HP_GRID_INIT;
        hp_box mine[MOST_DOMAINS];
        int count = 0;
        grid.axes = of->axes;
        for (int axis = 0; axis < of->axes; axis++)
            grid.cells[axis] = of->cells[axis], grid.halo_lower[axis] = grid.halo_upper[axis] = from->halo;
        for (int domain = 0; domain < from->domains; domain++)
            if (from->owner[domain] == rank) mine[count++] = from->box[domain];
        CHECK(hp_pattern_grid(of->comms[rank], &grid, count, mine, &made));
        return made;
    }
    hp_ids sets[MOST_DOMAINS];
    int64_t ids[MOST_DOMAINS][64], extent[4];
    uint8_t owns[MOST_DOMAINS][64];
    int count = 0;
    for (int domain = 0; domain < from->domains; domain++) {
        if (from->owner[domain] != rank) continue;
        hp_ids set = HP_IDS_INIT;
        set.cells = cells_of(of, from, domain, extent), set.ids = ids[count], set.owned = owns[count];
        for (int64_t cell = 0; cell < set.cells; cell++) {
            int owned;
            ids[count][cell] = 1000 + number_of(of, from, domain, cell, &owned);
            owns[count][cell] = (uint8_t)owned;
        }
        sets[count++] = set;
    }
    CHECK(hp_pattern_ids(of->comms[rank], count, sets, &made));
    return made;
}

/* An array with its axes in any order in memory, of which the order in `like` is another one. */
static array array_of(const shared *of, const cut *from, int domain, int levels, uint64_t *random) {
    array made;
    memset(&made, 0, sizeof made);
    hp_array like = HP_ARRAY_INIT;
    int own = of->axes > 0 ? of->axes : 1, order[4], axes = own + 1;
    made.cells = cells_of(of, from, domain, made.extent), made.levels = levels;
    like.type = HP_F64, like.axes = axes;
    for (int axis = 0; axis < axes; axis++) order[axis] = axis;
    for (int axis = axes - 1; axis > 0; axis--) {
        int other = below(random, axis + 1), place = order[axis];
        order[axis] = order[other], order[other] = place;
    }
    int64_t stride = 1;
    for (int place = axes - 1; place >= 0; place--) {
        int axis = order[place];
        like.role[place] = axis < own ? HP_CELLS + axis : HP_LEVELS;
        like.extent[place] = axis < own ? made.extent[axis] : levels;
        like.stride[place] = stride * (int64_t)sizeof(double);
        if (axis < own)
            made.cell_stride[axis] = stride;
        else
            made.level_stride = stride;
        stride *= like.extent[place] > 0 ? like.extent[place] : 1;
    }
    made.first = malloc((size_t)stride * sizeof(double));
    made.like = like;
    return made;
}

static double *at(const shared *of, const array *in, int64_t cell, int level) {
    int64_t place = level * in->level_stride;
    for (int axis = (of->axes > 0 ? of->axes : 1) - 1; axis >= 0; axis--)
        place += cell % in->extent[axis] * in->cell_stride[axis], cell /= in->extent[axis];
    return in->first + place;
}

static double value(int field, int round, int cell, int level) { return 1 + field + 10 * round + 100 * level + 1000 * cell; }

/* Fills the arrays, or compares them with what an exchange leaves there. */
static void each(const participant *me, array (*arrays)[2][MOST_DOMAINS], int round, int compare) {
    const shared *of = me->of;
    for (int field = 0; field < of->fields; field++)
        for (int side = 0; side < 2; side++) {
            const cut *from = &of->sides[side];
            for (int domain = 0, place = 0; domain < from->domains; domain++) {
                if (from->owner[domain] != me->rank) continue;
                const array *in = &arrays[field][side][place++];
                for (int64_t cell = 0; cell < in->cells; cell++)
                    for (int level = 0; level < in->levels; level++) {
                        int owned, number = number_of(of, from, domain, cell, &owned);
                        int is_there = owned || (compare && side == 1 && of->fill_halo && number >= 0);
                        if (!compare && side == 1) is_there = 0;
                        double expected = is_there ? value(field, round, number, level) : NOTHING - side;
                        if (!compare)
                            *at(of, in, cell, level) = expected;
                        else if (*at(of, in, cell, level) != expected)
                            fail("rank %d, round %d, field %d, side %d, domain %d, cell %d, level %d: expected %g, found %g", me->rank,
                                 round, field, side, domain, number, level, expected, *at(of, in, cell, level));
                    }
            }
        }
}

static void *participate(void *argument) {
    participant *me = argument;
    const shared *of = me->of;
    uint64_t random = 0xD1342543DE82EF95u * (uint64_t)(of->number * 8 + me->rank + 1);
    for (int i = 0; i < 8; i++) draw(&random);
    hp_pattern *sides[2], *redistribution;
    for (int side = 0; side < 2; side++) sides[side] = pattern_of(of, &of->sides[side], me->rank);
    CHECK(hp_pattern_redistribution(sides[0], sides[1], of->fill_halo, &redistribution));
    array arrays[MOST_FIELDS][2][MOST_DOMAINS];
    hp_array like[MOST_FIELDS * 2 * MOST_DOMAINS];
    void *data[MOST_FIELDS * 2 * MOST_DOMAINS];
    int likes = 0, addresses = 0;
    for (int field = 0; field < of->fields; field++)
        for (int side = 0; side < 2; side++) {
            int first = likes, domains = 0;
            for (int domain = 0; domain < of->sides[side].domains; domain++) {
                if (of->sides[side].owner[domain] != me->rank) continue;
                array *made = &arrays[field][side][domains++];
                *made = array_of(of, &of->sides[side], domain, of->levels[field], &random);
                like[likes++] = made->like;
            }
            if (of->memory && domains > 0) {
                void *places[MOST_DOMAINS];
                CHECK(hp_memory_create(sides[side], &like[first], &arrays[field][side][0].memory, places));
                for (int domain = 0; domain < domains; domain++) {
                    free(arrays[field][side][domain].first);
                    arrays[field][side][domain].first = places[domain];
                }
            }
            for (int domain = 0; domain < domains; domain++) data[addresses++] = arrays[field][side][domain].first;
            if (domains == 0) {
                hp_array none = HP_ARRAY_INIT;
                none.type = HP_F64;
                like[likes++] = none;
            }
        }
    static const char *const paths[] = {"quickest", "messages", NULL};
    hp_options options = HP_OPTIONS_INIT;
    options.fixed = of->fixed, options.path = paths[of->path];
    hp_plan *plan;
    hp_stream stream = {HP_DEFAULT, 0, 0};
    CHECK(hp_plan_create(redistribution, of->fields, like, of->fixed ? data : NULL, &options, &plan));
    for (int round = 0; round < ROUNDS; round++) {
        each(me, arrays, round, 0);
        if (below(&random, 2)) {
            CHECK(hp_exchange(plan, of->fixed ? NULL : data, stream));
        } else {
            CHECK(hp_start(plan, data, stream, NULL));
            CHECK(hp_finish(plan, HP_NO_TICKET, stream));
        }
        each(me, arrays, round, 1);
    }
    /* What a plan was made of may be freed before it, but for memory. */
    CHECK(hp_pattern_free(redistribution));
    CHECK(hp_plan_free(plan));
    for (int field = 0; field < of->fields; field++)
        for (int side = 0; side < 2; side++)
            for (int domain = 0, place = 0; domain < of->sides[side].domains; domain++) {
                if (of->sides[side].owner[domain] != me->rank) continue;
                array *made = &arrays[field][side][place++];
                if (!of->memory) free(made->first);
                CHECK(hp_memory_free(made->memory));
            }
    for (int side = 0; side < 2; side++) CHECK(hp_pattern_free(sides[side]));
    return NULL;
}

/* Wrong calls on rank 0, of which rank 1 hears. */
static void *refusals(void *argument) {
    participant *me = argument;
    hp_comm *comm = me->of->comms[me->rank];
    const hp_status mine = me->rank == 0 ? HP_ARGUMENT : HP_REFUSED;
    hp_grid grid = HP_GRID_INIT;
    hp_pattern *rows, *other, *mesh, *made, *none;
    hp_memory *memory;
    hp_plan *plan;
    grid.axes = 2, grid.cells[0] = 4, grid.cells[1] = 6;
    CHECK(hp_pattern_grid(comm, &grid, HP_SPLIT, NULL, &rows));
    grid.cells[1] = 5;
    CHECK(hp_pattern_grid(comm, &grid, HP_SPLIT, NULL, &other));
    int64_t ids[] = {2 * me->rank, 2 * me->rank + 1};
    uint8_t owned[] = {1, 1};
    hp_ids set = HP_IDS_INIT;
    set.cells = 2, set.ids = ids, set.owned = owned;
    CHECK(hp_pattern_ids(comm, 1, &set, &mesh));
    hp_pattern *given = me->rank == 0 ? NULL : rows;
    REFUSED(mine, "source: expected a hp_pattern, found null", hp_pattern_redistribution(given, rows, 0, &none));
    REFUSED(mine, "target: expected a hp_pattern, found null", hp_pattern_redistribution(rows, given, 0, &none));
    REFUSED(HP_ARGUMENT, "source: expected a hp_pattern, found null", hp_pattern_redistribution(NULL, NULL, 0, &none));
    REFUSED(mine, "pattern: expected a place", hp_pattern_redistribution(rows, rows, 0, me->rank == 0 ? NULL : &none));
    REFUSED(HP_REFUSED, "only the source has the cell [0, 5]", hp_pattern_redistribution(rows, other, 0, &none));
    REFUSED(HP_REFUSED, "no rank owns the cell [", hp_pattern_redistribution(rows, mesh, 0, &none));
    if (none) fail("a handle after a failure");
    CHECK(hp_pattern_redistribution(rows, rows, 1, &made));

    const char *const text = "found a redistribution; pass its source or its target";
    hp_array like[4];
    void *data[4] = {NULL};
    for (int place = 0; place < 4; place++) {
        hp_array array = HP_ARRAY_INIT;
        array.type = HP_F64, array.axes = 2, array.extent[0] = 4, array.extent[1] = 3;
        like[place] = array;
    }
    hp_box box;
    int32_t domains;
    REFUSED(HP_ARGUMENT, text, hp_memory_create(made, like, &memory, data));
    REFUSED(HP_ARGUMENT, text, hp_pattern_domain(made, &domains, 0, &box, NULL, NULL));
    REFUSED(HP_ARGUMENT, text, hp_pattern_redistribution(made, rows, 0, &none));
    REFUSED(HP_ARGUMENT, text, hp_pattern_redistribution(rows, made, 0, &none));
    grid.like = made;
    REFUSED(HP_ARGUMENT, "grid.like: expected a pattern with domains", hp_pattern_grid(comm, &grid, HP_SPLIT, NULL, &none));

    hp_options options = HP_OPTIONS_INIT;
    options.accumulate = "sum";
    REFUSED(HP_REFUSED, "accumulates no halo", hp_plan_create(made, 1, like, NULL, &options, &plan));
    like[1].type = me->rank == 0 ? HP_F32 : HP_F64;
    REFUSED(mine, "like[1].type: expected 64-bit floats, as of like[0], found 32-bit floats", hp_plan_create(made, 1, like, NULL, NULL, &plan));
    like[1].type = HP_F64, like[3].extent[1] = me->rank == 0 ? 4 : 3;
    REFUSED(mine, "like[3]", hp_plan_create(made, 2, like, NULL, NULL, &plan));
    like[3].extent[1] = 3;
    like[1].axes = 3, like[1].extent[2] = 2;
    REFUSED(HP_REFUSED, "field 1 has 3 axes here and 2 in its source, field 0", hp_plan_create(made, 1, like, NULL, NULL, &plan));
    like[1].axes = 2, like[1].extent[2] = 0;
    options.accumulate = NULL, options.fixed = 1;
    double memory_of_both[24] = {0};
    data[0] = memory_of_both, data[1] = me->rank == 0 ? NULL : memory_of_both + 12;
    REFUSED(mine, "data[1]: expected an address", hp_plan_create(made, 1, like, data, &options, &plan));
    CHECK(hp_memory_create(rows, like, &memory, data));
    data[1] = data[0];
    REFUSED(HP_REFUSED, "the source of field 1 is in the same memory as field 1", hp_plan_create(made, 1, like, data, &options, &plan));
    CHECK(hp_memory_free(memory));

    char described[2000];
    size_t bytes = sizeof described;
    CHECK(hp_pattern_describe(made, described, &bytes));
    if (!strstr(described, "\"source_domains\":1,\"domains\":1")) fail("described as %s", described);
    for (int place = 0; place < 4; place++) {
        hp_pattern *const all[] = {made, rows, other, mesh};
        CHECK(hp_pattern_free(all[place]));
    }
    REFUSED(HP_ARGUMENT, "freed", hp_plan_create(made, 1, like, NULL, NULL, &plan));
    return NULL;
}

static void on_ranks(shared *of, void *(*body)(void *)) {
    participant ranks[MOST_RANKS];
    pthread_t threads[MOST_RANKS];
    CHECK(hp_comm_threads(of->ranks, of->comms));
    for (int rank = 0; rank < of->ranks; rank++) {
        ranks[rank].of = of, ranks[rank].rank = rank;
        if (pthread_create(&threads[rank], NULL, body, &ranks[rank]) != 0) fail("no thread");
    }
    for (int rank = 0; rank < of->ranks; rank++) pthread_join(threads[rank], NULL);
    for (int rank = 0; rank < of->ranks; rank++) CHECK(hp_comm_free(of->comms[rank]));
}

int main(int arguments, char **argument) {
    int first = arguments > 1 ? atoi(argument[1]) : 0, count = arguments > 2 ? atoi(argument[2]) : 300;
    shared two;
    memset(&two, 0, sizeof two);
    two.ranks = 2, current = -1;
    on_ranks(&two, refusals);
    for (current = first; current < first + count; current++) {
        shared of = draw_case(current);
        on_ranks(&of, participate);
    }
    printf("%d cases\n", count);
    return 0;
}
