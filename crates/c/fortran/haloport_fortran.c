/*
 * The part of the Fortran interface that reads descriptors of arrays. Compile it with the ISO_Fortran_binding.h of your Fortran
 * compiler: the layout of descriptors is its own. That of GCC is found by gcc; that of flang lies in include/flang beside its bin.
 */
#include <ISO_Fortran_binding.h>
#include <ctype.h>
#include <math.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "haloport.h"

/* A field has at most 4 axes, and components. */
enum { MOST_ARRAYS = 20, MOST_AXES = 8, MOST_FIELD_AXES = 4, MOST_IN_FLIGHT = 64, TEXT = 1000 };

/*
 * What plans, exchanges of messages and lines of this file begin with. A handle is the address of a record and, in its high 16 bits, the
 * number of objects that have had the record before. Records are used again and never freed, so that a copy of a handle, which the
 * program has made by an assignment, is noticed after the object was freed, until 65,536 later objects have had the record.
 */
typedef struct record {
    _Atomic uint16_t used;
    struct record *next, *other;
} record;

/* The records of a kind of object: those that no object has, and all. Tools that look for leaks do not recognise handles as addresses. */
typedef struct records {
    record *unused, *all;
} records;

static atomic_flag changing = ATOMIC_FLAG_INIT;

static void lock_records(void) {
    while (atomic_flag_test_and_set(&changing)) {
    }
}

static void unlock_records(void) {
    atomic_flag_clear(&changing);
}

/* A record of `bytes` bytes, 0 beyond its start; null if there is no memory. */
static void *new_record(records *of, size_t bytes) {
    lock_records();
    record *made = of->unused;
    if (made) of->unused = made->next;
    unlock_records();
    if (made) {
        memset((char *)made + sizeof *made, 0, bytes - sizeof *made);
        return made;
    }
    made = calloc(1, bytes);
    if (!made) return NULL;
    if ((uintptr_t)made >> 48) { /* no system that Haloport knows gives out such addresses unasked */
        free(made);
        return NULL;
    }
    lock_records();
    made->other = of->all, of->all = made;
    unlock_records();
    return made;
}

/* Gives the record of an object back that has ended; null is allowed. */
static void end_record(records *of, void *object) {
    record *unused = object;
    if (!unused) return;
    atomic_fetch_add(&unused->used, 1);
    lock_records();
    unused->next = of->unused, of->unused = unused;
    unlock_records();
}

static void *handle_of(void *object) {
    return (void *)((uintptr_t)object | (uintptr_t)atomic_load(&((record *)object)->used) << 48);
}

/* The object of a handle; null if it was freed, or the handle is null. */
static void *object_of(const void *handle) {
    record *at = (record *)((uintptr_t)handle & (((uintptr_t)1 << 48) - 1));
    return at && atomic_load_explicit(&at->used, memory_order_relaxed) == (uintptr_t)handle >> 48 ? at : NULL;
}

/* A plan, and what its arrays are like: every call passes descriptors, so others are refused. */
typedef struct hpf_plan {
    record record;
    hp_plan *plan;
    int arrays;
    struct {
        size_t element_bytes;
        int axes;
        int64_t extent[MOST_AXES], stride[MOST_AXES];
        /* Whether it is in the place of a side without domains, of which haloport.h takes no address. */
        int has_no_domain;
    } like[MOST_ARRAYS];
    /* How many exchanges can be in flight, and how many were started. */
    int most;
    int64_t starts;
    /* The exchanges in flight, in places that they take in turn: the library starts none while the one before in its place is. */
    struct {
        hp_ticket ticket;
        void *data[MOST_ARRAYS];
    } started[MOST_IN_FLIGHT];
} hpf_plan;

static records plans;

/* The text of a failure in this file; empty if haloport.h has it. */
static _Thread_local char message[TEXT];

static int refused(const char *text, int array) {
    snprintf(message, sizeof message, array < 0 ? "%s" : "array %2$d: %1$s", text, array + 1);
    return HP_ARGUMENT;
}

/* The failure for a handle without an object. */
static int missing(const char *kind) {
    char text[TEXT];
    snprintf(text, sizeof text, "expected %s, found one that was not made, or was freed", kind);
    return refused(text, -1);
}

/* What a text of haloport.h is about, so that its numbers can count from 1, and its axes from the fastest one. */
enum { OF_ARRAYS, OF_A_GRID, OF_LISTS };

/* Names of haloport.h, and those of the module. A number that follows a name is written one larger. */
static const struct {
    const char *found, *written;
    int has_number;
} words[] = {
    {"hp_start", "start", 0},
    {"options.", "", 0}, {"ids.ids", "ids", 0}, {"ids[0].", "", 0}, {"ids[", "domain ", 1}, {"boxes[0]", "lower, upper", 0}, {"boxes[", "domain ", 1}, {"domain ", "domain ", 1},
    {"like[", "array ", 1}, {"data[", "array ", 1}, {"field ", "array ", 1}, {"stride[", "the stride of axis ", 1},
    {"destinations[", "destinations ", 1}, {"sources[", "sources ", 1}, {"send[", "send_to ", 1}, {"receive[", "receive_from ", 1},
    {"owners[", "owners ", 1}, {"values[", "array ", 1}, {"weights[", "weights of array ", 1}, {"masks[", "mask of array ", 1},
};

static int is_word(char character) {
    return isalnum((unsigned char)character) || character == '_';
}

/* Writes the words of the module in place of those of haloport.h at the start of `text`; returns how many characters they replace. */
static size_t replaced(const char *text, int about, int axes, char *to, size_t room) {
    char *end;
    for (size_t place = 0; place < sizeof words / sizeof words[0]; place++) {
        size_t length = strlen(words[place].found);
        if (strncmp(text, words[place].found, length) != 0) continue;
        if (!words[place].has_number) {
            if (is_word(words[place].found[length - 1]) && is_word(text[length])) continue;
            snprintf(to, room, "%s", words[place].written);
            return length;
        }
        if (!isdigit((unsigned char)text[length])) continue;
        long long number = strtoll(text + length, &end, 10) + 1;
        if (*end == ']') end++;
        int has_member = *end == '.' && is_word(end[1]);
        snprintf(to, room, "%s%lld%s", words[place].written, number, has_member ? ", " : "");
        return (size_t)(end - text) + (size_t)has_member;
    }
    if (strncmp(text, "grid.", 5) == 0 && islower((unsigned char)text[5])) {
        to[0] = 0;
        return 5;
    }
    if (strncmp(text, "axis ", 5) == 0 && isdigit((unsigned char)text[5])) {
        long long axis = strtoll(text + 5, &end, 10);
        /* Levels follow the axes of the grid. */
        int of_grid = (about == OF_A_GRID || (axes > 0 && *end != ':')) && axis < axes;
        snprintf(to, room, "axis %lld", of_grid ? axes - axis : axis + 1);
        return (size_t)(end - text);
    }
    /* Cells count from 1 in lists; ids of cells are the program's own numbers. */
    for (int word = 0; word < 2 && about == OF_LISTS; word++) {
        const char *name = word ? "include " : "cell ";
        if (strncmp(text, name, strlen(name)) != 0 || !isdigit((unsigned char)text[strlen(name)])) continue;
        snprintf(to, room, "%s%lld", name, strtoll(text + strlen(name), &end, 10) + 1);
        return (size_t)(end - text);
    }
    return 0;
}

/* The text of the last failure of haloport.h, without the name of its function: the module has that of its procedure. */
static const char *text_of_failure(void) {
    const char *text = hp_message(), *end = text;
    while (is_word(*end)) end++;
    return strncmp(text, "hp_", 3) == 0 && strncmp(end, ": ", 2) == 0 ? end + 2 : text;
}

/* Keeps the text of a failure of haloport.h, as programs in Fortran count and name things; `axes` are those of the grid. */
static int ended_of(hp_status status, int about, int axes) {
    message[0] = 0;
    if (status == HP_OK) return 0;
    const char *text = text_of_failure(), *first = text;
    size_t used = 0;
    while (*text && used + 1 < sizeof message) {
        char made[80];
        size_t taken = text > first && is_word(text[-1]) ? 0 : replaced(text, about, axes, made, sizeof made);
        if (taken == 0) {
            message[used++] = *text++;
            continue;
        }
        used += (size_t)snprintf(message + used, sizeof message - used, "%s", made);
        if (used >= sizeof message) used = sizeof message - 1;
        text += taken;
    }
    message[used] = 0;
    return (int)status;
}

