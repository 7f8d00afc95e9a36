/*
 * Arrays in memory of OpenCL, on queues of the program: devices opencl
 * The same with queues of SYCL, by the C interface of dpctl: devices sycl libDPCTLSyclInterface.so
 *
 * Each rank copies cells into an array, exchanges, and copies the array out, again and again in its queue. The host waits once,
 * at the end. Then wrong queues and addresses: each is refused with a text.
 */
#define _DEFAULT_SOURCE
#include <dlfcn.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "haloport.h"

enum { NX = 60, NY = 44, RANKS = 3, STEPS = 24 };

#define FAIL(...)                                                          \
    do {                                                                   \
        fprintf(stderr, "line %d: ", __LINE__);                            \
        fprintf(stderr, __VA_ARGS__);                                      \
        fprintf(stderr, "\n");                                             \
        _exit(1); /* other threads are at work */                          \
    } while (0)
#define CHECK(call)                                                        \
    do {                                                                   \
        if ((call) != HP_OK) FAIL("%s", hp_message());                     \
    } while (0)
#define REFUSED(expected, word, call)                                                                         \
    do {                                                                                                      \
        hp_status found = (call);                                                                             \
        calls++;                                                                                              \
        if (found != (expected) || !strstr(hp_message(), word))                                               \
            FAIL("expected %d and \"%s\", found %d: %s", (int)(expected), word, (int)found, hp_message());    \
    } while (0)

static int calls;

/* --- What the programs do with their devices ---------------------------------------------------------------------------- */

/* A queue, as the program has it, and in the terms of Haloport; queues of one context share memory. */
typedef struct queue {
    void *own, *context, *last; /* the event of its last command */
    int in_order;
    hp_stream stream;
} queue;

/*
 * The calls of OpenCL or SYCL. Copies do not wait for anything, but for earlier commands if the queue is in order. Of a queue that
 * is out of order, waiting is polling for the last command: in Intel's runtime for CPUs (2026.2), a thread that waits for such a
 * queue may take on the wait of another thread, and two ranks that are threads then wait for each other for ever.
 */
static struct {
    void *(*context)(void);
    queue (*queue)(void *context, int in_order);
    void *(*allocate)(queue *of, size_t bytes, int shared);
    void (*copy)(queue *of, void *to, const void *from, size_t bytes);
    void (*wait)(queue *of);
} device;

/* A function of a library; functions are no objects in C, so it is copied through memory. */
static void find(void *library, const char *name, void *function) {
    void *found = dlsym(library, name);
    if (!found) FAIL("expected a function %s, found none", name);
    memcpy(function, &found, sizeof found);
}

/* --- OpenCL, without its headers ---------------------------------------------------------------------------------------- */

static struct {
    void *platform, *device;
    int32_t (*platforms)(uint32_t, void **, uint32_t *);
    int32_t (*devices)(void *, uint64_t, uint32_t, void **, uint32_t *);
    int32_t (*about)(void *, uint32_t, size_t, void *, size_t *);
    void *(*create_context)(const intptr_t *, uint32_t, void *const *, void *, void *, int32_t *);
    void *(*create_queue)(void *, void *, const uint64_t *, int32_t *);
    void *(*extension)(void *, const char *);
    int32_t (*finish)(void *);
    int32_t (*flush)(void *);
    int32_t (*release)(void *event);
    int32_t (*about_event)(void *, uint32_t, size_t, void *, size_t *);
    void *(*allocate)(void *, void *, const uint64_t *, size_t, uint32_t, int32_t *);
    void *(*allocate_shared)(void *, void *, const uint64_t *, size_t, uint32_t, int32_t *);
    int32_t (*copy)(void *, uint32_t, void *, const void *, size_t, uint32_t, void *, void **);
} cl;

static void *opencl_context(void) {
    int32_t status;
    void *made = cl.create_context(NULL, 1, &cl.device, NULL, NULL, &status);
    if (status) FAIL("clCreateContext: %d", status);
    return made;
}

