// Lists of copies between strided boxes and between indexed rows: the structures of a list, and changes of sign.
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

// A number of 1 to 16 bytes at any address, lowest byte first.
DEVICE_FUNCTION u128 load_bytes(GLOBAL const u8 *from, u32 bytes)
{
    u128 number = {0, 0};
    for (u32 at = 0; at < bytes; at++) {
        u64 byte = from[at];
        if (at < 8)
            number.low |= byte << (8 * at);
        else
            number.high |= byte << (8 * (at - 8));
    }
    return number;
}

DEVICE_FUNCTION void store_bytes(GLOBAL u8 *to, u32 bytes, u128 number)
{
    for (u32 at = 0; at < bytes; at++)
        to[at] = (u8)(at < 8 ? number.low >> (8 * at) : number.high >> (8 * (at - 8)));
}

// Minus a number of at most 8 bytes; for any float, the highest bit flipped.
DEVICE_FUNCTION u64 minus(u64 number, u32 bytes, u32 sign)
{
    return sign == SIGN_OF_FLOAT ? number ^ ((u64)1 << (8 * bytes - 1)) : (u64)0 - number;
}

DEVICE_FUNCTION u128 minus_wide(u128 number)
{
    u128 result;
    result.low = (u64)0 - number.low;
    result.high = ~number.high + (number.low == 0);
    return result;
}

#define MOVE_NEGATED(type) (*(GLOBAL type *)to = (type)minus(*(GLOBAL const type *)from, sizeof(type), sign))

DEVICE_FUNCTION void move_negated(GLOBAL const u8 *from, GLOBAL u8 *to, u32 word, u32 sign, u32 unaligned)
{
    if (word == 16 || unaligned) {
        u128 number = load_bytes(from, word);
        if (word == 16)
            number = minus_wide(number);
        else
            number.low = minus(number.low, word, sign);
        store_bytes(to, word, number);
        return;
    }
    switch (word) {
    case 8: MOVE_NEGATED(u64); break;
    case 4: MOVE_NEGATED(u32); break;
    case 2: MOVE_NEGATED(u16); break;
    default: MOVE_NEGATED(u8); break;
    }
}
