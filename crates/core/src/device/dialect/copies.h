// Lists of copies between strided boxes and between indexed rows: the structures of a list.
//
// An entry of a list is a grid of at most COPY_AXES axes, innermost first. Its points are words of 1, 2, 4, 8 or 16
// bytes; it has fewer than 2^31 bytes. Unused axes come last and have the extent 1; the last is unused in every entry of
// a list. Along one axis, rows may be picked by a list of indices, on either side or both. `entry.rs` makes the entries
// and defines the same structures.

#define COPY_AXES 8
#define NO_AXIS COPY_AXES
#define COPY_BLOCKS 64
#define SIGN_OF_FLOAT 1
#define SIGN_OF_INTEGER 2

// An axis. All words of an entry lie less than 2^31 bytes from the first along axes without lists.
typedef struct {
    u32 extent;
    u32 factor, shift; // number / extent, as (number * factor >> 32) >> shift; the factor of the outermost axis is 0
    i32 source_stride, target_stride; // bytes; 0 on a side with a list of rows along this axis
    u32 minus_extent;
    u32 unused[2];
} ALIGNED(16) CopyAxis;

typedef struct {
    u64 source, target;           // the addresses of the first word; with a block, in bytes from its start
    u64 source_rows, target_rows; // the addresses of lists of u32 with the indices of rows, or 0
    i64 source_row_stride, target_row_stride; // bytes from row 0 to row 1, if there is a list
    CopyAxis axes[COPY_AXES];
    u32 words;     // the number of points of the grid
    u32 word;      // bytes
    u32 used;      // the number of axes in use
    u32 rows_axis; // the axis with lists of indices, or NO_AXIS
    u32 sign;      // SIGN_OF_FLOAT, SIGN_OF_INTEGER, or 0 for no change of sign
    u32 unaligned; // whether words that change their sign may lie at any address
    u32 source_block, target_block; // the numbers of blocks of memory, from 1, or 0 for fixed addresses
    u32 number, combine; // for `combine.c`: what a word is, and what is done with two; 0 for copies
    u32 unused[2];
} ALIGNED(16) CopyEntry;

// The addresses of the blocks in this run.
typedef struct {
    u64 at[1 + COPY_BLOCKS]; // the first is 0, for fixed addresses
    u64 alignment;           // in bytes, of all of them: a power of two, at most 16
    u64 stop;                // the address of a word of u32: nothing is copied if it is not 0; 0 for none
} CopyBases;

// Consecutive words of an entry.
typedef struct {
    u32 first, count, entry;
} CopyTile;