static int ended(hp_status status) {
    return ended_of(status, OF_ARRAYS, 0);
}

/* What the module has found wrong in the arguments of the next call; empty if nothing is. */
static _Thread_local char complaint[TEXT];

/* The next call of this file refuses its arguments for this reason; if it is collective, the other ranks learn of it. */
void hpf_complain(const char *text) {
    snprintf(complaint, sizeof complaint, "%s", text);
}

/* Whether the module has found such a fault; if so, its text becomes the text of the failure. */
static int complained(void) {
    if (!complaint[0]) return 0;
    memcpy(message, complaint, sizeof message);
    complaint[0] = 0;
    return 1;
}

/* Fails a call of the module for this reason. */
int hpf_refuse(const char *text) {
    return refused(text, -1);
}

/* The communicator of an integer that may have 8 bytes. */
int hpf_comm_create(int64_t mpi, hp_comm **comm) {
    *comm = NULL;
    if (mpi < INT32_MIN || mpi > INT32_MAX) {
        char text[TEXT];
        snprintf(text, sizeof text, "mpi: expected a communicator of MPI, a number of 4 bytes, found %lld", (long long)mpi);
        return refused(text, -1);
    }
    return ended(hp_comm_fortran((int32_t)mpi, comm));
}

/* Writes the text of the last failure, with blanks up to its end. */
void hpf_message(char *text, int length) {
    const char *found = message[0] ? message : text_of_failure();
    size_t bytes = strlen(found), room = length > 0 ? (size_t)length : 0;
    memset(text, ' ', room);
    memcpy(text, found, bytes < room ? bytes : room);
    /* The next failure may be of a function of haloport.h that the module calls by itself. */
    message[0] = 0;
}

static int type_of(const CFI_cdesc_t *array) {
    const struct { CFI_type_t type; size_t bytes; int found; } known[] = {
        {CFI_type_int8_t, 1, HP_I8}, {CFI_type_int16_t, 2, HP_I16}, {CFI_type_int32_t, 4, HP_I32}, {CFI_type_int64_t, 8, HP_I64},
        {CFI_type_float, 4, HP_F32}, {CFI_type_double, 8, HP_F64},
        {CFI_type_float_Complex, 8, HP_C64}, {CFI_type_double_Complex, 16, HP_C128},
    };
    for (size_t place = 0; place < sizeof known / sizeof known[0]; place++)
        if (array->type == known[place].type && array->elem_len == known[place].bytes) return known[place].found;
    return HP_BYTES;
}

/* The roles in `words`, up to `end`; returns their number, or -1 for an unknown word. Axes of a grid count from its fastest one. */
static int roles_of(const char *words, const char *end, int grid_axes, int *roles) {
    static const struct { const char *word; int role; } known[] = {
        {"cells", HP_CELLS}, {"nproma", HP_CELLS}, {"blocks", HP_CELL_BLOCKS}, {"levels", HP_LEVELS}, {"components", HP_COMPONENTS},
    };
    static const char *const names[] = {"1x", "2y", "3z", "4w"};
    int count = 0;
    while (words < end) {
        if (*words == ' ' || *words == ',') {
            words++;
            continue;
        }
        const char *word = words;
        while (words < end && *words != ' ' && *words != ',') words++;
        size_t length = (size_t)(words - word);
        int role = 0;
        for (size_t place = 0; place < sizeof known / sizeof known[0]; place++)
            if (strlen(known[place].word) == length && memcmp(known[place].word, word, length) == 0) role = known[place].role;
        for (int axis = 0; axis < grid_axes && length == 1; axis++)
            if (strchr(names[axis], *word)) role = HP_CELLS + grid_axes - 1 - axis;
        if (role == 0 || count == MOST_AXES) return -1;
        roles[count++] = role;
    }
    return count;
}

/* Removes the last axis of this role. */
static int without(int *roles, int count, int role) {
    for (int place = count - 1; place >= 0; place--)
        if (roles[place] == role) {
            memmove(roles + place, roles + place + 1, (size_t)(count - 1 - place) * sizeof *roles);
            return count - 1;
        }
    return count;
}

/*
 * The part of `words` for an array: all of them if they are for all arrays. Null if there is none; `*end` is the end of the part.
 */
static const char *part_of(const char *words, int number, const char **end) {
    const char *part = words;
    *end = strchr(part, ';');
    for (int place = 0; place < number && strchr(words, ';'); place++) {
        if (!*end) return NULL;
        part = *end + 1, *end = strchr(part, ';');
    }
    if (!*end) *end = part + strlen(part);
    return part;
}

/* Sets the axes along which the components of an array point. */
static int set_vector(const char *words, int number, int grid_axes, hp_array *to) {
    int roles[MOST_AXES];
    const char *end, *part = part_of(words, number, &end);
    if (!part) return refused("expected a part of `vector`, found fewer parts than arrays", number);
    int count = roles_of(part, end, grid_axes, roles);
    if (count < 0 || count > 4) return refused("expected an axis of the grid for each of up to 4 components in `vector`, found others", number);
    for (int place = 0; place < count; place++) {
        if (roles[place] < HP_CELLS || roles[place] >= HP_CELLS + 4)
            return refused("expected axes of the grid in `vector`, such as x, found another word", number);
        to->vector[place] = roles[place];
    }
    return 0;
}

static int check_version(const CFI_cdesc_t *found, int number) {
    if (found->version == CFI_VERSION) return 0;
    return refused("expected an array as the C compiler's ISO_Fortran_binding.h has it, found one of another compiler; compile "
                   "haloport_fortran.c with the header of your Fortran compiler", number);
}

/* Whether there is memory for the elements of an array. */
static int check_memory(const CFI_cdesc_t *found, int number) {
    if (found->base_addr) return 0;
    for (int axis = 0; axis < found->rank; axis++)
        if (found->dim[axis].extent == 0) return 0;
    return refused("expected an array, found one that is not allocated, or a pointer to none", number);
}

static int describe(const CFI_cdesc_t *found, int number, int grid_axes, const char *axes, const char *vector, const int64_t *origin,
                    hp_array *to) {
    hp_array made = HP_ARRAY_INIT;
    if (check_version(found, number) || check_memory(found, number)) return HP_ARGUMENT;
    if (found->elem_len > INT32_MAX) return refused("expected elements of less than 2 GiB, found larger ones", number);
    if (found->rank < 1 || found->rank > MOST_AXES) return refused("expected an array of 1 to 8 axes", number);
    made.type = type_of(found);
    made.element_bytes = (int32_t)found->elem_len;
    made.axes = found->rank;
    for (int axis = 0; axis < found->rank; axis++) {
        made.extent[axis] = found->dim[axis].extent;
        made.stride[axis] = found->dim[axis].sm;
        if (made.extent[axis] < 0) return refused("expected an array whose size is known, found one of assumed size", number);
    }
    if (found->rank == 1 && made.stride[0] == 0) made.stride[0] = (int64_t)found->elem_len;
    int roles[MOST_AXES], count = 0;
    const char *end, *part = part_of(axes, number, &end);
    if (!part) return refused("expected a part of `axes`, found fewer parts than arrays", number);
    if (*axes) {
        count = roles_of(part, end, grid_axes, roles);
        if (count < 0) return refused("expected words such as cells, blocks, nproma, levels and components in `axes`, found another", number);
        if (count > found->rank) count = without(roles, count, HP_COMPONENTS);
        if (count > found->rank) count = without(roles, count, HP_LEVELS);
    } else {
        int own = grid_axes > 0 ? grid_axes : 1;
        for (; count < found->rank; count++)
            roles[count] = count < own ? HP_CELLS + own - 1 - count : count < MOST_FIELD_AXES ? HP_LEVELS : HP_COMPONENTS;
    }
    if (count != found->rank) return refused("expected a word of `axes` for each axis of the array", number);
    for (int axis = 0; axis < count; axis++) made.role[axis] = roles[axis];
    for (int axis = 0; axis < grid_axes; axis++) made.origin[axis] = origin[grid_axes - 1 - axis];
    *to = made;
    return set_vector(vector, number, grid_axes, to);
}

/* In the module: calls the procedure of the program. */
void hpf_log(int level, const char *text, int length);

