// Consecutive words of an entry by one thread, line by line: for devices whose threads are cores.

typedef struct {
    u64 source, target;
} CopyPlace;

#define MOVE(type, address_from, address_to) \
    (*GLOBAL_AT(type, address_to) = *GLOBAL_AT(const type, address_from))

// The bytes from row 0 to row `index` of the list, if there is one.
DEVICE_FUNCTION i64 row_offset(u64 rows, u64 index, i64 stride)
{
    return (i64)(rows ? GLOBAL_AT(const u32, rows)[index] : index) * stride;
}

DEVICE_FUNCTION i64 source_stride_of(CopyEntry entry, int axis)
{
    return axis == (int)entry.rows_axis && entry.source_rows ? entry.source_row_stride : entry.axes[axis].source_stride;
}

DEVICE_FUNCTION i64 target_stride_of(CopyEntry entry, int axis)
{
    return axis == (int)entry.rows_axis && entry.target_rows ? entry.target_row_stride : entry.axes[axis].target_stride;
}

DEVICE_FUNCTION void move_along(CopyPlace *place, CopyEntry entry, int axis, u64 index)
{
    if (axis == (int)entry.rows_axis) {
        place->source += row_offset(entry.source_rows, index, source_stride_of(entry, axis));
        place->target += row_offset(entry.target_rows, index, target_stride_of(entry, axis));
    } else {
        place->source += (i64)index * entry.axes[axis].source_stride;
        place->target += (i64)index * entry.axes[axis].target_stride;
    }
}

// The same entry in words of `piece` bytes, a part of a word.
DEVICE_FUNCTION CopyEntry in_pieces(CopyEntry entry, u32 piece)
{
    u32 pieces = entry.word / piece;
    if (entry.rows_axis == 0 || entry.axes[0].source_stride != (i32)entry.word ||
        entry.axes[0].target_stride != (i32)entry.word) {
        _Pragma("unroll") for (int axis = COPY_AXES - 1; axis > 0; axis--) entry.axes[axis] = entry.axes[axis - 1];
        entry.axes[0].extent = 1;
        if (entry.rows_axis != NO_AXIS)
            entry.rows_axis++;
        entry.used++;
    }
    entry.axes[0].extent *= pieces;
    entry.axes[0].source_stride = entry.axes[0].target_stride = (i32)piece;
    entry.words *= pieces;
    entry.word = piece;
    return entry;
}

// The same entry with the addresses of this run, in words that these are aligned to.
DEVICE_FUNCTION CopyEntry placed(CopyEntry entry, const CopyBases *bases)
{
    if (entry.source_block == 0 && entry.target_block == 0)
        return entry;
    entry.source += bases->at[entry.source_block];
    entry.target += bases->at[entry.target_block];
    if (bases->alignment < entry.word) {
        if (entry.sign)
            entry.unaligned = 1;
        else
            entry = in_pieces(entry, (u32)bases->alignment);
    }
    return entry;
}

// The source and the target of a run are fetched into the cache this number of runs ahead.
#define RUNS_AHEAD 32

// Lines of equal length, with equal gaps between words on each side. On the faces of a grid across its fastest axis, a
// line is as long as the halo is wide: a loop over two to four words would take longer than copying them.
#define MOVE_LINES(type)                                                                                      \
    switch (lines.count) {                                                                                    \
    case 2: MOVE_SHORT_LINES(type, 2) break;                                                                  \
    case 3: MOVE_SHORT_LINES(type, 3) break;                                                                  \
    case 4: MOVE_SHORT_LINES(type, 4) break;                                                                  \
    default:                                                                                                  \
        if (lines.source_stride == sizeof(type) && lines.target_stride == sizeof(type)) {                     \
            for (; lines.rows > 0; lines.rows--, NEXT_LINE(lines)) {                                          \
                GLOBAL const type *RESTRICT from = (GLOBAL const type *)lines.source;                         \
                GLOBAL type *RESTRICT to = (GLOBAL type *)lines.target;                                       \
                for (u64 at = 0; at < lines.count; at++)                                                      \
                    to[at] = from[at];                                                                        \
            }                                                                                                 \
        } else {                                                                                              \
            for (; lines.rows > 0; lines.rows--, NEXT_LINE(lines))                                            \
                for (i64 at = 0; at < (i64)lines.count; at++) {                                               \
                    FETCH(lines.source + (at + RUNS_AHEAD) * lines.source_stride);                            \
                    FETCH(lines.target + (at + RUNS_AHEAD) * lines.target_stride);                            \
                    MOVE(type, lines.source + at * lines.source_stride, lines.target + at * lines.target_stride); \
                }                                                                                             \
        }                                                                                                     \
    }