static queue opencl_queue(void *context, int in_order) {
    const uint64_t properties[] = {0x1093, in_order ? 0 : 1, 0};
    int32_t status;
    queue made = {NULL, context, NULL, in_order, {HP_ON, 0, 0}};
    made.own = cl.create_queue(context, cl.device, properties, &status);
    if (status) FAIL("clCreateCommandQueueWithProperties: %d", status);
    made.stream.handle = (uintptr_t)made.own;
    return made;
}

static void *opencl_allocate(queue *of, size_t bytes, int shared) {
    int32_t status;
    void *made = (shared ? cl.allocate_shared : cl.allocate)(of->context, cl.device, NULL, bytes, 64, &status);
    if (status) FAIL("clDeviceMemAllocINTEL: %d", status);
    return made;
}

static void opencl_copy(queue *of, void *to, const void *from, size_t bytes) {
    if (of->last) cl.release(of->last);
    int32_t status = cl.copy(of->own, 0, to, from, bytes, 0, NULL, &of->last);
    if (status) FAIL("clEnqueueMemcpyINTEL: %d", status);
}

static void opencl_wait(queue *of) {
    int32_t status = of->in_order ? cl.finish(of->own) : cl.flush(of->own), state = 1;
    if (status) FAIL("clFinish: %d", status);
    while (!of->in_order && state > 0) {
        usleep(50);
        if (cl.about_event(of->last, 0x11D3, sizeof state, &state, NULL)) FAIL("clGetEventInfo");
    }
    if (state < 0) FAIL("expected a copy that is done, found the status %d", state);
}

static void extension(const char *name, void *function) {
    void *found = cl.extension(cl.platform, name);
    if (!found) FAIL("expected a function %s, found none", name);
    memcpy(function, &found, sizeof found);
}

/* Why OpenCL cannot be used; null if it can be. Without unified shared memory, `*has_memory` is 0. */
static const char *open_opencl(int *has_memory) {
    void *library = dlopen("libOpenCL.so.1", RTLD_NOW);
    if (!library) return "no libOpenCL.so.1";
    find(library, "clGetPlatformIDs", &cl.platforms);
    find(library, "clGetDeviceIDs", &cl.devices);
    find(library, "clGetDeviceInfo", &cl.about);
    find(library, "clCreateContext", &cl.create_context);
    find(library, "clCreateCommandQueueWithProperties", &cl.create_queue);
    find(library, "clGetExtensionFunctionAddressForPlatform", &cl.extension);
    find(library, "clFinish", &cl.finish);
    find(library, "clFlush", &cl.flush);
    find(library, "clReleaseEvent", &cl.release);
    find(library, "clGetEventInfo", &cl.about_event);
    uint32_t found = 0;
    if (cl.platforms(1, &cl.platform, &found) || found == 0) return "no platform of OpenCL";
    if (cl.devices(cl.platform, 0xFFFFFFFF, 1, &cl.device, &found) || found == 0) return "no device of OpenCL";
    static char extensions[1 << 16];
    if (cl.about(cl.device, 0x1030, sizeof extensions, extensions, NULL)) return "a device of OpenCL without extensions";
    *has_memory = strstr(extensions, "cl_intel_unified_shared_memory") != NULL;
    if (*has_memory) {
        extension("clDeviceMemAllocINTEL", &cl.allocate);
        extension("clSharedMemAllocINTEL", &cl.allocate_shared);
        extension("clEnqueueMemcpyINTEL", &cl.copy);
    }
    device.context = opencl_context, device.queue = opencl_queue, device.allocate = opencl_allocate;
    device.copy = opencl_copy, device.wait = opencl_wait;
    return NULL;
}

/* --- SYCL, by dpctl ------------------------------------------------------------------------------------------------------- */

static struct {
    void *device;
    void *(*selector)(const char *);
    void *(*device_of)(void *selector);
    void *(*context_of)(void *device, void *handler, int);
    void *(*create_queue)(void *context, void *device, void *handler, int);
    void *(*allocate)(size_t, void *);
    void *(*allocate_shared)(size_t, void *);
    void *(*copy)(void *, void *, const void *, size_t);
    void (*forget)(void *event);
    int (*state)(void *event);
    void (*wait)(void *);
} sycl;

