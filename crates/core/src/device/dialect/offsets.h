// Where the words of an entry lie, for groups of threads that take them in turn.

#define GROUP_THREADS 128

// number / extent for numbers below 2^31, without a division. `divisor` in `entry.rs` says why it is exact.
DEVICE_FUNCTION u32 divide(u32 number, u32 factor, u32 shift)
{
    return MULTIPLY_HIGH(number, factor) >> shift;
}

// Where a word of an entry lies, in bytes from word 0, and its row, if there are lists of rows.
typedef struct {
    i32 source, target;
    u32 row;
} CopyOffsets;

DEVICE_FUNCTION CopyOffsets offsets_of(GLOBAL const CopyEntry *entry, u32 number)
{
    CopyOffsets offsets = {0, 0, 0};
    _Pragma("unroll 1") for (u32 at = 0; at < entry->used; at++)
    {
        CopyAxis axis = entry->axes[at];
        u32 quotient = divide(number, axis.factor, axis.shift);
        u32 index = number + quotient * axis.minus_extent;
        offsets.source += (i32)index * axis.source_stride;
        offsets.target += (i32)index * axis.target_stride;
        offsets.row = at == entry->rows_axis ? index : offsets.row;
        number = quotient;
    }
    return offsets;
}
