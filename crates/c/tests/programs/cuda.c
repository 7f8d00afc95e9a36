/*
 * Addresses of CUDA: what plans, messages and sums take for memory of a device, and what they refuse. Runs on a driver that records and
 * computes nothing, so the values of halos are not looked at: cuda
 */
#include <dlfcn.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "haloport.h"

#define FAIL(...)                                  \
    do {                                           \
        fprintf(stderr, "line %d: ", __LINE__);    \
        fprintf(stderr, __VA_ARGS__);              \
        fprintf(stderr, "\n");                     \
        exit(1);                                   \
    } while (0)
#define CHECK(call)                                \
    do {                                           \
        if ((call) != HP_OK) FAIL("%s", hp_message()); \
    } while (0)
#define CU(call)                                   \
    do {                                           \
        if (call) FAIL("expected success, found an error of CUDA"); \
    } while (0)
#define REFUSED(expected, word, call)                                                                      \
    do {                                                                                                   \
        hp_status found = (call);                                                                          \
        calls++;                                                                                           \
        if (found != (expected) || !strstr(hp_message(), word))                                            \
            FAIL("expected %d and \"%s\", found %d: %s", (int)(expected), word, (int)found, hp_message()); \
    } while (0)

enum { CELLS = 6 };

static int calls;
static hp_pattern *pattern;
static hp_array like;

/* The driver, as its header declares it. */
static void *library;
static int32_t (*init)(uint32_t), (*retain)(void **, int32_t), (*push)(void *), (*allocate)(uint64_t *, size_t),
    (*allocate_managed)(uint64_t *, size_t, uint32_t), (*allocate_pinned)(void **, size_t, uint32_t),
    (*create_stream)(void **, uint32_t, int32_t);
static size_t (*allocate_foreign)(size_t);
static void (*take_calls)(void (*)(const char *, size_t, void *), void *);

static void find(const char *name, void *function) {
    void *found = dlsym(library, name);
    if (!found) FAIL("expected a function %s, found none", name);
    memcpy(function, &found, sizeof found);
}

static void count(const char *text, size_t bytes, void *of) {
    (void)text;
    *(size_t *)of += bytes;
}

static void count_copies(const char *text, size_t bytes, void *of) {
    const char word[] = "cuMemcpyAsync";
    for (size_t at = 0; at + sizeof word <= bytes; at++) *(int *)of += memcmp(text + at, word, sizeof word - 1) == 0;
}

/* The number of copies by the driver since it was last asked. */
static int copies(void) {
    int found = 0;
    take_calls(count_copies, &found);
    return found;
}

/* Whether the driver was called since it was last asked. */
static int was_called(void) {
    size_t bytes = 0;
    take_calls(count, &bytes);
    return bytes > 0;
}

/* Fails unless a plan for an array at this address is on this device. */
static void expect(void *at, const char *name, const char *on) {
    void *data[] = {at};
    hp_array named = like;
    hp_plan *plan;
    named.device = name;
    CHECK(hp_plan_create(pattern, 1, &named, data, NULL, &plan));
    char text[2000];
    size_t room = sizeof text;
    CHECK(hp_plan_describe(plan, text, &room));
    if (!strstr(text, on)) FAIL("expected a plan on %s, found %s", on, text);
    CHECK(hp_plan_free(plan));
}

static void refuse(hp_status status, const char *word, void *at, const char *name) {
    void *data[] = {at};
    hp_array named = like;
    named.device = name;
    for (int fixed = 0; fixed < 2; fixed++) {
        hp_options options = HP_OPTIONS_INIT;
        options.fixed = fixed;
        hp_plan *plan;
        REFUSED(status, word, hp_plan_create(pattern, 1, &named, data, &options, &plan));
    }
}