static void pass_line(hp_level level, const char *text, void *context) {
    (void)context;
    hpf_log((int)level, text, (int)strlen(text));
}

int hpf_set_log(int32_t has_log) {
    return ended(hp_set_log(has_log ? pass_line : NULL, NULL));
}

int hpf_set_progress(hp_comm *comm, const char *word) {
    const char *const known[] = {[HP_PROGRESS_AUTO] = "auto", [HP_PROGRESS_THREAD] = "thread", [HP_PROGRESS_CALLER] = "caller"};
    for (int32_t progress = 0; progress < 3; progress++)
        if (strcmp(word, known[progress]) == 0) return ended(hp_comm_set_progress(comm, progress));
    return refused("expected `auto`, `thread` or `caller`, found another word", -1);
}

/* `value` is an integer or a real of that many bytes. */
int hpf_all_reduce(hp_comm *comm, const char *word, int32_t bytes, int32_t is_real, void *value) {
    const int reduction = strcmp(word, "sum") == 0 ? HP_SUM : strcmp(word, "min") == 0 ? HP_MIN : strcmp(word, "max") == 0 ? HP_MAX : 0;
    if (reduction == 0) {
        /* The other ranks learn that this one has a wrong argument. */
        hp_comm_all_reduce(comm, 0, HP_F64, 0, NULL);
        return refused("expected the reduction sum, min or max, found another word", -1);
    }
    if (is_real) return ended(hp_comm_all_reduce(comm, reduction, bytes == 4 ? HP_F32 : HP_F64, 1, value));
    int64_t wide = bytes == 4 ? *(const int32_t *)value : *(const int64_t *)value;
    hp_status status = hp_comm_all_reduce(comm, reduction, HP_I64, 1, &wide);
    if (status == HP_OK && bytes == 4) *(int32_t *)value = (int32_t)(uint32_t)(uint64_t)wide;
    if (status == HP_OK && bytes == 8) *(int64_t *)value = wide;
    return ended(status);
}

/* The cells of each domain lie one after the other. */
int hpf_pattern_ids(hp_comm *comm, int32_t domains, const int64_t *cells, const int64_t *ids, const uint8_t *owned,
                    const int32_t *owners, int has_owners, hp_pattern **pattern) {
    hp_ids *sets = calloc(domains > 0 ? (size_t)domains : 1, sizeof *sets);
    if (!sets) hpf_complain("expected memory for the domains of a mesh, found none");
    int64_t first = 0;
    for (int domain = 0; domain < domains && !complaint[0]; domain++) {
        hp_ids set = HP_IDS_INIT;
        set.cells = cells[domain], set.ids = ids + first, set.owned = owned + first, set.owners = has_owners ? owners + first : NULL;
        sets[domain] = set, first += cells[domain];
    }
    /* The other ranks learn that this one has a wrong argument; the text here is that of the argument. */
    hp_status status = hp_pattern_ids(comm, complaint[0] ? -1 : domains, sets, pattern);
    free(sets);
    return complained() ? HP_ARGUMENT : ended(status);
}

/* Axes count from the slowest one in haloport.h. `boxes` is -1 if the grid is split. */
int hpf_pattern_grid(hp_comm *comm, int32_t axes, const int64_t *cells, const int32_t (*halo)[2], const int32_t *periodic,
                     const int32_t *parts, int32_t faces_only, int32_t sphere, int32_t fold, int32_t points, int32_t clipped,
                     const hp_pattern *like, int32_t boxes, const int64_t (*lower)[4], const int64_t (*upper)[4], hp_pattern **pattern) {
    hp_grid grid = HP_GRID_INIT;
    hp_box *own = calloc(boxes > 0 ? (size_t)boxes : 1, sizeof *own);
    if (!own) hpf_complain("expected memory for the boxes of domains, found none"), boxes = 0;
    grid.axes = axes, grid.faces_only = faces_only, grid.cubed_sphere = sphere, grid.fold = fold;
    grid.points = points, grid.clipped = clipped, grid.like = like;
    for (int axis = 0; axis < axes && axis < 4; axis++) {
        int from = axes - 1 - axis;
        if (from > 3) continue;
        grid.cells[axis] = cells[from], grid.periodic[axis] = periodic[from], grid.parts[axis] = parts[from];
        grid.halo_lower[axis] = halo[from][0], grid.halo_upper[axis] = halo[from][1];
        for (int box = 0; box < boxes; box++)
            own[box].lower[axis] = lower[box][from], own[box].upper[axis] = upper[box][from];
    }
    if (complaint[0]) grid.size = 0;
    hp_status status = hp_pattern_grid(comm, &grid, boxes, own, pattern);
    free(own);
    return complained() ? HP_ARGUMENT : ended_of(status, OF_A_GRID, axes);
}

/* The lists of one direction; null if there is no memory for them. */
static hp_list *lists_of(int32_t count, const int32_t *ranks, const int64_t *cells, const int32_t *at) {
    hp_list *lists = calloc((size_t)count + 1, sizeof *lists);
    for (int32_t place = 0; place < count && lists; place++) {
        hp_list list = HP_LIST_INIT;
        list.rank = ranks[place], list.cells = cells[place], list.at = at;
        at += cells[place] > 0 ? cells[place] : 0;
        lists[place] = list;
    }
    return lists;
}

int hpf_pattern_lists(hp_comm *comm, int64_t cells, int32_t sends, const int32_t *send_ranks, const int64_t *send_cells,
                      const int32_t *send_at, int32_t receives, const int32_t *receive_ranks, const int64_t *receive_cells,
                      const int32_t *receive_at, hp_pattern **pattern) {
    int wrong = complaint[0] != 0;
    hp_list *send = wrong ? NULL : lists_of(sends, send_ranks, send_cells, send_at);
    hp_list *receive = wrong ? NULL : lists_of(receives, receive_ranks, receive_cells, receive_at);
    if (!wrong && !(send && receive)) hpf_complain("expected memory for lists, found none");
    /* The other ranks learn that this one has a wrong argument; the text here is that of the argument. */
    hp_status status = hp_pattern_lists(comm, complaint[0] ? -1 : cells, sends, send, receives, receive, pattern);
    free(send), free(receive);
    return complained() ? HP_ARGUMENT : ended_of(status, OF_LISTS, 0);
}

int hpf_pattern_redistribution(hp_pattern *source, hp_pattern *target, int32_t fill_halo, hp_pattern **pattern) {
    return ended(hp_pattern_redistribution(source, target, fill_halo, pattern));
}

int hpf_pattern_box(hp_pattern *pattern, int32_t axes, int32_t which, int32_t domain, int64_t *lower, int64_t *upper) {
    if (complained()) return HP_ARGUMENT;
    hp_box boxes[3];
    hp_status status = hp_pattern_domain(pattern, NULL, domain, &boxes[0], &boxes[1], &boxes[2]);
    int count = axes > 0 ? axes : 1;
    for (int axis = 0; axis < count && status == HP_OK; axis++) {
        lower[axis] = boxes[which].lower[count - 1 - axis];
        upper[axis] = boxes[which].upper[count - 1 - axis];
    }
    return ended(status);
}

/* At most 8 boxes, each with 4 places in `lower` and `upper`. */
int hpf_pattern_boundary(hp_pattern *pattern, int32_t axes, int32_t domain, int32_t *boxes, int64_t (*lower)[4], int64_t (*upper)[4]) {
    *boxes = 0;
    if (complained()) return HP_ARGUMENT;
    hp_box found[8];
    hp_status status = hp_pattern_boundary(pattern, domain, boxes, found);
    for (int32_t box = 0; box < *boxes; box++)
        for (int axis = 0; axis < axes; axis++) {
            lower[box][axis] = found[box].lower[axes - 1 - axis];
            upper[box][axis] = found[box].upper[axes - 1 - axis];
        }
    return ended(status);
}

/* The number of arrays that were passed; -1 if one before the last is absent, as those that are not allocated are. */
static int count_of(CFI_cdesc_t *const *arrays) {
    int count = 0;
    while (count < MOST_ARRAYS && arrays[count]) count++;
    for (int place = count; place < MOST_ARRAYS; place++)
        if (arrays[place]) {
            refused("expected an array, found none, or one that is not allocated, before others", count);
            return -1;
        }
    return count;
}

