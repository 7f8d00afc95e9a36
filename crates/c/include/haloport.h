/*
 * Haloport: halo exchange of distributed fields. docs/c.md is the tutorial.
 *
 * - Functions return a status; `hp_message` has the text of the last failure of this thread.
 * - Indices, domains and ranks count from 0. Boxes are half-open: `upper` is one past the last cell.
 * - Structs start with their size: initialise them with their HP_..._INIT, or set all to 0 and `size`. Later versions may add members
 *   at the end, which are 0 for programs that were compiled before; structs in a row all have one size. Arrays in structs, also
 *   those of hp_box, have a value for each axis and 0 in the places beyond; other values there are refused.
 * - After a failure, results are empty, but for those of hp_comm_threads, hp_comm_broadcast and hp_comm_gather: null handles, no ticket, rank -1, 0 ranks, empty
 *   boxes, no messages, not ready, NaN.
 * - Calls marked "collective" are made by all ranks of the communicator, in the same order. If an argument is wrong on one
 *   rank, they fail on all: there with the status of that, on the others with HP_REFUSED. If it is the communicator or the
 *   pattern itself, such as null, the others are not told, and wait until their time limit; in hp_comm_mpi and hp_comm_fortran
 *   they wait in MPI, without a limit.
 * - Nothing here needs mpi.h, and one library serves every MPI and programs without one.
 *
 * The contract. Null, sizes and numbers are checked, and wrong ones refused; on these promises the library relies:
 *
 * - Pointers. Each is null, if that is allowed, or the address of as many objects of its type as the call says, and texts end with a
 *   null. Handles are those that the library has written. A handle that was freed is noticed and refused, until its place has been
 *   used by 65,536 later handles.
 * - Lifetimes. Arguments are copied: after the call they may change and end. Exceptions are arrays, which live until their
 *   exchange is finished or its plan is freed, those of a fixed plan as long as the plan; streams and queues, which live until the
 *   work that was put into them is done; and the function and the context of hp_set_log, until calls that began before the next
 *   hp_set_log have returned. Results live as long as their call says. Objects may be freed in any order, except memory of
 *   hp_memory_create, after its plans, and communicators of MPI, before MPI_Finalize.
 * - Alignment. Structs, and the numbers in arrays of arguments, are aligned as their types are. So are the numbers in arrays that are
 *   exchanged, which is checked; HP_BYTES lie anywhere.
 * - Threads. Any thread may call, if MPI was initialised for it; otherwise calls that need MPI return HP_WRONG_THREAD, and nothing has
 *   changed. Handles may be passed between threads; one call at a time uses one, others return HP_IN_FLIGHT. No other thread
 *   writes what arguments point to during a call, or touches results. During an exchange, other threads and devices only read owned
 *   cells that lie near other domains, and leave the halo alone.
 */
#ifndef HALOPORT_H
#define HALOPORT_H

#include <stddef.h>
#include <stdint.h>

/* The version of this interface. A library with the same `hp_abi()` fits. */
#define HP_ABI 1