static void *sycl_context(void) {
    void *made = sycl.context_of(sycl.device, NULL, 0);
    if (!made) FAIL("no context of SYCL");
    return made;
}

static queue sycl_queue(void *context, int in_order) {
    queue made = {sycl.create_queue(context, sycl.device, NULL, in_order ? 2 : 0), context, NULL, in_order, {HP_SYCL, 0, 0}};
    if (!made.own) FAIL("no queue of SYCL");
    made.stream.handle = (uintptr_t)made.own;
    return made;
}

static void *sycl_allocate(queue *of, size_t bytes, int shared) {
    return (shared ? sycl.allocate_shared : sycl.allocate)(bytes, of->own);
}

static void sycl_copy(queue *of, void *to, const void *from, size_t bytes) {
    if (of->last) sycl.forget(of->last);
    of->last = sycl.copy(of->own, to, from, bytes);
}

static void sycl_wait(queue *of) {
    if (of->in_order) sycl.wait(of->own);
    while (!of->in_order && sycl.state(of->last) != 3) usleep(50);
}

static void open_sycl(const char *path) {
    void *library = dlopen(path, RTLD_NOW);
    if (!library) FAIL("%s", dlerror());
    find(library, "DPCTLFilterSelector_Create", &sycl.selector);
    find(library, "DPCTLDevice_CreateFromSelector", &sycl.device_of);
    find(library, "DPCTLContext_Create", &sycl.context_of);
    find(library, "DPCTLQueue_Create", &sycl.create_queue);
    find(library, "DPCTLmalloc_device", &sycl.allocate);
    find(library, "DPCTLmalloc_shared", &sycl.allocate_shared);
    find(library, "DPCTLQueue_Memcpy", &sycl.copy);
    find(library, "DPCTLEvent_Delete", &sycl.forget);
    find(library, "DPCTLEvent_GetCommandExecutionStatus", &sycl.state);
    find(library, "DPCTLQueue_Wait", &sycl.wait);
    sycl.device = sycl.device_of(sycl.selector("opencl:cpu"));
    if (!sycl.device) FAIL("no device opencl:cpu");
    device.context = sycl_context, device.queue = sycl_queue, device.allocate = sycl_allocate;
    device.copy = sycl_copy, device.wait = sycl_wait;
}

/* --- Exchanges ------------------------------------------------------------------------------------------------------------ */

/* The value of a cell of a periodic grid in a step. */
static int64_t value(int64_t i, int64_t j, int step) {
    return ((i + NX) % NX * NY + (j + NY) % NY) * 1000 + step;
}

static hp_grid plate(void) {
    hp_grid grid = HP_GRID_INIT;
    grid.axes = 2, grid.cells[0] = NX, grid.cells[1] = NY;
    for (int axis = 0; axis < 2; axis++) grid.periodic[axis] = grid.halo_lower[axis] = grid.halo_upper[axis] = 1;
    return grid;
}

typedef struct job {
    hp_comm *comm;
    queue queue;
    int by_default; /* whether exchanges name the queue, or are on that of the plan */
    int overlap;    /* whether something is between start and finish */
    int fixed;
    int with_host;  /* whether a field in memory of the host travels along */
} job;