/*
 * A field has as many arrays as there are `sides`: one for each domain, of a redistribution for those of the source and of the target,
 * which has the last `target_sides` of them, and another number of axes if only one of the two is a grid. `no_domains` is 1 if these
 * arrays stand for no domain; of a redistribution 1 if those of the source do, plus 2 if those of the target do.
 */
int hpf_plan_create(hp_pattern *pattern, int32_t sides, int32_t grid_axes, int32_t target_sides, int32_t target_axes, int32_t no_domains, int32_t fields, hp_pattern *const *of, const int32_t *of_sides, const int32_t *of_axes,
    const int32_t *of_no_domains, const char *axes, const char *vector, const int64_t *origin,
    int32_t fixed, int32_t share, int32_t in_flight, const char *path, const char *accumulate, int32_t zero_halo, hpf_plan **plan, CFI_cdesc_t *a1, CFI_cdesc_t *a2, CFI_cdesc_t *a3, CFI_cdesc_t *a4, CFI_cdesc_t *a5, CFI_cdesc_t *a6, CFI_cdesc_t *a7, CFI_cdesc_t *a8, CFI_cdesc_t *a9, CFI_cdesc_t *a10,
    CFI_cdesc_t *a11, CFI_cdesc_t *a12, CFI_cdesc_t *a13, CFI_cdesc_t *a14, CFI_cdesc_t *a15, CFI_cdesc_t *a16, CFI_cdesc_t *a17, CFI_cdesc_t *a18, CFI_cdesc_t *a19, CFI_cdesc_t *a20) {
    CFI_cdesc_t *const arrays[] = {a1, a2, a3, a4, a5, a6, a7, a8, a9, a10, a11, a12, a13, a14, a15, a16, a17, a18, a19, a20};
    hp_array like[MOST_ARRAYS];
    void *data[MOST_ARRAYS];
    int count = count_of(arrays), addresses = 0, wrong = 0;
    *plan = NULL;
    hpf_plan *made = new_record(&plans, sizeof *made);
    if (!made) wrong = refused("expected memory for a plan, found none", -1);
    if (complained() || count < 0) wrong = HP_ARGUMENT;
    for (int field = 0; field < fields; field++)
        if (!wrong && !of[field]) wrong = refused("patterns: expected patterns that were made, found one that was not, or was freed", -1);
    int each[MOST_ARRAYS], in_all = 0; /* of each array the number of its field, if these have patterns of their own */
    for (int field = 0; field < fields; field++)
        for (int side = 0; side < of_sides[field]; side++, in_all++)
            if (in_all < MOST_ARRAYS) each[in_all] = field;
    if (!wrong && fields > 0 && count != in_all) wrong = refused("patterns: expected an array for each domain of each of them, found another number of arrays", -1);
    if (!wrong && fields == 0 && count % sides != 0) wrong = refused("expected as many arrays of each field as it has domains, of a redistribution those of the source and then those of the "
                                                     "target, found fewer of the last field", count - 1);
    for (int place = 0; place < count && !wrong; place++) {
        int is_target = place % sides >= sides - target_sides;
        int own_axes = fields > 0 ? of_axes[each[place]] : is_target ? target_axes : grid_axes;
        made->like[place].has_no_domain = fields > 0 ? of_no_domains[each[place]] : no_domains & (is_target ? 2 : 1);
        wrong = describe(arrays[place], place, own_axes, axes, vector, origin, &like[place]);
        like[place].of = fields > 0 ? of[each[place]] : NULL;
        if (!made->like[place].has_no_domain) data[addresses++] = arrays[place]->base_addr;
        made->like[place].element_bytes = arrays[place]->elem_len, made->like[place].axes = arrays[place]->rank;
        for (int axis = 0; axis < arrays[place]->rank && axis < MOST_AXES; axis++) {
            made->like[place].extent[axis] = arrays[place]->dim[axis].extent;
            made->like[place].stride[axis] = arrays[place]->dim[axis].sm;
        }
    }
    hp_options options = HP_OPTIONS_INIT;
    options.fixed = fixed, options.in_flight = in_flight, options.path = path[0] ? path : NULL;
    options.accumulate = accumulate, options.zero_halo = zero_halo, options.share = share;
    if (made) made->most = in_flight > 1 ? in_flight : 1;
    if (wrong) {
        /* The other ranks learn that this one has a wrong argument; the text here is that of the argument. */
        char text[TEXT];
        memcpy(text, message, sizeof text);
        hp_plan *none;
        like[0].size = 0;
        hp_plan_create(pattern, 1, like, data, &options, &none);
        memcpy(message, text, sizeof text);
        end_record(&plans, made);
        return wrong;
    }
    /* Unless the plan is fixed, the addresses tell on which device the arrays are. */
    hp_status status = hp_plan_create(pattern, fields > 0 ? fields : count / sides, like, data, &options, &made->plan);
    made->arrays = count;
    if (status == HP_OK)
        *plan = handle_of(made);
    else
        end_record(&plans, made);
    return ended_of(status, OF_ARRAYS, grid_axes > target_axes ? grid_axes : target_axes);
}

/* The first difference of an array from that of the plan, in words; null if there is none. */
static const char *difference(const hpf_plan *plan, int place, const CFI_cdesc_t *found) {
    if (found->rank != plan->like[place].axes) return "expected the rank of the plan's array, found another";
    if (found->elem_len != plan->like[place].element_bytes) return "expected the type of the plan's array, found another";
    for (int axis = 0; axis < found->rank; axis++) {
        if (found->dim[axis].extent != plan->like[place].extent[axis]) return "expected the shape of the plan's array, found another";
        if (found->dim[axis].sm != plan->like[place].stride[axis] && found->dim[axis].extent > 1)
            return "expected the strides of the plan's array, found others";
    }
    return NULL;
}

/*
 * gfortran passes a copy of a member of all elements of an array, or of a pointer to one, and frees it when the call returns. An
 * exchange that was started there would fill memory that is no longer that of the array.
 */
static int moved(const hpf_plan *plan, hp_ticket ticket, void *const *data) {
    int flight = 0;
    while (flight < plan->most && plan->started[flight].ticket != ticket) flight++;
    for (int place = 0; place < plan->arrays && flight < plan->most; place++)
        if (data[place] != plan->started[flight].data[place] && !plan->like[place].has_no_domain)
            return refused("expected the array of `start`, found another one, or a copy that the compiler has made of members "
                           "such as `swarm%mass`, which `update` takes", place);
    return 0;
}

/* Forgets the arrays of an exchange that has ended. */
static void forget(hpf_plan *plan, hp_ticket ticket) {
    for (int flight = 0; flight < plan->most; flight++)
        if (plan->started[flight].ticket == ticket) plan->started[flight].ticket = HP_NO_TICKET;
}

/* The addresses that haloport.h takes, of all arrays: those of arrays with a domain. */
static void addresses_of(const hpf_plan *plan, void *const *data, void **addresses) {
    for (int place = 0; place < plan->arrays; place++)
        if (!plan->like[place].has_no_domain) *addresses++ = data[place];
}

static int update(hpf_plan *plan, void *const *data, hp_stream order) {
    void *addresses[MOST_ARRAYS];
    addresses_of(plan, data, addresses);
    return ended(hp_exchange(plan->plan, addresses, order));
}

static int start(hpf_plan *plan, void *const *data, hp_stream order, int32_t has_ticket, int64_t *ticket) {
    void *addresses[MOST_ARRAYS];
    hp_ticket given = HP_NO_TICKET;
    addresses_of(plan, data, addresses);
    /* If there can be one exchange only, its ticket is known here even if the program does not take it. */
    hp_status status = hp_start(plan->plan, addresses, order, has_ticket || plan->most == 1 ? &given : NULL);
    if (status == HP_OK) {
        int flight = (int)(plan->starts++ % plan->most);
        plan->started[flight].ticket = given;
        memcpy(plan->started[flight].data, data, (size_t)plan->arrays * sizeof *data);
    }
    *ticket = (int64_t)given;
    return ended(status);
}

/* The ticket of a call: the one that was passed, or that of the exchange in flight, if there can be one only. */
static int ticket_of(const hpf_plan *plan, int32_t has_ticket, int64_t passed, hp_ticket *ticket) {
    if (has_ticket && passed == 0) return refused("ticket: expected one that `start` has given, found none", -1);
    *ticket = has_ticket ? (hp_ticket)passed : plan->most == 1 ? plan->started[0].ticket : HP_NO_TICKET;
    return 0;
}