int main(void) {
    hp_comm *comm;
    CHECK(hp_comm_threads(1, &comm));
    hp_grid grid = HP_GRID_INIT;
    grid.axes = 1, grid.cells[0] = CELLS - 2, grid.halo_lower[0] = grid.halo_upper[0] = 1, grid.periodic[0] = 1;
    CHECK(hp_pattern_grid(comm, &grid, HP_SPLIT, NULL, &pattern));
    hp_array usual = HP_ARRAY_INIT;
    like = usual, like.type = HP_F64, like.axes = 1, like.extent[0] = CELLS;
    double of_host[CELLS] = {0};
    const hp_stream by_default = {HP_DEFAULT, 0, 0};
    const char *cpu = "[\"cpu:0\"]", *first = "[\"cuda:0\"]", *second = "[\"cuda:1\"]";

    /* A program without CUDA: nothing is loaded to ask about an address. */
    expect(of_host, NULL, cpu);
    expect(NULL, NULL, cpu);
    if (dlopen("libcuda.so.1", RTLD_NOW | RTLD_NOLOAD)) FAIL("expected a process without CUDA");
    /* A program that is linked to CUDA and does not use it. */
    library = dlopen("libcuda.so.1", RTLD_NOW);
    if (!library) FAIL("%s", dlerror());
    find("driver_take_all_calls", &take_calls);
    expect(of_host, NULL, cpu);

    find("cuInit", &init), find("cuDevicePrimaryCtxRetain", &retain), find("cuCtxPushCurrent_v2", &push);
    find("cuMemAlloc_v2", &allocate), find("cuMemAllocManaged", &allocate_managed), find("cuMemHostAlloc", &allocate_pinned);
    find("cuStreamCreateWithPriority", &create_stream), find("driver_allocate_foreign", &allocate_foreign);
    void *contexts[2], *stream, *foreign_stream;
    uint64_t numbers[3];
    void *pinned;
    CU(init(0));
    for (int number = 1; number >= 0; number--) {
        CU(retain(&contexts[number], number));
        CU(push(contexts[number]));
        CU(allocate(&numbers[number], sizeof of_host));
        CU(create_stream(number ? &foreign_stream : &stream, 1, 0));
    }
    CU(allocate_managed(&numbers[2], sizeof of_host, 1));
    CU(allocate_pinned(&pinned, sizeof of_host, 0));
    void *here = (void *)(uintptr_t)numbers[0], *there = (void *)(uintptr_t)numbers[1], *managed = (void *)(uintptr_t)numbers[2];
    void *elsewhere = (void *)(uintptr_t)allocate_foreign(sizeof of_host);

    expect(here, NULL, first);
    expect(there, NULL, second);
    expect(managed, NULL, first);
    expect(pinned, NULL, cpu);
    expect(of_host, NULL, cpu);
    expect(here, "cuda:0", first);
    expect(managed, "cuda:0", first);
    expect(managed, "cpu", cpu);
    expect(pinned, "cuda:0", first);
    expect(pinned, "cpu", cpu);
    expect(NULL, "cuda:1", second);
    refuse(HP_ARGUMENT, "one in memory of cuda:0", here, "cpu");
    refuse(HP_ARGUMENT, "expected one in memory of cuda:1", here, "cuda:1");
    refuse(HP_ARGUMENT, "which the driver does not know", of_host, "cuda:0");
    refuse(HP_ARGUMENT, "primary context", elsewhere, NULL);
    /* The first element is there, and the last one is not. */
    refuse(HP_ARGUMENT, "all of them in the allocation", (char *)here + sizeof(double), NULL);
    refuse(HP_DEVICE, "cuda:7", here, "cuda:7");

    /* Addresses of later calls. */
    hp_plan *plan;
    void *right[] = {here}, *wrong[] = {of_host}, *other[] = {there}, *also_right[] = {managed}, *nothing[] = {NULL};
    CHECK(hp_plan_create(pattern, 1, &like, right, NULL, &plan));
    hp_stream streams[] = {{HP_DEFAULT, 0, 0}, {HP_BLOCK, 0, 0}, {HP_ON, 0, (uintptr_t)stream}, {HP_ON, 0, 0}};
    hp_stream bad[] = {{HP_SYCL, 0, (uintptr_t)stream}, {HP_ON, 0, (uintptr_t)foreign_stream}, {9, 0, 0}};
    for (int kind = 0; kind < 4; kind++) {
        CHECK(hp_exchange(plan, right, streams[kind]));
        CHECK(hp_exchange(plan, also_right, streams[kind]));
        CHECK(hp_start(plan, right, streams[kind], NULL));
        CHECK(hp_finish(plan, HP_NO_TICKET, streams[kind]));
        REFUSED(HP_ARGUMENT, "data[0]", hp_start(plan, wrong, streams[kind], NULL));
        REFUSED(HP_ARGUMENT, "which the driver does not know", hp_exchange(plan, wrong, streams[kind]));
        REFUSED(HP_ARGUMENT, "one of cuda:1", hp_start(plan, other, streams[kind], NULL));
        REFUSED(HP_ARGUMENT, "data[0]: expected an address, found null", hp_start(plan, nothing, streams[kind], NULL));
    }
    REFUSED(HP_ARGUMENT, "HP_ON", hp_start(plan, right, bad[0], NULL));
    REFUSED(HP_ARGUMENT, "the handle of a CUDA stream", hp_start(plan, right, bad[1], NULL));
    REFUSED(HP_ARGUMENT, "stream.kind", hp_start(plan, right, bad[2], NULL));
    CHECK(hp_synchronize(plan));
    CHECK(hp_plan_free(plan));

    /* A queue of OpenCL says where arrays are, but not those that name a device. */
    hp_options options = HP_OPTIONS_INIT;
    options.queue.kind = HP_ON;
    REFUSED(HP_ARGUMENT, "null", hp_plan_create(pattern, 1, &like, right, &options, &plan));

    /* Fields on the host and on a device. */
    hp_array both[] = {like, like};
    void *mixed[] = {of_host, here};
    CHECK(hp_plan_create(pattern, 2, both, mixed, NULL, &plan));
    CHECK(hp_exchange(plan, mixed, by_default));
    void *swapped[] = {here, of_host};
    REFUSED(HP_ARGUMENT, "data[1]", hp_exchange(plan, swapped, by_default));
    CHECK(hp_plan_free(plan));

    /* On the host, exchanges call no driver. */
    CHECK(hp_plan_create(pattern, 1, &like, wrong, NULL, &plan));
    was_called();
    for (int kind = 0; kind < 4; kind++) CHECK(hp_exchange(plan, wrong, streams[kind]));
    if (was_called()) FAIL("expected no call of the driver for memory of the host");
    CHECK(hp_plan_free(plan));
    CHECK(hp_pattern_free(pattern));

    /* The domains of a field are in one place. */
    hp_box boxes[2];
    memset(boxes, 0, sizeof boxes);
    boxes[0].upper[0] = boxes[1].lower[0] = 2, boxes[1].upper[0] = 4;
    CHECK(hp_pattern_grid(comm, &grid, 2, boxes, &pattern));
    both[0].extent[0] = both[1].extent[0] = 4;
    REFUSED(HP_ARGUMENT, "like[1]", hp_plan_create(pattern, 1, both, mixed, NULL, &plan));
    void *half_known[] = {NULL, here};
    CHECK(hp_plan_create(pattern, 1, both, half_known, NULL, &plan));
    void *split[] = {here, managed};
    CHECK(hp_exchange(plan, split, by_default));
    REFUSED(HP_ARGUMENT, "data[0]", hp_exchange(plan, mixed, by_default));
    CHECK(hp_plan_free(plan));
    CHECK(hp_pattern_free(pattern));

    /* Messages in memory of CUDA, which only the driver can copy. */
    double one[CELLS] = {1, 2, 3};
    hp_sparse *sparse;
    CHECK(hp_sparse_create(comm, &sparse));
    const void *parts[] = {there, one, managed, there}, *outside[] = {elsewhere}, *past[] = {(char *)there + sizeof(double)};
    int32_t self[4] = {0};
    int64_t sizes[] = {sizeof one, sizeof one, sizeof one, 0}, came = 0;
    const hp_received *list;
    copies();
    CHECK(hp_sparse_start(sparse, 4, self, sizes, parts));
    if (copies() != 2) FAIL("expected copies by the driver of the messages in its memory");
    CHECK(hp_sparse_finish(sparse, &came, &list));
    if (came != 4 || list[0].bytes != sizeof one || memcmp(list[1].data, one, sizeof one) != 0 || list[3].bytes != 0)
        FAIL("expected the messages that were sent, found others");
    REFUSED(HP_ARGUMENT, "primary context", hp_sparse_start(sparse, 1, self, sizes, outside));
    REFUSED(HP_ARGUMENT, "all of them in the allocation", hp_sparse_start(sparse, 1, self, sizes, past));
    CHECK(hp_sparse_free(sparse));
    hp_line *line;
    CHECK(hp_line_even(comm, 1, &line));
    const hp_payload none = {HP_NO_PAYLOAD, NULL}, right_one = {sizeof one, there}, wrong_one = {sizeof one, past[0]};
    copies();
    CHECK(hp_line_start(line, none, right_one));
    if (copies() != 1) FAIL("expected a copy by the driver of the payload in its memory");
    hp_payload from_left;
    CHECK(hp_line_finish(line, &from_left, NULL));
    REFUSED(HP_ARGUMENT, "all of them in the allocation", hp_line_start(line, wrong_one, none));
    CHECK(hp_line_free(line));

    /* Values of sums, likewise; this driver copies nothing, so it does not matter what their sum is. */
    const int64_t counts[] = {3, 3, 0};
    const void *values[] = {one, there, here}, *weights[] = {NULL, managed, there};
    double sums[] = {-1, -1, -1};
    const uint8_t *masks[] = {NULL, there, there};
    copies();
    CHECK(hp_comm_sum_exact(comm, HP_F64, 3, counts, values, weights, masks, sums));
    if (copies() != 3) FAIL("expected copies by the driver of the values, the weights and the mask in its memory");
    if (sums[0] != 6 || sums[2] != 0) FAIL("expected 6 and 0, found %g and %g", sums[0], sums[2]);
    REFUSED(HP_ARGUMENT, "primary context", hp_comm_sum_exact(comm, HP_F64, 1, counts, outside, NULL, NULL, sums));
    REFUSED(HP_ARGUMENT, "all of them in the allocation", hp_comm_sum_exact(comm, HP_F64, 1, sizes, past, NULL, NULL, sums));
    CHECK(hp_comm_free(comm));
    printf("%d wrong calls\n", calls);
    return 0;
}