static void *rank(void *of) {
    job *self = of;
    hp_grid grid = plate();
    hp_pattern *pattern;
    CHECK(hp_pattern_grid(self->comm, &grid, HP_SPLIT, NULL, &pattern));
    hp_box mine, all;
    CHECK(hp_pattern_domain(pattern, NULL, 0, &mine, &all, NULL));
    int64_t ni = all.upper[0] - all.lower[0], nj = all.upper[1] - all.lower[1];
    size_t cells = (size_t)(ni * nj), bytes = cells * sizeof(int64_t);

    /* Two arrays on the device in turn, so that an exchange lies between two uses of one, which puts commands of queues that are
     * out of order into order; and for each step what goes in and what comes out. */
    void *arrays[2] = {device.allocate(&self->queue, bytes, 0), device.allocate(&self->queue, bytes, 1)};
    int64_t *in = malloc(STEPS * bytes), *out = calloc(STEPS, bytes), *here = malloc(bytes);
    double *beside = malloc(cells * sizeof *beside);
    for (int step = 0; step < STEPS; step++)
        for (int64_t i = 0; i < ni; i++)
            for (int64_t j = 0; j < nj; j++) {
                int64_t gi = i + all.lower[0], gj = j + all.lower[1];
                int owned = gi >= mine.lower[0] && gi < mine.upper[0] && gj >= mine.lower[1] && gj < mine.upper[1];
                in[(size_t)step * cells + (size_t)(i * nj + j)] = owned ? value(gi, gj, step) : -1;
            }

    hp_array like[2] = {HP_ARRAY_INIT, HP_ARRAY_INIT};
    like[0].type = HP_I64, like[1].type = HP_F64, like[1].device = "cpu";
    for (int field = 0; field < 2; field++) like[field].axes = 2, like[field].extent[0] = ni, like[field].extent[1] = nj;
    hp_options options = HP_OPTIONS_INIT;
    options.queue = self->queue.stream, options.fixed = self->fixed;
    hp_plan *plans[2], *plan;
    for (int turn = 0; turn < 2; turn++) {
        void *data[] = {arrays[turn], beside};
        CHECK(hp_plan_create(pattern, self->with_host ? 2 : 1, like, self->fixed ? data : NULL, &options, &plans[turn]));
    }
    plan = plans[0];
    char text[2000];
    size_t room = sizeof text;
    CHECK(hp_plan_describe(plan, text, &room));
    if (!strstr(text, "\"sycl:")) FAIL("expected a plan on a device of OpenCL, found %s", text);

    hp_stream none = {HP_DEFAULT, 0, 0}, stream = self->by_default ? none : self->queue.stream;
    for (int step = 0; step < STEPS; step++) {
        for (size_t cell = 0; cell < cells; cell++) beside[cell] = (double)in[(size_t)step * cells + cell];
        void *data[] = {arrays[step % 2], beside};
        plan = plans[self->fixed ? step % 2 : 0];
        device.copy(&self->queue, data[0], in + (size_t)step * cells, bytes);
        if (self->overlap) {
            hp_ticket ticket;
            int32_t ready;
            CHECK(hp_start(plan, self->fixed ? NULL : data, stream, &ticket));
            CHECK(hp_ready(plan, ticket, &ready));
            CHECK(hp_finish(plan, ticket, stream));
        } else {
            CHECK(hp_exchange(plan, data, stream));
        }
        device.copy(&self->queue, out + (size_t)step * cells, data[0], bytes);
        if (self->overlap && step % 5 == 4) device.wait(&self->queue); /* also with idle queues in between */
        for (size_t cell = 0; cell < cells && self->with_host; cell++) {
            int64_t i = (int64_t)cell / nj + all.lower[0], j = (int64_t)cell % nj + all.lower[1];
            if (beside[cell] != (double)value(i, j, step)) FAIL("step %d, host, cell %d %d", step, (int)i, (int)j);
        }
    }
    device.wait(&self->queue);
    for (int step = 0; step < STEPS; step++)
        for (size_t cell = 0; cell < cells; cell++) {
            int64_t i = (int64_t)cell / nj + all.lower[0], j = (int64_t)cell % nj + all.lower[1];
            int64_t found = out[(size_t)step * cells + cell];
            if (found != value(i, j, step))
                FAIL("step %d, cell %d %d: expected %lld, found %lld", step, (int)i, (int)j, (long long)value(i, j, step),
                     (long long)found);
        }
    /* The host waits by Haloport alone. */
    void *last[] = {arrays[0], beside};
    queue apart = device.queue(self->queue.context, 1);
    device.copy(&self->queue, arrays[0], in, bytes);
    CHECK(hp_exchange(plans[0], last, stream));
    CHECK(hp_synchronize(plans[0]));
    device.copy(&apart, here, arrays[0], bytes);
    device.wait(&apart);
    if (memcmp(here, out, bytes) != 0) FAIL("expected the halos of step 0 after hp_synchronize, found others");
    for (int turn = 0; turn < 2; turn++) CHECK(hp_plan_free(plans[turn]));
    CHECK(hp_pattern_free(pattern));
    CHECK(hp_comm_free(self->comm));
    free(in), free(out), free(here), free(beside);
    return NULL;
}