static int finish(hpf_plan *plan, void *const *data, hp_stream order, int32_t has_ticket, int64_t passed) {
    hp_ticket ticket = HP_NO_TICKET;
    if (ticket_of(plan, has_ticket, passed, &ticket)) return HP_ARGUMENT;
    if (ticket != HP_NO_TICKET && moved(plan, ticket, data)) return HP_ARGUMENT;
    hp_status status = hp_finish(plan->plan, ticket, order);
    if (status == HP_OK) forget(plan, ticket);
    return ended(status);
}

int hpf_call(hpf_plan *plan, int32_t call, int32_t kind, intptr_t stream, int32_t has_ticket, int64_t *ticket, CFI_cdesc_t *a1, CFI_cdesc_t *a2, CFI_cdesc_t *a3, CFI_cdesc_t *a4, CFI_cdesc_t *a5, CFI_cdesc_t *a6, CFI_cdesc_t *a7, CFI_cdesc_t *a8, CFI_cdesc_t *a9, CFI_cdesc_t *a10,
    CFI_cdesc_t *a11, CFI_cdesc_t *a12, CFI_cdesc_t *a13, CFI_cdesc_t *a14, CFI_cdesc_t *a15, CFI_cdesc_t *a16, CFI_cdesc_t *a17, CFI_cdesc_t *a18, CFI_cdesc_t *a19, CFI_cdesc_t *a20) {
    CFI_cdesc_t *const arrays[] = {a1, a2, a3, a4, a5, a6, a7, a8, a9, a10, a11, a12, a13, a14, a15, a16, a17, a18, a19, a20};
    void *data[MOST_ARRAYS];
    hp_stream order = {kind, 0, (uintptr_t)stream};
    plan = object_of(plan);
    if (!plan) return missing("a plan");
    int count = count_of(arrays);
    if (count < 0) return HP_ARGUMENT;
    if (count != plan->arrays) {
        char text[TEXT];
        snprintf(text, sizeof text, "expected as many arrays as the plan was made for, %d, found %d; one that is not allocated is none",
                 plan->arrays, count);
        return refused(text, -1);
    }
    for (int place = 0; place < count; place++) {
        if (check_memory(arrays[place], place)) return HP_ARGUMENT;
        const char *other = difference(plan, place, arrays[place]);
        if (other) return refused(other, place);
        data[place] = arrays[place]->base_addr;
    }
    switch (call) {
    case 0: return update(plan, data, order);
    case 1: return start(plan, data, order, has_ticket, ticket);
    default: return finish(plan, data, order, has_ticket, *ticket);
    }
}

int hpf_ready(hpf_plan *plan, int32_t has_ticket, int64_t passed, int32_t *ready) {
    hp_ticket ticket = HP_NO_TICKET;
    *ready = 0;
    plan = object_of(plan);
    if (!plan) return missing("a plan");
    if (ticket_of(plan, has_ticket, passed, &ticket)) return HP_ARGUMENT;
    return ended(hp_ready(plan->plan, ticket, ready));
}

/* Memory of an array of reals whose axes are those of the pattern, and levels if it has one more. */
int hpf_memory_create(hp_pattern *pattern, int32_t grid_axes, int32_t bytes, int32_t rank, const int64_t *extents, hp_memory **memory,
                      void **address) {
    hp_array like = HP_ARRAY_INIT;
    const int own = grid_axes > 0 ? grid_axes : 1;
    *memory = NULL, *address = NULL;
    if (complained()) return HP_ARGUMENT;
    like.type = bytes == 4 ? HP_F32 : HP_F64, like.axes = rank;
    int64_t stride = bytes;
    for (int axis = 0; axis < rank && axis < MOST_AXES; axis++) {
        like.extent[axis] = extents[axis], like.stride[axis] = stride;
        like.role[axis] = axis < own ? HP_CELLS + own - 1 - axis : HP_LEVELS;
        stride *= extents[axis] > 0 ? extents[axis] : 1;
    }
    return ended_of(hp_memory_create(pattern, &like, memory, address), OF_ARRAYS, grid_axes);
}

/* Writes the description of the plan, or of the machine, into `text` of `*bytes` bytes, if it fits, and what it needs into `*bytes`. */
int hpf_describe(int32_t of_machine, hpf_plan *plan, char *text, size_t *bytes) {
    if (of_machine) return ended(hp_describe(text, bytes));
    plan = object_of(plan);
    if (!plan) return missing("a plan");
    return ended(hp_plan_describe(plan->plan, text, bytes));
}

int hpf_plan_free(hpf_plan *plan) {
    if (!plan) return ended(HP_OK);
    plan = object_of(plan);
    if (!plan) return missing("a plan");
    hp_status status = hp_plan_free(plan->plan);
    if (status == HP_OK) end_record(&plans, plan);
    return ended(status);
}

/* --- Messages of any size --- */

/* An exchange, and the messages of its last round. */
typedef struct hpf_sparse {
    record record;
    hp_sparse *sparse;
    int64_t count;
    const hp_received *came;
} hpf_sparse;

/* A line, and the payloads of its last round. */
typedef struct hpf_line {
    record record;
    hp_line *line;
    hp_payload from_left, from_right;
} hpf_line;

static records sparse_exchanges, lines;

static const hp_payload NO_PAYLOAD = {HP_NO_PAYLOAD, NULL};

/* The size in bytes of an array or a scalar; -1 if it cannot be used. */
static int64_t bytes_of(const CFI_cdesc_t *array) {
    if (check_version(array, -1) || check_memory(array, -1)) return -1;
    int64_t bytes = (int64_t)array->elem_len;
    for (int axis = 0; axis < array->rank; axis++) {
        if (array->dim[axis].extent < 0) {
            refused("expected an array whose size is known, found one of assumed size", -1);
            return -1;
        }
        bytes *= array->dim[axis].extent;
    }
    return bytes;
}

/* Whether the elements of an array lie one after the other. */
static int is_row(const CFI_cdesc_t *array) {
    int64_t stride = (int64_t)array->elem_len;
    for (int axis = 0; axis < array->rank; axis++) {
        if (array->dim[axis].extent > 1 && array->dim[axis].sm != stride) return 0;
        stride *= array->dim[axis].extent;
    }
    return 1;
}

/* Copies a part of an array into a row, and returns the end of that part of the row. */
static char *gather(const CFI_cdesc_t *array, int axis, const char *first, char *row) {
    if (axis < 0) {
        memcpy(row, first, array->elem_len);
        return row + array->elem_len;
    }
    for (int64_t place = 0; place < array->dim[axis].extent; place++)
        row = gather(array, axis - 1, first + place * array->dim[axis].sm, row);
    return row;
}

/* Copies a row into a part of an array, and returns the end of that part of the row. */
static const char *scatter(const CFI_cdesc_t *array, int axis, char *first, const char *row) {
    if (axis < 0) {
        memcpy(first, row, array->elem_len);
        return row + array->elem_len;
    }
    for (int64_t place = 0; place < array->dim[axis].extent; place++)
        row = scatter(array, axis - 1, first + place * array->dim[axis].sm, row);
    return row;
}

/*
 * The elements of an array of `bytes` bytes in a row: where they are, or in memory that is written into `*copied`, for the caller to
 * free. Null if there is no memory.
 */
static const char *row_of(const CFI_cdesc_t *array, int64_t bytes, char **copied) {
    *copied = NULL;
    if (bytes == 0) return "";
    if (is_row(array)) return array->base_addr;
    *copied = malloc((size_t)bytes);
    if (*copied) gather(array, array->rank - 1, array->base_addr, *copied);
    return *copied;
}

/* Copies a row of `bytes` bytes into the elements of an array. */
static void put(const CFI_cdesc_t *array, const void *row, int64_t bytes) {
    if (bytes == 0) return;
    if (is_row(array))
        memcpy(array->base_addr, row, (size_t)bytes);
    else
        scatter(array, array->rank - 1, array->base_addr, row);
}

/* The size in bytes of an array or a scalar, and its first element in a row; -1 if they cannot be used. */
static int64_t row_bytes(const CFI_cdesc_t *array, const void **first, char **copied) {
    int64_t bytes = bytes_of(array);
    if (bytes < 0) return -1;
    *first = row_of(array, bytes, copied);
    if (*first) return bytes;
    refused("expected memory for a copy of an array, found none", -1);
    return -1;
}