#ifdef __cplusplus
extern "C" {
#endif

typedef enum hp_status {
    HP_OK = 0,
    HP_ARGUMENT = 1,     /* an argument is wrong, such as a rank that does not exist */
    HP_REFUSED = 2,      /* the ranks disagree, and all have the same text; or another rank, which it names, has a wrong argument */
    HP_TRANSPORT = 3,    /* another rank failed, or MPI is missing or not running */
    HP_TIME_LIMIT = 4,   /* other ranks did not answer in time */
    HP_DEVICE = 5,       /* a device or its driver failed, or is missing */
    HP_NO_MEMORY = 6,
    HP_WRONG_THREAD = 7, /* MPI was initialised for calls by another thread only; nothing has changed */
    HP_IN_FLIGHT = 8,    /* an exchange was not finished, none was started, or another thread uses the handle */
    HP_POISONED = 9,     /* an exchange of the plan, or a round of messages, has failed; make the handle again, on all ranks */
    HP_PANIC = 10        /* a defect of Haloport */
} hp_status;

/* Element types. Cells of any other type travel as HP_BYTES of their size. */
typedef enum hp_type {
    HP_I8 = 1, HP_I16, HP_I32, HP_I64,
    HP_U8, HP_U16, HP_U32, HP_U64,
    HP_F16, HP_BF16, HP_F32, HP_F64,
    HP_C64,  /* two 32-bit floats */
    HP_C128, /* two 64-bit floats */
    HP_BYTES
} hp_type;

typedef struct hp_comm hp_comm;
typedef struct hp_pattern hp_pattern;
typedef struct hp_plan hp_plan;
typedef struct hp_memory hp_memory;
typedef struct hp_sparse hp_sparse;
typedef struct hp_line hp_line;

/* HP_ABI of the library that was loaded. */
uint32_t hp_abi(void);

/* The text of the last failure of a call in this thread, until its next one; never null. */
const char *hp_message(void);

/* The name of a status, such as "HP_ARGUMENT"; "unknown status" for other numbers. */
const char *hp_status_name(hp_status status);

/*
 * Texts. Each of the functions named `..._describe` writes a JSON object, with a null at the end, into `text`, which has
 * room for `*bytes` bytes, and the room that it needs into `*bytes`. If that is more, or if `text` is null, nothing is
 * written and the status is HP_OK: call again with more room.
 */

/* The version, and the devices of this machine or why there are none. Loads the drivers of CUDA and OpenCL. */
hp_status hp_describe(char *text, size_t *bytes);

/*
 * Warnings of the library, such as "rank 0 has waited 60.0 s for ...", and errors that no call returns, go to standard error,
 * unless the environment variable HALOPORT_LOG is `off`, or `error` for errors alone.
 */
typedef enum hp_level { HP_LOG_ERROR = 1, HP_LOG_WARNING = 2 } hp_level;

/*
 * Passes them to `log`, each as one line without an end of line, with `context`; null for standard error again. `log` is called
 * on any thread, within calls of the library or on a thread of its own: it calls nothing of the library, and waits for no thread that does.
 */
hp_status hp_set_log(void (*log)(hp_level level, const char *text, void *context), void *context);

/* --- Ranks -------------------------------------------------------------------------------------------------------------- */

/*
 * The ranks of an MPI communicator, which is duplicated: hp_comm_mpi(&mpi_comm, sizeof mpi_comm, &comm). MPI is running. Null and 0
 * bytes stand for MPI_COMM_WORLD.
 * Free it before MPI_Finalize. HP_TRANSPORT if MPI has one rank where a launcher has started several processes, as under
 * the launcher of another MPI. Collective.
 */
hp_status hp_comm_mpi(const void *mpi_comm, size_t bytes, hp_comm **comm);

/* The same from a handle of Fortran: `comm%MPI_VAL` of mpi_f08, or the integer of mpi. Collective. */
hp_status hp_comm_fortran(int32_t mpi_comm, hp_comm **comm);

/*
 * Ranks that are threads of this process: writes `ranks` communicators into `comms`. Give each to a thread of its own. When
 * one is freed with all that was made of it, waits of the others for that rank fail.
 */
hp_status hp_comm_threads(int32_t ranks, hp_comm **comms);

/* The number of this rank, from 0. */
hp_status hp_comm_rank(const hp_comm *comm, int32_t *rank);

/* The number of ranks. */
hp_status hp_comm_size(const hp_comm *comm, int32_t *ranks);

/*
 * The time in seconds after which a wait for other ranks fails with HP_TIME_LIMIT; 0 for never. By default the environment
 * variable HALOPORT_TIME_LIMIT, or 1800.
 */
hp_status hp_comm_set_time_limit(hp_comm *comm, double seconds);

/*
 * The time in seconds after which a wait for other ranks is a warning; 0 for never. By default the environment variable
 * HALOPORT_WARN_AFTER, or 60.
 */
hp_status hp_comm_set_warn_after(hp_comm *comm, double seconds);

/*
 * What makes progress between the start of an exchange, or of a round of messages, and its end; for those that this rank starts from
 * now on. HP_PROGRESS_AUTO, the default: for fields on devices with streams a thread of the library, if it may call MPI; for those of
 * the host and for rounds the calls of the program. HP_PROGRESS_THREAD: that thread for all of them; it takes some of the time of a
 * core. Many MPI libraries transfer large messages only within their calls. If that thread may not call MPI, as after MPI_Init,
 * HP_WRONG_THREAD, and nothing has changed. Below MPI_THREAD_MULTIPLE the program calls MPI by itself only while nothing is under
 * way. HP_PROGRESS_CALLER: the calls of the program alone, such as hp_ready.
 */
enum { HP_PROGRESS_AUTO = 0, HP_PROGRESS_THREAD = 1, HP_PROGRESS_CALLER = 2 };
hp_status hp_comm_set_progress(hp_comm *comm, int32_t progress);

/* Waits until all ranks have called it. Collective. */
hp_status hp_comm_barrier(hp_comm *comm);

/* How values of the ranks become one. */
enum { HP_SUM = 1, HP_MIN = 2, HP_MAX = 3 };

/*
 * Replaces each of `count` values of type HP_I64, HP_U64, HP_F32 or HP_F64 by the sum, the smallest or the largest of those of all
 * ranks, in the same place. All ranks get the same bits, in every run: floats are added in the order of the ranks. A sum of integers
 * is modulo 2^64; if a rank has a NaN, the result is one. Collective.
 */
hp_status hp_comm_all_reduce(hp_comm *comm, int32_t reduction, hp_type type, int64_t count, void *values);

/*
 * Exact sums. For each k below `number`, `sums[k]` becomes the sum of the `counts[k]` values at `values[k]` of all ranks, of type
 * HP_F32 or HP_F64; or of their products with as many values at `weights[k]`, unless that or `weights` is null. Unless `masks[k]` or
 * `masks` is null, there are as many bytes, and 0 leaves a value out with its weight, also a NaN. It is the sum of
 * real numbers, rounded once to a double: the same bits on any number of ranks, however they share the values. `sums` may lie in
 * the values. A NaN, or infinities of both signs, make a sum NaN, infinities of one sign make it that infinity. A sum beyond the
 * largest double is infinite, and one of 0 is +0. Counts may differ, and be 0; `number` is the same on all ranks. Values, weights and
 * masks may be in memory of CUDA, which is copied to the host first, after the work in the default stream of its device. All sums
 * travel in one message, of 1.1 KB each. Collective.
 */
hp_status hp_comm_sum_exact(hp_comm *comm, hp_type type, int32_t number, const int64_t *counts, const void *const *values,
                            const void *const *weights, const uint8_t *const *masks, double *sums);

/*
 * Replaces the `bytes` bytes at `data`, in memory of the host, by those of rank `root`, where they are only read. All ranks pass the same
 * `root` and `bytes`, 0 or more; if they differ, all fail with HP_REFUSED. After a failure `data` is as it was. Collective.
 */
hp_status hp_comm_broadcast(hp_comm *comm, int32_t root, int64_t bytes, void *data);

/*
 * Writes the `bytes` bytes at `data` of each rank, in the order of the ranks, into `all` of rank `root`, which has room for `bytes` bytes
 * of each rank; on other ranks `all` may be null. Both are in memory of the host, and `data` may lie in `all`. All ranks pass the same
 * `root` and `bytes`, 0 or more; if they differ, all fail with HP_REFUSED. After a failure `all` is as it was. Collective.
 */
hp_status hp_comm_gather(hp_comm *comm, int32_t root, int64_t bytes, const void *data, void *all);

/* Frees the handle; null is allowed. What was made of it stays valid. */
hp_status hp_comm_free(hp_comm *comm);

/* --- Patterns: which cells each rank owns -------------------------------------------------------------------------------- */

typedef struct hp_box {
    int64_t lower[4], upper[4];
} hp_box;

typedef struct hp_grid {
    uint32_t size;
    int32_t axes;              /* 1 to 4 */
    int64_t cells[4];          /* the extent of each axis */
    int32_t periodic[4];       /* whether the ends of the axis meet */
    int32_t halo_lower[4];     /* widths of the halo */
    int32_t halo_upper[4];
    int32_t faces_only;        /* whether halos have no edges and corners */
    int32_t cubed_sphere;      /* six tiles: axis 0; then perhaps an axis of levels, the only one that may be periodic; then two
                                  axes of the same extent */
    int32_t parts[4];          /* with HP_SPLIT: the parts along each axis, 1 or more; all 0: chosen */
    int32_t fold;              /* a tripolar grid: the upper end of the axis before the last one, y, is folded onto itself along
                                  the last one, x, which is then periodic: 0, HP_FOLD_CELL or HP_FOLD_CORNER */
    int32_t points;            /* of a tripolar grid, those that the pattern exchanges: HP_POINTS_... */
    int32_t clipped;           /* whether halos have no cells beyond ends of the grid that are not periodic. The stencil of cells at
                                  such an end reaches beyond the array. `origin` of arrays with more room must not be all 0 */
    const hp_pattern *like;    /* with HP_SPLIT, null or a pattern of another grid: boxes are those of its grid, and end where
                                  this grid ends. So the nodes of a staggered grid are cut as its cells are */
} hp_grid;

/* What the fold turns the grid about: centres of cells (ORCA2, ORCA025, ORCA12), or corners (ORCA05, ORCA1, MOM, POP). */
enum { HP_FOLD_CELL = 1, HP_FOLD_CORNER = 2 };

/* Points of a C grid: in the centres of cells (T), in the middle of their upper edges along x (U) or along y (V), at corners (F). */
enum { HP_POINTS_CELLS = 0, HP_POINTS_EAST_EDGES = 1, HP_POINTS_NORTH_EDGES = 2, HP_POINTS_CORNERS = 3 };

/* In place of a number of domains: the grid is split evenly into one box for each rank. */
#define HP_SPLIT (-1)

/* A grid of which this rank owns these boxes, any number of them. Collective. */
hp_status hp_pattern_grid(hp_comm *comm, const hp_grid *grid, int32_t domains, const hp_box *boxes, hp_pattern **pattern);

typedef struct hp_ids {
    uint32_t size;
    int64_t cells;
    const int64_t *ids;        /* the global id of each cell of the domain and of its halo, in any order */
    const uint8_t *owned;      /* whether the domain owns the cell */
    const int32_t *owners;     /* the rank that owns each cell; only those of halo cells are read; null:
                                  Haloport finds them */
} hp_ids;

/* Unstructured domains of this rank, any number of them. The cells may be edges or vertices. Collective. */
hp_status hp_pattern_ids(hp_comm *comm, int32_t domains, const hp_ids *ids, hp_pattern **pattern);

typedef struct hp_list {
    uint32_t size;
    int32_t rank;              /* the neighbour */
    int64_t cells;
    const int32_t *at;         /* the local indices of cells, in the order in which they travel */
} hp_list;

/*
 * One domain of `cells` cells on each rank, with the lists that the program has made itself: of the cells that go to
 * neighbours, and of those that come from them. Collective.
 */
hp_status hp_pattern_lists(hp_comm *comm, int64_t cells, int32_t sends, const hp_list *send, int32_t receives,
                           const hp_list *receive, hp_pattern **pattern);

/*
 * A redistribution: takes the cells that `source` owns to their owners in `target`, a pattern of the same cells on the same
 * communicator, on any ranks: a transpose, all cells on one rank, new parts. Each may have any domains on a rank, or none. Plans are
 * made of it as of a pattern, and it is described and freed as one; other calls take the source or the target. Halos of the target
 * keep their values, if `fill_halo` is 0; otherwise they are filled, too, but not from a mesh to a grid. Between a grid and a mesh, the
 * id of a cell of the grid is its number, counted from 0 with the last axis fastest. HP_REFUSED, on all ranks, if the cells are not the
 * same; cells of hp_pattern_lists have their local indices as ids. Collective.
 */
hp_status hp_pattern_redistribution(hp_pattern *source, hp_pattern *target, int32_t fill_halo, hp_pattern **redistribution);

/*
 * The number of domains of this rank; the boxes of one of them: the owned cells, the owned cells with their halo, and the
 * owned cells whose stencil, as wide as the halo, needs no cell that an exchange fills (on a mesh, the longest run of cells that
 * no neighbour needs). Any of the pointers may be null.
 */
hp_status hp_pattern_domain(const hp_pattern *pattern, int32_t *domains, int32_t domain, hp_box *owned, hp_box *with_halo,
                            hp_box *interior);

/*
 * The owned cells of a domain of a grid that are not in its interior: how many boxes they are, at most two for each axis, and the boxes,
 * for which `boundary` has room for 8. No two have a cell in common; those at the ends of axis 0 extend over all owned cells along
 * the other axes. HP_ARGUMENT if the pattern is not that of a grid.
 */
hp_status hp_pattern_boundary(const hp_pattern *pattern, int32_t domain, int32_t *boxes, hp_box *boundary);

hp_status hp_pattern_describe(const hp_pattern *pattern, char *text, size_t *bytes);

/* Frees the handle; null is allowed. What was made of it stays valid. */
hp_status hp_pattern_free(hp_pattern *pattern);

/* --- Arrays ------------------------------------------------------------------------------------------------------------- */

/* What an axis of an array is: HP_CELLS + k, axis k of the grid; of other patterns HP_CELLS, the cells. */
enum {
    HP_CELLS = 1,
    HP_CELL_BLOCKS = 9, /* the blocks in which cells lie (nproma); HP_CELLS is then the axis within a block */
    HP_LEVELS = 10,    /* levels, or any other axis along which every cell has elements */
    HP_COMPONENTS = 11 /* at most one axis */
};

typedef struct hp_array {
    uint32_t size;
    int32_t type;              /* an hp_type */
    int32_t element_bytes;     /* of HP_BYTES */
    int32_t axes;              /* 1 to 8 */
    int64_t extent[8];         /* of each axis, with the halo */
    int64_t stride[8];         /* in bytes, of either sign, in blocks positive along cells and blocks; all 0: the last axis is
                                  the fastest, without gaps */
    int32_t role[8];           /* all 0: the axes of the pattern, in their order, then levels, and components behind the fourth axis */
    int64_t origin[4];         /* on a grid, the index of the first owned cell along each axis of the grid; all 0: the
                                  widths of the halo, and the extents fit exactly; of other patterns all 0 */
    const char *device;        /* null: found out, see "Devices"; or "cpu" for memory of the host, "cuda:0" */
    int32_t vector[4];         /* of vectors, HP_CELLS + k for each component: the axis of the grid along which it points. Across
                                  the edges of a cubed sphere and the fold of a tripolar grid, components are exchanged and
                                  change their signs. All 0: scalars */
    const hp_pattern *of;      /* of the first array of a field of a plan, null or another pattern of the same communicator: the field is
                                  one of that, and has an array for each of its domains on this rank */
} hp_array;

/* --- Plans and exchanges ------------------------------------------------------------------------------------------------- */

/*
 * Devices. Arrays are in memory of the host, of CUDA, or of OpenCL and SYCL:
 *
 * - If `device` of an array is null, and hp_plan_create gets its address, the driver of CUDA tells whether that is memory of a
 *   CUDA device, or managed memory; pinned memory is memory of the host. Only a driver that the program has loaded and
 *   initialised is called; the library loads none. If the address is null or `data` is, name the device: without a name, the array
 *   is in memory of the host.
 * - Memory of OpenCL and SYCL belongs to a context, which no address tells. It needs `options.queue`, a queue of that
 *   context; it must be unified shared memory (USM), of OpenCL or of SYCL. All arrays are then in that context, except
 *   those that name another device.
 *
 * Addresses that an exchange on a device gets are looked up if they are others than in the call before: memory of the host, of
 * another device or of another context is refused with HP_ARGUMENT. An exchange on the host calls no driver, so there only
 * hp_plan_create notices an address of a device.
 */

/* The stream with which an exchange is ordered. On the host, where all is done when a call returns, streams have no effect. */
typedef struct hp_stream {
    int32_t kind;
    int32_t unused;
    uintptr_t handle;
} hp_stream;

enum {
    HP_DEFAULT = 0, /* CUDA: the legacy default stream; OpenCL and SYCL: the queue of the plan */
    HP_BLOCK = 1,   /* none: the caller has waited for its work, and the call returns when the halos are in place */
    HP_ON = 2,      /* a cudaStream_t, of the primary context of the device, or a cl_command_queue, in order or out of order */
    HP_SYCL = 3     /* the address of a sycl::queue of DPC++: with an OpenCL device (libsycl.so.7 to .9), or of another backend, such
                       as Level Zero (libsycl.so.8 and .9, and Haloport's library for it). Of another SYCL, and of
                       CUDA devices, pass the native queue as HP_ON. Host tasks are ordered with commands of SYCL
                       alone: call wait() of the queue between one and hp_start, and finish with HP_BLOCK before one */
};

typedef struct hp_options {
    uint32_t size;
    int32_t fixed;             /* whether the plan keeps the addresses of hp_plan_create. Neighbours can then copy straight from the
                                  arrays: processes of the node from those in memory of hp_memory_create, and from others
                                  with `share`; ranks that are threads from any */
    int32_t in_flight;         /* how many exchanges can be started and not finished at once, up to 64; 0: 1. With more than 1,
                                  hp_finish and hp_ready need tickets */
    int32_t threads;           /* the number of threads with which a rank copies; 0: 1 */
    const char *path;          /* how data gets to other ranks: "direct", "shared", "messages", "stream-messages"; null or
                                  "quickest": the quickest path that is possible. If another one is not, HP_REFUSED */
    hp_stream queue;           /* for memory of OpenCL or SYCL: a queue of its context, HP_ON or HP_SYCL; the plan keeps its
                                  native queue alive */
    const char *accumulate;    /* turns exchanges round: each halo cell goes to its owner, where it is combined with what is there,
                                  in a fixed order: "sum", "min", "max", or "replace", if no cell is in two halos. Null or "": halos
                                  are filled. The same on all ranks */
    int32_t zero_halo;         /* whether the halo is 0 after that */
    int32_t share;             /* whether other processes of the node may copy straight from other arrays of a plan with `fixed` as well, if
                                  they are in memory of malloc or the like: not of a file, which is HP_REFUSED, nor of a device. The plan
                                  moves the pages that hold nothing but an array; addresses and content stay. While hp_plan_create and
                                  hp_plan_free run, no other thread writes the arrays or what lies between their elements, and no other
                                  exchange of them is in flight. As long as the plan exists, no device or other library has registered
                                  their memory, and nothing resizes it */
} hp_options;

/* The initial values of these structs: hp_grid grid = HP_GRID_INIT; */
#ifdef __cplusplus
#define HP_INIT(type) (hp_init<type>())
#else
#define HP_INIT(type) {.size = sizeof(type)}
#endif
#define HP_GRID_INIT HP_INIT(hp_grid)
#define HP_IDS_INIT HP_INIT(hp_ids)
#define HP_LIST_INIT HP_INIT(hp_list)
#define HP_ARRAY_INIT HP_INIT(hp_array)
#define HP_OPTIONS_INIT HP_INIT(hp_options)

/*
 * Prepares exchanges of `fields` fields, which travel in one message to each neighbour, also those of several patterns (`of` of an
 * hp_array): points of a staggered grid, cells and edges of a mesh, halos of other widths. `like` has the arrays of field 0 for each
 * domain of this rank, then those of field 1,
 * and so on. On a rank without domains it has one for each field, of which the type, the device and `vector` are read. `data` has
 * the address of the first element of each, index 0 along all axes; unless the plan is fixed, addresses only tell the device, and any
 * of them, or `data`, may be null. `options` may be null. Collective.
 *
 * Of a redistribution, each field is a pair: `like` has the arrays of the source for its domains of this rank, then those of the
 * target for its own. A side without domains here has one array in `like`, of which only the type and the device are read, and no
 * address in `data`. All arrays of a pair have one type, and are on one device; layouts may differ. While an exchange is in flight,
 * the program writes no owned cells of the source, and leaves the target alone. Texts and descriptions count the two singly: pair
 * k is field 2k, the source, and field 2k + 1.
 */
hp_status hp_plan_create(hp_pattern *pattern, int32_t fields, const hp_array *like, void *const *data,
                         const hp_options *options, hp_plan **plan);

/*
 * The devices, the amounts of data, and how each field gets to and from each other rank: its path, and `why` it takes no quicker
 * one, a word of docs/fields.md.
 */
hp_status hp_plan_describe(const hp_plan *plan, char *text, size_t *bytes);

/*
 * Ends the exchanges in flight, and frees the plan; null is allowed. If there are any, HP_WRONG_THREAD on a thread that may not call
 * MPI: then they and the plan are as before, and the error is also logged.
 */
hp_status hp_plan_free(hp_plan *plan);

/*
 * Names an exchange that was started: a number of its own, for hp_finish and hp_ready. It is refused after the exchange has been
 * finished, and by other plans.
 */
typedef uint64_t hp_ticket;

/* No ticket. In hp_finish and hp_ready it stands for the exchange in flight, if options.in_flight of the plan is 1. */
#define HP_NO_TICKET UINT64_C(0)

/*
 * Starts an exchange: packs, sends, and returns without waiting for neighbours. Writes its ticket into `ticket`, which may be null
 * if options.in_flight of the plan is 1. Not collective: each rank may pass other addresses each time; they are in the order of
 * hp_plan_create, and may be null for arrays without elements. For a fixed plan, `data` is null or has the same ones. All ranks
 * start the exchanges of a plan in the same order. Until the exchange is finished, owned cells near other domains are only read,
 * and the halo is left alone. On the host, allocates nothing.
 *
 * On a device, packing comes after the work that is in the stream already, and the host does not wait for it. Ranks that are
 * threads take a stream each, since the exchange of one holds back what follows in its stream.
 */
hp_status hp_start(hp_plan *plan, void *const *data, hp_stream stream, hp_ticket *ticket);

/*
 * Finishes the exchange that `ticket` names; each rank finishes its exchanges in any order. Returns when the halos are in place; on
 * devices, unless the stream is HP_BLOCK, when the end of the exchange is in the stream: later work there sees them. Waits for the
 * hp_start of each neighbour, and for nothing later: a neighbour may compute, or wait for this rank by MPI, before its own
 * hp_finish. After HP_WRONG_THREAD, and if the ticket or the stream is refused, the exchange is in flight as before.
 */
hp_status hp_finish(hp_plan *plan, hp_ticket ticket, hp_stream stream);

/* hp_start and hp_finish in one call. */
hp_status hp_exchange(hp_plan *plan, void *const *data, hp_stream stream);

/*
 * Makes progress; `*ready` tells whether hp_finish of this ticket would return without waiting for a neighbour. Does not block.
 * HP_WRONG_THREAD on a thread on which hp_finish would return it.
 */
hp_status hp_ready(hp_plan *plan, hp_ticket ticket, int32_t *ready);

/*
 * Waits until the exchanges that were finished are done on devices, too: their halos are in place for the host, and for every
 * stream. Returns the error of one that has failed after hp_finish. Does not wait for other work of the program.
 */
hp_status hp_synchronize(hp_plan *plan);

/* --- Memory --------------------------------------------------------------------------------------------------------------- */

/*
 * Memory of zeros for a field, from which neighbours on this node copy straight if a plan is made with `fixed`. `like` has
 * the array of each domain, with positive strides. Writes the address of each into `data`. Not collective. Of more than
 * 4 MiB, neighbours reach what their halos need alone: a redistribution of it is packed, and copied straight from memory of
 * the program in a plan with `share`.
 */
hp_status hp_memory_create(hp_pattern *pattern, const hp_array *like, hp_memory **memory, void **data);

/* Frees the memory, after the plans that were made of it have been freed; null is allowed. */
hp_status hp_memory_free(hp_memory *memory);

/* --- Messages of any size ------------------------------------------------------------------------------------------------- */

/*
 * Messages between ranks that change from round to round, such as particles that move to another rank. A message is bytes in
 * memory of the host or of CUDA, and may be empty; one that has come is in memory of the host. Each rank names the destinations of its messages, which need not know. All ranks go
 * through the same number of rounds, also those that send nothing. Rounds of several exchanges, and exchanges of plans, can be in
 * flight at once, and be finished in any order.
 *
 * A round makes progress in calls of this library on all ranks. Between its start and its finish, a rank must not wait for another
 * one by other means, such as MPI: that one may wait for a message that this rank has not received. On ranks with
 * HP_PROGRESS_THREAD a thread of the library makes progress, too.
 */

/* A message that has come. It will never have more members, as a list of them is handed out. */
typedef struct hp_received {
    int32_t rank;              /* the source */
    int32_t unused;
    int64_t bytes;
    const void *data;          /* aligned as memory of malloc is; null if there are no bytes */
} hp_received;

/*
 * An exchange in which each rank may send to any, also to itself. A round is complete when all messages of all ranks have been
 * received, so each rank waits for all others. Collective.
 */
hp_status hp_sparse_create(hp_comm *comm, hp_sparse **sparse);

/*
 * The same between fixed neighbours: messages come to this rank from the ranks `sources` alone, and it sends to the ranks
 * `destinations` alone. Each has a rank at most once, in any order; this rank may be among them. A round is complete when those
 * messages have been received, and no rank waits for distant ones. HP_REFUSED, on all ranks, if the destinations of a rank do not have
 * it among their sources, or the other way round. Collective.
 */
hp_status hp_sparse_between(hp_comm *comm, int32_t source_count, const int32_t *sources, int32_t destination_count,
                            const int32_t *destinations, hp_sparse **sparse);

/*
 * Starts a round: sends the `bytes[k]` bytes at `data[k]` to rank `destinations[k]`, for each k below `messages`. Messages for one
 * destination come in their order here. Copies them, so that the caller may change them afterwards, and returns without waiting for
 * others. Messages in memory of CUDA are recognised by their addresses, as arrays are (see "Devices"), and copied after the work in
 * the legacy default stream of their device: wait for other streams first; messages that have come are in memory of the host. Not
 * collective: if an argument is wrong, this rank alone has a failure, and no round is started; other ranks wait for the one that
 * it starts next. HP_IN_FLIGHT if a round was started and not finished.
 */
hp_status hp_sparse_start(hp_sparse *sparse, int64_t messages, const int32_t *destinations, const int64_t *bytes,
                          const void *const *data);

/*
 * Makes progress; `*ready` tells whether hp_sparse_finish would return without waiting for another rank. Does not block.
 * HP_WRONG_THREAD on a thread on which hp_sparse_finish would return it.
 */
hp_status hp_sparse_ready(hp_sparse *sparse, int32_t *ready);

/*
 * Finishes the round: waits until it is complete, and writes the number of messages that have come into `messages`, and the
 * address of the first into `came`: in the order of the sources, and those of one source in order. Both may be null. The list and
 * the messages stay valid until the next hp_sparse_finish, hp_sparse_exchange or hp_sparse_free of this exchange: they may be
 * sent on in the next round. After HP_WRONG_THREAD, the round is in flight as before.
 */
hp_status hp_sparse_finish(hp_sparse *sparse, int64_t *messages, const hp_received **came);

/* hp_sparse_start and hp_sparse_finish in one call. */
hp_status hp_sparse_exchange(hp_sparse *sparse, int64_t messages, const int32_t *destinations, const int64_t *bytes,
                             const void *const *data, int64_t *came_messages, const hp_received **came);

/*
 * Waits for a round in flight, discards its messages, and frees the exchange with the messages that have come; null is allowed. If a
 * round is in flight, HP_WRONG_THREAD on a thread that may not call MPI: then the exchange and its round are as before, and the error
 * is also logged.
 */
hp_status hp_sparse_free(hp_sparse *sparse);

/*
 * Ranks along a line, in their order: each owns consecutive items, or none, such as rows of a sorted table, and passes payloads
 * of any size to the rank before it, its left, and to the rank after it, its right. All ranks go through the same number of
 * rounds, which make progress as those of hp_sparse do.
 */

/*
 * A payload, which is passed by value and will never have more members. One that is sent may be in memory of CUDA, as messages of
 * hp_sparse_start; one that has come is in memory of the host. If `bytes` is HP_NO_PAYLOAD there is none; a payload of 0 bytes is one.
 */
typedef struct hp_payload {
    int64_t bytes;
    const void *data;          /* of a payload that has come aligned as memory of malloc is; may be null if there are no bytes */
} hp_payload;

#define HP_NO_PAYLOAD INT64_C(-1)

/*
 * A line of which this rank owns the items from `lower` to below `upper`. The items of a rank follow those of the rank before.
 * Collective.
 */
hp_status hp_line_create(hp_comm *comm, int64_t lower, int64_t upper, hp_line **line);

/* A line of `items` items, in equal shares of all ranks; those of the last ranks may have one less. Collective. */
hp_status hp_line_even(hp_comm *comm, int64_t items, hp_line **line);

/* The items of this rank, and the number of items of all ranks. Any of the pointers may be null. */
hp_status hp_line_items(const hp_line *line, int64_t *lower, int64_t *upper, int64_t *items);

/* The ranks before and after this one, which may own no items; -1 at an end of the line. Either pointer may be null. */
hp_status hp_line_neighbours(const hp_line *line, int32_t *left, int32_t *right);

/*
 * Starts a round: sends a payload to the left and one to the right. Those beyond the ends of the line are dropped. Copies them,
 * and returns without waiting. Not collective, as hp_sparse_start. HP_IN_FLIGHT if a round was started and not finished.
 */
hp_status hp_line_start(hp_line *line, hp_payload left, hp_payload right);

/*
 * Makes progress; `*ready` tells whether hp_line_finish would return without waiting for a neighbour. Does not block.
 * HP_WRONG_THREAD on a thread on which hp_line_finish would return it.
 */
hp_status hp_line_ready(hp_line *line, int32_t *ready);

/*
 * Finishes the round: waits for the two neighbours alone, and writes their payloads. Either pointer may be null. The payloads
 * stay valid until the next hp_line_finish, hp_line_exchange or hp_line_free of this line: they may be passed on in the next
 * round. After HP_WRONG_THREAD, the round is in flight as before.
 */
hp_status hp_line_finish(hp_line *line, hp_payload *from_left, hp_payload *from_right);

/* hp_line_start and hp_line_finish in one call. */
hp_status hp_line_exchange(hp_line *line, hp_payload left, hp_payload right, hp_payload *from_left, hp_payload *from_right);

/*
 * Waits for a round in flight, discards its payloads, and frees the line with the payloads that have come; null is allowed. If a round
 * is in flight, HP_WRONG_THREAD as hp_sparse_free.
 */
hp_status hp_line_free(hp_line *line);

#ifdef __cplusplus
}

template <class T>
inline T hp_init() {
    T made{};
    made.size = sizeof(T);
    return made;
}
#endif

#endif