#define MOVE_SHORT_LINES(type, words)                                                                         \
    for (; lines.rows > 0; lines.rows--, NEXT_LINE(lines)) {                                                  \
        FETCH(lines.source + RUNS_AHEAD * lines.source_next);                                                 \
        FETCH(lines.target + RUNS_AHEAD * lines.target_next);                                                 \
        _Pragma("unroll") for (int at = 0; at < words; at++)                                                  \
            MOVE(type, lines.source + at * lines.source_stride, lines.target + at * lines.target_stride);     \
    }
#define NEXT_LINE(lines) lines.source += lines.source_next, lines.target += lines.target_next

typedef struct {
    u64 source, target;
    u64 rows, count;
    i64 source_stride, target_stride; // from word to word
    i64 source_next, target_next;     // from line to line
} CopyLines;

DEVICE_FUNCTION void move_whole_lines(CopyLines lines, u32 word)
{
    switch (word) {
    case 16: MOVE_LINES(bytes16) break;
    case 8: MOVE_LINES(u64) break;
    case 4: MOVE_LINES(u32) break;
    case 2: MOVE_LINES(u16) break;
    default: MOVE_LINES(u8) break;
    }
}

// One line of rows that are selected by index.
#define MOVE_ROWS(type)                                                                                       \
    for (u64 at = 0; at < count; at++)                                                                        \
        MOVE(type, place.source + row_offset(entry.source_rows, first + at, source_stride),                   \
             place.target + row_offset(entry.target_rows, first + at, target_stride));

DEVICE_FUNCTION void move_rows(CopyPlace place, CopyEntry entry, u64 first, u64 count)
{
    i64 source_stride = source_stride_of(entry, 0), target_stride = target_stride_of(entry, 0);
    switch (entry.word) {
    case 16: MOVE_ROWS(bytes16) break;
    case 8: MOVE_ROWS(u64) break;
    case 4: MOVE_ROWS(u32) break;
    case 2: MOVE_ROWS(u16) break;
    default: MOVE_ROWS(u8) break;
    }
}

// The number of lines that can be moved at once: all remaining lines with equal gaps between them.
DEVICE_FUNCTION u64 lines_at_once(CopyEntry entry, const u64 *index, u64 count)
{
    if (index[0] > 0 || entry.rows_axis == 1 || count < 2 * (u64)entry.axes[0].extent)
        return 1;
    u64 left = entry.axes[1].extent - index[1];
    u64 whole = count / entry.axes[0].extent;
    return whole < left ? whole : left;
}

DEVICE_FUNCTION void move_lines(CopyEntry entry, u64 first, u64 count)
{
    const int outermost = (int)entry.used - 1;
    u64 index[COPY_AXES];
    for (int axis = 0; axis < COPY_AXES; axis++) {
        index[axis] = first % entry.axes[axis].extent;
        first /= entry.axes[axis].extent;
    }
    while (count > 0) {
        CopyPlace place = {entry.source, entry.target};
        for (int axis = outermost; axis > 0; axis--)
            move_along(&place, entry, axis, index[axis]);
        u64 left = entry.axes[0].extent - index[0];
        u64 here = count < left ? count : left, rows = 1;
        if (entry.rows_axis == 0 && !entry.sign) {
            move_rows(place, entry, index[0], here);
        } else {
            move_along(&place, entry, 0, index[0]);
            if (entry.sign) {
                for (u64 at = 0; at < here; at++) {
                    move_negated(GLOBAL_AT(const u8, place.source), GLOBAL_AT(u8, place.target), entry.word, entry.sign,
                                 entry.unaligned);
                    place.source += entry.axes[0].source_stride;
                    place.target += entry.axes[0].target_stride;
                }
            } else {
                rows = lines_at_once(entry, index, count);
                CopyLines lines = {place.source, place.target, rows, here,
                                   entry.axes[0].source_stride, entry.axes[0].target_stride,
                                   entry.axes[1].source_stride, entry.axes[1].target_stride};
                move_whole_lines(lines, entry.word);
            }
        }
        count -= here * rows;
        index[0] = 0;
        index[1] += rows;
        for (int axis = 1; axis < outermost && index[axis] == entry.axes[axis].extent; axis++) {
            index[axis] = 0;
            index[axis + 1]++;
        }
    }
}

// A list: each of the `threads` threads takes consecutive tiles, whose memory lies close together.
KERNEL GROUP_SIZE(1) void copy_lines(GLOBAL const CopyEntry *entries, GLOBAL const CopyTile *tiles, i64 count,
                                     i64 threads, CONSTANT_PARAMETER CopyBases bases)
{
    i64 thread = GLOBAL_INDEX(0), past = count * (thread + 1) / threads;
    for (i64 index = count * thread / threads; index < past; index++) {
        CopyTile tile = tiles[index];
        CopyEntry entry = placed(entries[tile.entry], &bases);
        u64 pieces = entries[tile.entry].word / entry.word;
        move_lines(entry, tile.first * pieces, tile.count * pieces);
    }
}