/* The number of numbers in an array, and their first one in a row; -1 if they cannot be used. */
static int64_t terms_of(const CFI_cdesc_t *array, const void **first, char **copied) {
    int64_t bytes = row_bytes(array, first, copied);
    /* Characters may have a length of 0. */
    return bytes <= 0 ? bytes : bytes / (int64_t)array->elem_len;
}

/* A byte for each element of a mask, 0 where it is false, in a row, and their number; -1 if the mask cannot be used. */
static int64_t marks_of(const CFI_cdesc_t *mask, const uint8_t **first, char **copied) {
    const void *elements;
    char *row;
    int64_t number = terms_of(mask, &elements, &row);
    *first = elements, *copied = row;
    const size_t each = mask->elem_len;
    if (number <= 0 || each == 1) return number;
    uint8_t *marks = calloc((size_t)number, 1);
    if (!marks) refused("expected memory for a copy of a mask, found none", -1);
    for (int64_t place = 0; place < number && marks; place++)
        for (size_t byte = 0; byte < each; byte++) marks[place] |= ((const uint8_t *)elements)[(size_t)place * each + byte];
    free(row);
    *first = marks, *copied = (char *)marks;
    return marks ? number : -1;
}

/* Checks that weights, or a mask, have as many elements as the array at `place`; -1 if the array is the only one. */
static int check_number(const char *name, int64_t expected, int64_t found, int place) {
    char text[TEXT];
    if (found == expected) return 0;
    snprintf(text, sizeof text, "%s: expected as many as values, %lld, found %lld", name, (long long)expected, (long long)found);
    return refused(text, place);
}

/*
 * The sum of each of `count` arrays of reals, in one message; with weights, of the products of its elements and these; with a mask, of
 * those elements where it is true. If an argument is wrong, -1 of `count` for example, the other ranks learn of it.
 */
static int exact_sums(hp_comm *comm, int count, const CFI_cdesc_t *const *arrays, const CFI_cdesc_t *weights, const CFI_cdesc_t *mask,
                      double *sums) {
    const void *values[MOST_ARRAYS], *of_weights = NULL, *by[MOST_ARRAYS];
    const uint8_t *marks = NULL, *masks[MOST_ARRAYS];
    char *copied[MOST_ARRAYS + 2] = {NULL}, text[TEXT];
    int64_t counts[MOST_ARRAYS], weight_count = 0, mask_count = 0;
    const int type = count > 0 ? type_of(arrays[0]) : HP_F64;
    int wrong = count < 0 ? HP_ARGUMENT : 0;
    if (!wrong && type != HP_F32 && type != HP_F64) wrong = refused("expected reals of 4 or 8 bytes, found another type", 0);
    if (!wrong && weights) {
        weight_count = terms_of(weights, &of_weights, &copied[MOST_ARRAYS]);
        wrong = weight_count < 0 ? HP_ARGUMENT : type_of(weights) != type ? refused("weights: expected the type of values, found another", -1) : 0;
    }
    if (!wrong && mask) wrong = (mask_count = marks_of(mask, &marks, &copied[MOST_ARRAYS + 1])) < 0 ? HP_ARGUMENT : 0;
    for (int place = 0; place < count && !wrong; place++) {
        const int named = count > 1 ? place : -1;
        counts[place] = terms_of(arrays[place], &values[place], &copied[place]), by[place] = of_weights, masks[place] = marks;
        if (counts[place] < 0) wrong = HP_ARGUMENT;
        if (!wrong && type_of(arrays[place]) != type) wrong = refused("expected the type of the first array, found another", place);
        if (!wrong && weights) wrong = check_number("weights", counts[place], weight_count, named);
        if (!wrong && mask) wrong = check_number("mask", counts[place], mask_count, named);
    }
    /* The text is that of the argument, not that of the call that tells the other ranks. */
    memcpy(text, message, sizeof text);
    hp_status status = hp_comm_sum_exact(comm, (hp_type)type, wrong ? -1 : count, counts, values, by, masks, sums);
    for (size_t place = 0; place < sizeof copied / sizeof copied[0]; place++) free(copied[place]);
    if (!wrong) return ended(status);
    memcpy(message, text, sizeof message);
    return wrong;
}

int hpf_sum_exact(hp_comm *comm, double *sum, const CFI_cdesc_t *values, const CFI_cdesc_t *weights, const CFI_cdesc_t *mask) {
    *sum = NAN;
    return exact_sums(comm, 1, &values, weights, mask, sum);
}

/* `room` is the number of elements of `sums`. */
int hpf_sums_exact(hp_comm *comm, double *sums, int64_t room, const CFI_cdesc_t *weights, const CFI_cdesc_t *mask, CFI_cdesc_t *a1, CFI_cdesc_t *a2, CFI_cdesc_t *a3, CFI_cdesc_t *a4, CFI_cdesc_t *a5, CFI_cdesc_t *a6, CFI_cdesc_t *a7, CFI_cdesc_t *a8, CFI_cdesc_t *a9, CFI_cdesc_t *a10,
    CFI_cdesc_t *a11, CFI_cdesc_t *a12, CFI_cdesc_t *a13, CFI_cdesc_t *a14, CFI_cdesc_t *a15, CFI_cdesc_t *a16, CFI_cdesc_t *a17, CFI_cdesc_t *a18, CFI_cdesc_t *a19, CFI_cdesc_t *a20) {
    CFI_cdesc_t *const arrays[] = {a1, a2, a3, a4, a5, a6, a7, a8, a9, a10, a11, a12, a13, a14, a15, a16, a17, a18, a19, a20};
    int count = count_of(arrays);
    for (int64_t sum = 0; sum < room; sum++) sums[sum] = NAN;
    if (count >= 0 && count != room) {
        char text[TEXT];
        snprintf(text, sizeof text, "sums: expected as many elements as there are arrays, %d, found %lld", count, (long long)room);
        refused(text, -1);
        count = -1;
    }
    return exact_sums(comm, count, (const CFI_cdesc_t *const *)arrays, weights, mask, sums);
}

/* What hp_reprosum_calc passes: `fields` columns of `columns` elements, of each of which the first `summands` are added up. */
typedef struct reprosum {
    const double *values;
    double *sums;
    int64_t summands, columns, fields;
    int32_t takes_not_finite; /* whether NaN and infinities are summands as others */
    /* Whether the largest values are written: of each field the magnitude, unless that is null; and the number of summands of a rank. */
    int32_t with_largest;
    double *largest;
    int64_t *most;
    double *differences; /* unless it is null, of each field the relative and the absolute difference from a sum of floats */
} reprosum;

/* Checks the arguments of this rank. */
static int check_summands(const reprosum *of) {
    char text[TEXT];
    if (of->summands < 0 || of->summands > of->columns || of->fields < 0 || of->fields > INT32_MAX)
        return refused("expected nsummands from 0 to dsummands, and nflds of 0 or more, found others", -1);
    for (int64_t field = 0; field < of->fields && !of->takes_not_finite; field++)
        for (int64_t place = 0; place < of->summands; place++) {
            const double found = of->values[field * of->columns + place];
            if (isfinite(found)) continue;
            snprintf(text, sizeof text, "arr(%lld, %lld): expected a number, found %s; with allow_infnan=.true. NaN and infinities are summands",
                     (long long)place + 1, (long long)field + 1, isnan(found) ? "a NaN" : "an infinity");
            return refused(text, -1);
        }
    return 0;
}

/* The largest magnitude of each field, and the largest number of summands, on all ranks. `room` has an element more than there are fields. */
static int extremes(hp_comm *comm, const reprosum *of, double *room) {
    memset(room, 0, (size_t)of->fields * sizeof *room);
    for (int64_t field = 0; field < of->fields; field++)
        for (int64_t place = 0; place < of->summands; place++) {
            const double found = fabs(of->values[field * of->columns + place]);
            if (found > room[field] || isnan(found)) room[field] = found;
        }
    room[of->fields] = (double)of->summands;
    hp_status status = hp_comm_all_reduce(comm, HP_MAX, HP_F64, of->fields + 1, room);
    if (status != HP_OK) return ended(status);
    if (of->largest) memcpy(of->largest, room, (size_t)of->fields * sizeof *room);
    *of->most = (int64_t)room[of->fields];
    return 0;
}