/* Exchanges between ranks that are threads, each with a queue of its own. */
static void exchanges(int own_contexts, int in_order, int by_default, int overlap, int fixed, int with_host) {
    hp_comm *comms[RANKS];
    job jobs[RANKS];
    pthread_t threads[RANKS];
    CHECK(hp_comm_threads(RANKS, comms));
    void *context = device.context();
    for (int number = 0; number < RANKS; number++) {
        job made = {comms[number], device.queue(own_contexts ? device.context() : context, in_order), by_default, overlap,
                    fixed, with_host};
        jobs[number] = made;
    }
    for (int number = 0; number < RANKS; number++)
        if (pthread_create(&threads[number], NULL, rank, &jobs[number])) FAIL("no thread");
    for (int number = 0; number < RANKS; number++) pthread_join(threads[number], NULL);
}

/* --- What is refused ------------------------------------------------------------------------------------------------------ */

static void wrong_calls(int is_sycl) {
    hp_comm *comm;
    hp_pattern *pattern;
    hp_plan *plan, *made;
    CHECK(hp_comm_threads(1, &comm));
    hp_grid grid = plate();
    CHECK(hp_pattern_grid(comm, &grid, HP_SPLIT, NULL, &pattern));
    enum { CELLS = (NX + 2) * (NY + 2) };
    queue own = device.queue(device.context(), 1), foreign = device.queue(device.context(), 1);
    int64_t *host = calloc(CELLS, sizeof *host);
    void *right[] = {device.allocate(&own, CELLS * sizeof *host, 0)};
    void *elsewhere[] = {device.allocate(&foreign, CELLS * sizeof *host, 0)};
    void *of_host[] = {host}, *nothing[] = {NULL};
    hp_array like = HP_ARRAY_INIT, other;
    like.type = HP_I64, like.axes = 2, like.extent[0] = NX + 2, like.extent[1] = NY + 2;
    hp_options options = HP_OPTIONS_INIT, bad;
    options.queue = own.stream;

    const char *names[] = {"sycl", "sycl:0", "sycl:cpu", "opencl:cpu:0"};
    for (int name = 0; name < 4; name++) {
        other = like, other.device = names[name];
        REFUSED(HP_ARGUMENT, "options.queue", hp_plan_create(pattern, 1, &other, right, NULL, &made));
        REFUSED(HP_ARGUMENT, "like[0].device", hp_plan_create(pattern, 1, &other, right, &options, &made));
    }
    hp_stream queues[] = {{HP_BLOCK, 0, 0}, {-1, 0, 0}, {7, 0, 0}};
    for (int kind = 0; kind < 3; kind++) {
        bad = options, bad.queue = queues[kind];
        REFUSED(HP_ARGUMENT, "options.queue.kind", hp_plan_create(pattern, 1, &like, right, &bad, &made));
    }
    for (int kind = HP_ON; kind <= HP_SYCL; kind++) {
        hp_stream null = {kind, 0, 0};
        bad = options, bad.queue = null;
        REFUSED(HP_ARGUMENT, "null", hp_plan_create(pattern, 1, &like, right, &bad, &made));
    }
    if (!is_sycl) {
        bad = options, bad.queue.kind = HP_SYCL;
        REFUSED(HP_DEVICE, "libsycl", hp_plan_create(pattern, 1, &like, right, &bad, &made));
    }
    for (int fixed = 0; fixed < 2; fixed++) {
        bad = options, bad.fixed = fixed;
        REFUSED(HP_ARGUMENT, "data[0]", hp_plan_create(pattern, 1, &like, of_host, &bad, &made));
        REFUSED(HP_ARGUMENT, "data[0]", hp_plan_create(pattern, 1, &like, elsewhere, &bad, &made));
    }

    CHECK(hp_plan_create(pattern, 1, &like, right, &options, &plan));
    for (int round = 0; round < 2; round++) {
        REFUSED(HP_ARGUMENT, "data[0]", hp_start(plan, of_host, own.stream, NULL));
        REFUSED(HP_ARGUMENT, "of the context", hp_start(plan, of_host, own.stream, NULL));
        REFUSED(HP_ARGUMENT, "data[0]", hp_exchange(plan, elsewhere, own.stream));
        REFUSED(HP_ARGUMENT, "found null", hp_start(plan, nothing, own.stream, NULL));
        REFUSED(HP_ARGUMENT, "found null", hp_start(plan, NULL, own.stream, NULL));
        REFUSED(HP_ARGUMENT, "a queue of the context", hp_start(plan, right, foreign.stream, NULL));
        for (int kind = HP_ON; kind <= HP_SYCL; kind++) {
            hp_stream null = {kind, 0, 0};
            REFUSED(HP_ARGUMENT, "found null", hp_start(plan, right, null, NULL));
        }
        REFUSED(HP_ARGUMENT, "stream.kind", hp_exchange(plan, right, queues[1]));
        if (!is_sycl) {
            hp_stream stream = {HP_SYCL, 0, own.stream.handle};
            REFUSED(HP_DEVICE, "libsycl", hp_start(plan, right, stream, NULL));
        }
        /* It is as it was. */
        CHECK(hp_start(plan, right, own.stream, NULL));
        REFUSED(HP_ARGUMENT, "a queue of the context", hp_finish(plan, HP_NO_TICKET, foreign.stream));
        CHECK(hp_finish(plan, HP_NO_TICKET, own.stream));
        CHECK(hp_exchange(plan, right, queues[0]));
    }
    CHECK(hp_plan_free(plan));
    /* Arrays of the host in a plan with a queue. */
    like.device = "cpu";
    CHECK(hp_plan_create(pattern, 1, &like, of_host, &options, &plan));
    CHECK(hp_exchange(plan, of_host, own.stream));
    CHECK(hp_exchange(plan, of_host, queues[0]));
    CHECK(hp_plan_free(plan));
    CHECK(hp_pattern_free(pattern));
    CHECK(hp_comm_free(comm));
    free(host);
}

