// A list of copies between strided boxes and between indexed rows, run as one launch.
//
// An entry of the list is a grid of at most COPY_AXES axes, outermost first. Its points are words of 1, 2, 4, 8 or 16
// bytes. Unused axes come first and have the extent 1; the first is unused in every entry of a list. `table.rs` makes the
// entries and defines the same structures.

#define COPY_AXES 8
#define NO_AXIS COPY_AXES
#define COPY_BLOCKS 64
#define SIGN_OF_FLOAT 1
#define SIGN_OF_INTEGER 2

typedef struct {
    u64 source, target;           // the addresses of the first word; with a block, in bytes from its begin
    u64 source_rows, target_rows; // the addresses of lists of u32 with the indices of rows, or 0
    u64 words;                    // the number of points of the grid
    u64 extents[COPY_AXES];
    i64 source_strides[COPY_AXES]; // bytes
    i64 target_strides[COPY_AXES];
    u32 word;      // bytes
    u32 axes;      // the number of axes in use
    u32 rows_axis; // the axis with lists of indices, or NO_AXIS
    u32 sign;      // SIGN_OF_FLOAT, SIGN_OF_INTEGER, or 0 for no change of sign
    u32 unaligned; // whether words that change their sign may lie at any address
    u32 source_block, target_block; // the numbers of blocks of memory, from 1, or 0 for fixed addresses
    u32 unused;
} CopyEntry;

// The begins of the blocks in this run.
typedef struct {
    u64 at[COPY_BLOCKS];
    u64 alignment; // in bytes, of all of them: a power of two, at most 16
} CopyBases;

// Consecutive words of an entry.
typedef struct {
    u64 first;
    u32 count;
    u32 entry;
} CopyTile;

typedef struct {
    u64 source, target;
} CopyPlace;

// The bytes from the first row to row `index` of the list, if there is one.
DEVICE_FUNCTION i64 row_offset(u64 rows, u64 index, i64 stride)
{
    return (i64)(rows ? ((GLOBAL const u32 *)rows)[index] : index) * stride;
}

DEVICE_FUNCTION void move_along(CopyPlace *place, CopyEntry entry, int axis, u64 index)
{
    if (axis == (int)entry.rows_axis) {
        place->source += row_offset(entry.source_rows, index, entry.source_strides[axis]);
        place->target += row_offset(entry.target_rows, index, entry.target_strides[axis]);
    } else {
        place->source += (i64)index * entry.source_strides[axis];
        place->target += (i64)index * entry.target_strides[axis];
    }
}

// The same entry in words of `piece` bytes, a part of a word.
DEVICE_FUNCTION CopyEntry in_pieces(CopyEntry entry, u32 piece)
{
    const int inner = COPY_AXES - 1;
    u32 pieces = entry.word / piece;
    if (entry.rows_axis == inner || entry.source_strides[inner] != (i64)entry.word ||
        entry.target_strides[inner] != (i64)entry.word) {
        _Pragma("unroll") for (int axis = 0; axis < inner; axis++)
        {
            entry.extents[axis] = entry.extents[axis + 1];
            entry.source_strides[axis] = entry.source_strides[axis + 1];
            entry.target_strides[axis] = entry.target_strides[axis + 1];
        }
        entry.extents[inner] = 1;
        entry.axes++;
        if (entry.rows_axis != NO_AXIS)
            entry.rows_axis--;
    }
    entry.extents[inner] *= pieces;
    entry.source_strides[inner] = entry.target_strides[inner] = piece;
    entry.words *= pieces;
    entry.word = piece;
    return entry;
}

// The same entry with the addresses of this run, in words that these are aligned to.
DEVICE_FUNCTION CopyEntry placed(CopyEntry entry, const CopyBases *bases)
{
    if (entry.source_block == 0 && entry.target_block == 0)
        return entry;
    if (entry.source_block > 0)
        entry.source += bases->at[entry.source_block - 1];
    if (entry.target_block > 0)
        entry.target += bases->at[entry.target_block - 1];
    if (bases->alignment < entry.word) {
        if (entry.sign)
            entry.unaligned = 1;
        else
            entry = in_pieces(entry, (u32)bases->alignment);
    }
    return entry;
}

// A number of 1 to 16 bytes at any address, lowest byte first.
DEVICE_FUNCTION u128 load_bytes(u64 address, u32 bytes)
{
    u128 number = {0, 0};
    for (u32 at = 0; at < bytes; at++) {
        u64 byte = ((GLOBAL const u8 *)address)[at];
        if (at < 8)
            number.low |= byte << (8 * at);
        else
            number.high |= byte << (8 * (at - 8));
    }
    return number;
}