/* How far the exact sums are from sums of floats: relative and absolute, 0 of sums that are not finite. */
static int differences(hp_comm *comm, const reprosum *of, double *room) {
    for (int64_t field = 0; field < of->fields; field++) {
        room[field] = 0;
        for (int64_t place = 0; place < of->summands; place++) room[field] += of->values[field * of->columns + place];
    }
    hp_status status = hp_comm_all_reduce(comm, HP_SUM, HP_F64, of->fields, room);
    if (status != HP_OK) return ended(status);
    for (int64_t field = 0; field < of->fields; field++) {
        const double exact = of->sums[field], found = isfinite(exact) ? fabs(room[field] - exact) : 0;
        of->differences[2 * field] = fabs(exact) > found ? found / fabs(exact) : found;
        of->differences[2 * field + 1] = found;
    }
    return 0;
}

static int sum_columns(hp_comm *comm, const reprosum *of) {
    const size_t fields = of->fields > 0 ? (size_t)of->fields : 0;
    int64_t *counts = malloc((fields + 1) * sizeof *counts);
    const void **first = malloc((fields + 1) * sizeof *first);
    double *room = malloc((fields + 1) * sizeof *room);
    int wrong = check_summands(of);
    if (!wrong && (!counts || !first || !room)) wrong = refused("expected memory for sums, found none", -1);
    for (size_t field = 0; field < fields && !wrong; field++)
        counts[field] = of->summands, first[field] = of->values + (int64_t)field * of->columns;
    char text[TEXT];
    memcpy(text, message, sizeof text);
    hp_status status = hp_comm_sum_exact(comm, HP_F64, wrong ? -1 : (int32_t)fields, counts, first, NULL, NULL, of->sums);
    if (wrong) {
        memcpy(message, text, sizeof message);
    } else {
        wrong = ended(status);
        if (!wrong && of->with_largest) wrong = extremes(comm, of, room);
        if (!wrong && of->differences) wrong = differences(comm, of, room);
    }
    free(counts), free(first), free(room);
    return wrong;
}

/* On `comm`; or, for one call, on a duplicate of a communicator of MPI, or of that of all ranks of the job. */
int hpf_reprosum(hp_comm *comm, int32_t of_mpi, int32_t of_all, int64_t mpi, const double *values, double *sums, int64_t summands, int64_t columns,
                 int64_t fields, int32_t takes_not_finite, int32_t with_largest, double *largest, int64_t *most, double *differences) {
    const reprosum of = {values, sums, summands, columns, fields, takes_not_finite, with_largest, largest, most, differences};
    for (int64_t field = 0; field < fields; field++) {
        sums[field] = NAN;
        if (largest) largest[field] = NAN;
        if (differences) differences[2 * field] = differences[2 * field + 1] = NAN;
    }
    *most = -1;
    if (!of_mpi) return sum_columns(comm, &of);
    int wrong = of_all ? ended(hp_comm_mpi(NULL, 0, &comm)) : hpf_comm_create(mpi, &comm);
    if (wrong) return wrong;
    wrong = sum_columns(comm, &of);
    hp_comm_free(comm);
    return wrong;
}

/* A rank of haloport.h; none of it if that is too large. */
static int32_t rank_of(int64_t root) {
    return root >= 0 && root <= INT32_MAX ? (int32_t)root : -1;
}

int hpf_broadcast(hp_comm *comm, int64_t root, const CFI_cdesc_t *values) {
    const void *first = NULL;
    char *copied = NULL, text[TEXT];
    int64_t bytes = row_bytes(values, &first, &copied);
    memcpy(text, message, sizeof text);
    hp_status status = hp_comm_broadcast(comm, rank_of(root), bytes, (void *)first);
    if (status == HP_OK && copied) put(values, copied, bytes);
    free(copied);
    if (bytes >= 0) return ended(status);
    memcpy(message, text, sizeof message);
    return HP_ARGUMENT;
}

/* Checks that there is room for `expected` bytes. */
static int check_room(const CFI_cdesc_t *all, int64_t expected) {
    char text[TEXT];
    int64_t found = all ? bytes_of(all) : 0;
    if (found < 0) return HP_ARGUMENT;
    if (found == expected) return 0;
    snprintf(text, sizeof text, "all: expected an array of %lld bytes, those of all ranks, found %lld", (long long)expected,
             (long long)found);
    return refused(text, -1);
}

int hpf_gather(hp_comm *comm, int64_t root, const CFI_cdesc_t *values, const CFI_cdesc_t *all) {
    const void *first = NULL;
    char *copied = NULL, *room = NULL, *row = NULL, text[TEXT];
    int32_t rank = -1, ranks = 0;
    int64_t bytes = row_bytes(values, &first, &copied);
    int wrong = bytes < 0 ? HP_ARGUMENT : 0;
    if (hp_comm_rank(comm, &rank) == HP_OK && hp_comm_size(comm, &ranks) == HP_OK && rank == root && !wrong) {
        wrong = check_room(all, bytes * ranks);
        if (!wrong && bytes > 0) row = is_row(all) ? all->base_addr : (room = malloc((size_t)(bytes * ranks)));
        if (!wrong && bytes > 0 && !row) wrong = refused("expected memory for a copy of an array, found none", -1);
    }
    /* If an argument is wrong, the other ranks learn of it; the text here is that of the argument. */
    memcpy(text, message, sizeof text);
    hp_status status = hp_comm_gather(comm, rank_of(root), wrong ? -1 : bytes, first, row);
    if (status == HP_OK && room) put(all, room, bytes * ranks);
    free(copied), free(room);
    if (!wrong) return ended(status);
    memcpy(message, text, sizeof message);
    return wrong;
}

int hpf_sparse_create(hp_comm *comm, int32_t is_fixed, int32_t source_count, const int32_t *sources, int32_t destination_count,
                      const int32_t *destinations, hpf_sparse **sparse) {
    hp_sparse *found = NULL;
    hpf_sparse *made = new_record(&sparse_exchanges, sizeof *made);
    *sparse = NULL;
    if (!made) hpf_complain("expected memory for an exchange, found none");
    /* If an argument is wrong, the other ranks learn of it; the text here is that of the argument. */
    hp_status status = complaint[0] ? hp_sparse_between(comm, -1, NULL, 0, NULL, &found)
                       : is_fixed   ? hp_sparse_between(comm, source_count, sources, destination_count, destinations, &found)
                                    : hp_sparse_create(comm, &found);
    int wrong = complained() ? HP_ARGUMENT : ended(status);
    if (wrong) {
        end_record(&sparse_exchanges, made);
        return wrong;
    }
    made->sparse = found;
    *sparse = handle_of(made);
    return 0;
}

/* To rank `destinations[k]` go `counts[k]` elements along the last axis of `values`, one message after the other. */
static int start_messages(hpf_sparse *sparse, int64_t messages, const int32_t *destinations, const int64_t *counts,
                          const CFI_cdesc_t *values) {
    int64_t size = bytes_of(values), columns = values->rank > 0 ? values->dim[values->rank - 1].extent : 1, sum = 0;
    if (size < 0) return HP_ARGUMENT;
    for (int64_t message = 0; message < messages; message++) {
        if (counts[message] < 0) return refused("counts: expected numbers of 0 or more, found another", -1);
        sum = counts[message] > INT64_MAX - sum ? INT64_MAX : sum + counts[message];
    }
    if (sum != columns) {
        char text[TEXT];
        snprintf(text, sizeof text, "counts: expected a sum of %lld, the extent of the last axis of `values`, found %lld",
                 (long long)columns, (long long)sum);
        return refused(text, -1);
    }
    char *copied;
    const char *next = row_of(values, size, &copied);
    int64_t *bytes = malloc((size_t)(messages + 1) * sizeof *bytes);
    const void **data = malloc((size_t)(messages + 1) * sizeof *data);
    int wrong = 0;
    if (!next || !bytes || !data) wrong = refused("expected memory for messages, found none", -1);
    for (int64_t message = 0; message < messages && !wrong; message++) {
        bytes[message] = columns > 0 ? size / columns * counts[message] : 0, data[message] = next;
        next += bytes[message];
    }
    if (!wrong) wrong = ended(hp_sparse_start(sparse->sparse, messages, destinations, bytes, data));
    free(copied), free(bytes), free(data);
    return wrong;
}