/* Without unified shared memory, a queue is refused. */
static void without_memory(void) {
    hp_comm *comm;
    hp_pattern *pattern;
    hp_plan *made;
    CHECK(hp_comm_threads(1, &comm));
    hp_grid grid = plate();
    CHECK(hp_pattern_grid(comm, &grid, HP_SPLIT, NULL, &pattern));
    hp_array like = HP_ARRAY_INIT;
    like.type = HP_I64, like.axes = 2, like.extent[0] = NX + 2, like.extent[1] = NY + 2;
    hp_options options = HP_OPTIONS_INIT;
    options.queue = device.queue(device.context(), 1).stream;
    REFUSED(HP_DEVICE, "unified shared memory", hp_plan_create(pattern, 1, &like, NULL, &options, &made));
    CHECK(hp_pattern_free(pattern));
    CHECK(hp_comm_free(comm));
    printf("without unified shared memory: queues are refused\n");
}

/* The devices of this machine. */
static void machine(void) {
    size_t bytes = 0;
    CHECK(hp_describe(NULL, &bytes));
    char *text = calloc(1, bytes);
    CHECK(hp_describe(text, &bytes));
    if (!strstr(text, "\"version\":") || !strstr(text, "\"cpu:0\"")) FAIL("devices: %s", text);
    free(text);
}

int main(int arguments, char **argument) {
    machine();
    int is_sycl = arguments > 2 && strcmp(argument[1], "sycl") == 0, has_memory = 1;
    if (is_sycl) {
        open_sycl(argument[2]);
    } else {
        const char *missing = open_opencl(&has_memory);
        if (missing) {
            printf("skipped: %s\n", missing);
            return 0;
        }
    }
    if (!has_memory) {
        without_memory();
        return 0;
    }
    int number = 0;
    for (int own_contexts = 0; own_contexts < 2; own_contexts++)
        for (int in_order = 0; in_order < 2; in_order++)
            for (int way = 0; way < 4; way++, number++)
                exchanges(own_contexts, in_order, way % 2, way / 2, number % 3 == 1, number % 3 == 2);
    wrong_calls(is_sycl);
    printf("%d programs of %d ranks and %d steps, %d wrong calls\n", number, RANKS, STEPS, calls);
    return 0;
}