DEVICE_FUNCTION void store_bytes(u64 address, u32 bytes, u128 number)
{
    for (u32 at = 0; at < bytes; at++)
        ((GLOBAL u8 *)address)[at] = (u8)(at < 8 ? number.low >> (8 * at) : number.high >> (8 * (at - 8)));
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

#define MOVE(type, address_from, address_to) \
    (*(GLOBAL type *)(address_to) = *(GLOBAL const type *)(address_from))
#define MOVE_NEGATED(type, address_from, address_to, sign) \
    (*(GLOBAL type *)(address_to) = (type)minus(*(GLOBAL const type *)(address_from), sizeof(type), sign))

DEVICE_FUNCTION void move_negated(CopyPlace place, u32 word, u32 sign, u32 unaligned)
{
    if (word == 16 || unaligned) {
        u128 number = load_bytes(place.source, word);
        if (word == 16)
            number = minus_wide(number);
        else
            number.low = minus(number.low, word, sign);
        store_bytes(place.target, word, number);
        return;
    }
    switch (word) {
    case 8: MOVE_NEGATED(u64, place.source, place.target, sign); break;
    case 4: MOVE_NEGATED(u32, place.source, place.target, sign); break;
    case 2: MOVE_NEGATED(u16, place.source, place.target, sign); break;
    default: MOVE_NEGATED(u8, place.source, place.target, sign); break;
    }
}

DEVICE_FUNCTION void move_word(CopyPlace place, u32 word)
{
    switch (word) {
    case 16: MOVE(bytes16, place.source, place.target); break;
    case 8: MOVE(u64, place.source, place.target); break;
    case 4: MOVE(u32, place.source, place.target); break;
    case 2: MOVE(u16, place.source, place.target); break;
    default: MOVE(u8, place.source, place.target); break;
    }
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
    i64 source_stride = entry.source_strides[COPY_AXES - 1], target_stride = entry.target_strides[COPY_AXES - 1];
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
    const int inner = COPY_AXES - 1, next = COPY_AXES - 2;
    if (index[inner] > 0 || entry.rows_axis == next || count < 2 * entry.extents[inner])
        return 1;
    u64 left = entry.extents[next] - index[next];
    u64 whole = count / entry.extents[inner];
    return whole < left ? whole : left;
}

// Consecutive words by one thread, line by line: for devices whose threads are cores.
DEVICE_FUNCTION void move_lines(CopyEntry entry, u64 first, u64 count)
{
    const int inner = COPY_AXES - 1, next = COPY_AXES - 2, outer = COPY_AXES - (int)entry.axes;
    u64 index[COPY_AXES];
    for (int axis = inner; axis >= 0; axis--) {
        index[axis] = first % entry.extents[axis];
        first /= entry.extents[axis];
    }
    while (count > 0) {
        CopyPlace place = {entry.source, entry.target};
        for (int axis = outer; axis < inner; axis++)
            move_along(&place, entry, axis, index[axis]);
        u64 left = entry.extents[inner] - index[inner];
        u64 here = count < left ? count : left, rows = 1;
        if (entry.rows_axis == inner && !entry.sign) {
            move_rows(place, entry, index[inner], here);
        } else {
            move_along(&place, entry, inner, index[inner]);
            if (entry.sign) {
                for (u64 at = 0; at < here; at++) {
                    move_negated(place, entry.word, entry.sign, entry.unaligned);
                    place.source += entry.source_strides[inner];
                    place.target += entry.target_strides[inner];
                }
            } else {
                rows = lines_at_once(entry, index, count);
                CopyLines lines = {place.source, place.target, rows, here,
                                   entry.source_strides[inner], entry.target_strides[inner],
                                   entry.source_strides[next], entry.target_strides[next]};
                move_whole_lines(lines, entry.word);
            }
        }
        count -= here * rows;
        index[inner] = 0;
        index[next] += rows;
        for (int axis = next; axis > outer && index[axis] == entry.extents[axis]; axis--) {
            index[axis] = 0;
            index[axis - 1]++;
        }
    }
}

// The addresses of word `number` of an entry; divisions of 32 bits are faster.
#define PLACE_OF(number_type)                                                                                 \
    number_type rest = (number_type)number;                                                                   \
    _Pragma("unroll") for (int axis = COPY_AXES - 1; axis >= 0; axis--)                                       \
    {                                                                                                         \
        if (axis < outer)                                                                                     \
            break;                                                                                            \
        number_type extent = (number_type)entry.extents[axis];                                                \
        move_along(&place, entry, axis, rest % extent);                                                       \
        rest /= extent;                                                                                       \
    }

DEVICE_FUNCTION CopyPlace place_of(CopyEntry entry, u64 number)
{
    CopyPlace place = {entry.source, entry.target};
    const int outer = COPY_AXES - (int)entry.axes;
    if (entry.words <= 0xffffffff) {
        PLACE_OF(u32)
    } else {
        PLACE_OF(u64)
    }
    return place;
}

// On CUDA devices, threads are not cores.
#ifdef __OPENCL_VERSION__
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
#endif

// The same list: each group of threads takes one tile, and its threads take the words in turn.
KERNEL GROUP_SIZE(128) void copy_words(GLOBAL const CopyEntry *entries, GLOBAL const CopyTile *tiles, i64 count,
                                       CONSTANT_PARAMETER CopyBases bases)
{
    if (GROUP_INDEX(0) >= count)
        return;
    CopyTile tile = tiles[GROUP_INDEX(0)];
    CopyEntry entry = placed(entries[tile.entry], &bases);
    u64 pieces = entries[tile.entry].word / entry.word, first = tile.first * pieces, past = tile.count * pieces;
    for (u64 at = (u64)LOCAL_INDEX(0); at < past; at += (u64)LOCAL_SIZE(0)) {
        CopyPlace place = place_of(entry, first + at);
        if (entry.sign)
            move_negated(place, entry.word, entry.sign, entry.unaligned);
        else
            move_word(place, entry.word);
    }
}

// One entry, passed with the launch; each thread takes `each` words.
KERNEL void copy_entry(CopyEntry entry, u64 each)
{
    u64 first = (u64)GLOBAL_INDEX(0) * each;
    if (first < entry.words)
        move_lines(entry, first, entry.words - first < each ? entry.words - first : each);
}