int hpf_sparse_start(hpf_sparse *sparse, int64_t messages, const int32_t *destinations, const int64_t *counts,
                     const CFI_cdesc_t *values) {
    if (complained()) return HP_ARGUMENT;
    sparse = object_of(sparse);
    if (!sparse) return missing("an hp_sparse");
    return start_messages(sparse, messages, destinations, counts, values);
}

int hpf_sparse_ready(const hpf_sparse *sparse, int32_t *ready) {
    *ready = 0;
    sparse = object_of(sparse);
    if (!sparse) return missing("an hp_sparse");
    return ended(hp_sparse_ready(sparse->sparse, ready));
}

/* Writes the number of messages that have come. */
int hpf_sparse_finish(hpf_sparse *sparse, int64_t *count) {
    *count = 0;
    sparse = object_of(sparse);
    if (!sparse) return missing("an hp_sparse");
    int64_t messages = 0;
    const hp_received *came = NULL;
    hp_status status = hp_sparse_finish(sparse->sparse, &messages, &came);
    /* After an error, the messages of the last round stay. */
    if (status == HP_OK) sparse->count = *count = messages, sparse->came = came;
    return ended(status);
}

/* The source and the size of each message that has come. */
void hpf_sparse_list(const hpf_sparse *sparse, int32_t *sources, int64_t *bytes) {
    sparse = object_of(sparse);
    if (!sparse) return;
    for (int64_t place = 0; place < sparse->count; place++)
        sources[place] = sparse->came[place].rank, bytes[place] = sparse->came[place].bytes;
}

static int check_size(const char *name, const CFI_cdesc_t *array, int64_t expected) {
    int64_t found = bytes_of(array);
    if (found < 0) return HP_ARGUMENT;
    if (found == expected) return 0;
    char text[TEXT];
    snprintf(text, sizeof text, "%s: expected an array of %lld bytes, found one of %lld bytes", name, (long long)expected,
             (long long)found);
    return refused(text, -1);
}

/* Copies a message, counted from 1, or all messages, one after the other. */
int hpf_sparse_take(const hpf_sparse *sparse, int32_t is_one, int64_t message, const CFI_cdesc_t *array) {
    sparse = object_of(sparse);
    if (!sparse) return missing("an hp_sparse");
    if (is_one && (message < 1 || message > sparse->count)) {
        char text[TEXT];
        snprintf(text, sizeof text, "message: expected one of the %lld that have come, counted from 1, found %lld",
                 (long long)sparse->count, (long long)message);
        return refused(text, -1);
    }
    if (is_one) {
        const hp_received *one = &sparse->came[message - 1];
        if (check_size("array", array, one->bytes)) return HP_ARGUMENT;
        put(array, one->data, one->bytes);
        return 0;
    }
    int64_t bytes = 0;
    for (int64_t place = 0; place < sparse->count; place++) bytes += sparse->came[place].bytes;
    if (check_size("array", array, bytes)) return HP_ARGUMENT;
    char *row = malloc((size_t)bytes + 1), *next = row;
    if (!row) return refused("expected memory for messages, found none", -1);
    for (int64_t place = 0; place < sparse->count; place++) {
        size_t part = (size_t)sparse->came[place].bytes;
        if (part > 0) memcpy(next, sparse->came[place].data, part);
        next += part;
    }
    put(array, row, bytes);
    free(row);
    return 0;
}

int hpf_sparse_free(hpf_sparse *sparse) {
    if (!sparse) return ended(HP_OK);
    sparse = object_of(sparse);
    if (!sparse) return missing("an hp_sparse");
    hp_status status = hp_sparse_free(sparse->sparse);
    if (status == HP_OK) end_record(&sparse_exchanges, sparse);
    return ended(status);
}

/* The items of this rank, which count from 1, are `lower` to `upper`. If `is_even`, there are `upper` items on all ranks. */
int hpf_line_create(hp_comm *comm, int32_t is_even, int64_t lower, int64_t upper, hpf_line **line) {
    hp_line *found = NULL;
    hpf_line *made = new_record(&lines, sizeof *made);
    *line = NULL;
    if (!made) hpf_complain("expected memory for a line, found none");
    if (!is_even && lower < 1 && !complaint[0])
        snprintf(complaint, sizeof complaint, "items: expected numbers from 1 on, found %lld", (long long)lower);
    hp_status status = complaint[0] ? hp_line_even(comm, -1, &found)
                       : is_even    ? hp_line_even(comm, upper, &found)
                                    : hp_line_create(comm, lower - 1, upper, &found);
    int wrong = complained() ? HP_ARGUMENT : ended(status);
    if (wrong) {
        end_record(&lines, made);
        return wrong;
    }
    made->line = found, made->from_left = made->from_right = NO_PAYLOAD;
    *line = handle_of(made);
    return 0;
}

int hpf_line_items(const hpf_line *line, int64_t *lower, int64_t *upper) {
    *lower = 1, *upper = 0;
    line = object_of(line);
    if (!line) return missing("an hp_line");
    hp_status status = hp_line_items(line->line, lower, upper, NULL);
    *lower += 1;
    return ended(status);
}

int hpf_line_neighbours(const hpf_line *line, int32_t *left, int32_t *right) {
    *left = *right = -1;
    line = object_of(line);
    if (!line) return missing("an hp_line");
    return ended(hp_line_neighbours(line->line, left, right));
}

/* Absent arrays are null. */
int hpf_line_start(const hpf_line *line, const CFI_cdesc_t *left, const CFI_cdesc_t *right) {
    const CFI_cdesc_t *const sides[] = {left, right};
    hp_payload given[] = {NO_PAYLOAD, NO_PAYLOAD};
    char *copied[] = {NULL, NULL};
    int wrong = 0;
    line = object_of(line);
    if (!line) return missing("an hp_line");
    for (int side = 0; side < 2 && !wrong; side++) {
        if (!sides[side]) continue;
        given[side].bytes = bytes_of(sides[side]);
        if (given[side].bytes < 0) wrong = HP_ARGUMENT;
        if (!wrong) given[side].data = row_of(sides[side], given[side].bytes, &copied[side]);
        if (!wrong && !given[side].data) wrong = refused("expected memory for a payload, found none", -1);
    }
    if (!wrong) wrong = ended(hp_line_start(line->line, given[0], given[1]));
    free(copied[0]), free(copied[1]);
    return wrong;
}

int hpf_line_ready(const hpf_line *line, int32_t *ready) {
    *ready = 0;
    line = object_of(line);
    if (!line) return missing("an hp_line");
    return ended(hp_line_ready(line->line, ready));
}

/* Writes the sizes of the payloads that have come; -1 for none. */
int hpf_line_finish(hpf_line *line, int64_t *left_bytes, int64_t *right_bytes) {
    *left_bytes = *right_bytes = HP_NO_PAYLOAD;
    line = object_of(line);
    if (!line) return missing("an hp_line");
    hp_payload left = {HP_NO_PAYLOAD, NULL}, right = {HP_NO_PAYLOAD, NULL};
    hp_status status = hp_line_finish(line->line, &left, &right);
    /* After an error, the payloads of the last round stay. */
    if (status == HP_OK) line->from_left = left, line->from_right = right, *left_bytes = left.bytes, *right_bytes = right.bytes;
    return ended(status);
}

int hpf_line_take(const hpf_line *line, const CFI_cdesc_t *left, const CFI_cdesc_t *right) {
    line = object_of(line);
    if (!line) return missing("an hp_line");
    if (left && line->from_left.bytes < 0) return refused("left: expected a payload that has come from there, found none", -1);
    if (right && line->from_right.bytes < 0) return refused("right: expected a payload that has come from there, found none", -1);
    if (left && check_size("left", left, line->from_left.bytes)) return HP_ARGUMENT;
    if (right && check_size("right", right, line->from_right.bytes)) return HP_ARGUMENT;
    if (left) put(left, line->from_left.data, line->from_left.bytes);
    if (right) put(right, line->from_right.data, line->from_right.bytes);
    return 0;
}

int hpf_line_free(hpf_line *line) {
    if (!line) return ended(HP_OK);
    line = object_of(line);
    if (!line) return missing("an hp_line");
    hp_status status = hp_line_free(line->line);
    if (status == HP_OK) end_record(&lines, line);
    return ended(status);
}
