// Consecutive words of an entry, by a group of threads that take them in turn: for devices whose threads are not cores.
//
// Addresses stay numbers until memory is accessed: with pointers that change in a loop, NVRTC 12 and 13 compiled for
// minutes without coming to an end.

// At least this number of groups is in flight on a multiprocessor: 62 % of the threads that one of Ampere or Hopper
// holds. So a thread has at most 48 registers.
#define RESIDENT_GROUPS 10
// The number of words that a thread loads before it stores the first.
#define AT_ONCE 4
#define EACH(k) _Pragma("unroll") for (int k = 0; k < AT_ONCE; k++)

// The words of an entry that a group copies, at their addresses in this run.
typedef struct {
    u64 source, target; // the addresses of word 0 of the entry
    u32 first, past;    // the numbers of the first word and of that behind the last
    u32 word;           // bytes
    u32 piece_bits;     // the words are pieces of those of the entry, 1 << piece_bits of each
} CopyPart;

// Moves words along an axis, by their indices along it. `rest` has the number of each word, counted in steps of this
// axis; after the call, in steps of the next axis outwards. Offsets are bytes from word 0.
DEVICE_FUNCTION void step_along(CopyAxis axis, u32 *rest, u32 *indices, i32 *source_offsets, i32 *target_offsets)
{
    EACH(k)
    {
        u32 quotient = divide(rest[k], axis.factor, axis.shift);
        indices[k] = rest[k] + quotient * axis.minus_extent;
        source_offsets[k] += (i32)indices[k] * axis.source_stride;
        target_offsets[k] += (i32)indices[k] * axis.target_stride;
        rest[k] = quotient;
    }
}

// Copies words of type `type` between two addresses for each k, which the arguments compute.
#define MOVE_AT_ONCE(type, source_of_k, target_of_k)                                                          \
    {                                                                                                         \
        type words[AT_ONCE];                                                                                  \
        EACH(k) words[k] = *GLOBAL_AT(const type, source_of_k);                                               \
        EACH(k) if (number + k * GROUP_THREADS < part.past) *GLOBAL_AT(type, target_of_k) = words[k];         \
        break;                                                                                                \
    }
#define MOVE_WORDS_AT_ONCE(source_of_k, target_of_k)                                                          \
    switch (part.word) {                                                                                      \
    case 16: MOVE_AT_ONCE(bytes16, source_of_k, target_of_k)                                                  \
    case 8: MOVE_AT_ONCE(u64, source_of_k, target_of_k)                                                       \
    case 4: MOVE_AT_ONCE(u32, source_of_k, target_of_k)                                                       \
    case 2: MOVE_AT_ONCE(u16, source_of_k, target_of_k)                                                       \
    default: MOVE_AT_ONCE(u8, source_of_k, target_of_k)                                                       \
    }

// An entry of at most three axes, without lists of rows: what packing a box needs. Its axes stay in registers.
DEVICE_FUNCTION void copy_plain(GLOBAL const CopyEntry *entry, CopyPart part)
{
    CopyAxis inner = entry->axes[0], middle = entry->axes[1], outer = entry->axes[2];
    for (u32 number = part.first + (u32)LOCAL_INDEX(0); number < part.past; number += AT_ONCE * GROUP_THREADS) {
        u32 rest[AT_ONCE], indices[AT_ONCE];
        i32 source_offsets[AT_ONCE], target_offsets[AT_ONCE];
        EACH(k)
        {
            // Past the end, the last word is loaded again, and not stored.
            rest[k] = min(number + k * GROUP_THREADS, part.past - 1);
            source_offsets[k] = target_offsets[k] = 0;
        }
        step_along(inner, rest, indices, source_offsets, target_offsets);
        step_along(middle, rest, indices, source_offsets, target_offsets);
        EACH(k)
        {
            source_offsets[k] += (i32)rest[k] * outer.source_stride;
            target_offsets[k] += (i32)rest[k] * outer.target_stride;
        }
        MOVE_WORDS_AT_ONCE(part.source + source_offsets[k], part.target + target_offsets[k])
    }
}

// Any entry. Its axes are read again for each four words, from the cache.
DEVICE_FUNCTION void copy_any(GLOBAL const CopyEntry *entry, CopyPart part)
{
    for (u32 number = part.first + (u32)LOCAL_INDEX(0); number < part.past; number += AT_ONCE * GROUP_THREADS) {
        u32 rest[AT_ONCE], indices[AT_ONCE], rows[AT_ONCE];
        i32 source_offsets[AT_ONCE], target_offsets[AT_ONCE];
        EACH(k)
        {
            rest[k] = min(number + k * GROUP_THREADS, part.past - 1);
            source_offsets[k] = target_offsets[k] = 0;
            rows[k] = 0;
        }
        if (part.piece_bits > 0) EACH(k)
        {
            u32 piece = rest[k] & ((1u << part.piece_bits) - 1);
            source_offsets[k] = target_offsets[k] = (i32)(piece * part.word);
            rest[k] >>= part.piece_bits;
        }
        _Pragma("unroll 1") for (u32 axis = 0; axis < entry->used; axis++)
        {
            step_along(entry->axes[axis], rest, indices, source_offsets, target_offsets);
            EACH(k) rows[k] = axis == entry->rows_axis ? indices[k] : rows[k];
        }
        GLOBAL const u32 *source_list = GLOBAL_AT(const u32, entry->source_rows);
        GLOBAL const u32 *target_list = GLOBAL_AT(const u32, entry->target_rows);
        u64 sources[AT_ONCE], targets[AT_ONCE];
        EACH(k)
        {
            i64 source_row = source_list ? source_list[rows[k]] : 0, target_row = target_list ? target_list[rows[k]] : 0;
            sources[k] = part.source + source_offsets[k] + source_row * entry->source_row_stride;
            targets[k] = part.target + target_offsets[k] + target_row * entry->target_row_stride;
        }
        MOVE_WORDS_AT_ONCE(sources[k], targets[k])
    }
}

// The words of a part with the other sign, one after the other: only the halos of a few grids need it. Such an entry has
// no lists of rows.
DEVICE_FUNCTION void copy_negated(GLOBAL const CopyEntry *entry, CopyPart part, u32 unaligned)
{
    for (u32 number = part.first + (u32)LOCAL_INDEX(0); number < part.past; number += GROUP_THREADS) {
        CopyOffsets offsets = offsets_of(entry, number);
        move_negated(GLOBAL_AT(const u8, part.source + offsets.source), GLOBAL_AT(u8, part.target + offsets.target),
                     part.word, entry->sign, unaligned);
    }
}

// `count` words of an entry, by all threads of a group. The entry begins at these addresses, and all its words lie at
// multiples of `alignment` or of their size.
DEVICE_FUNCTION void copy_part(GLOBAL const CopyEntry *entry, u64 source, u64 target, u32 alignment, u32 first, u32 count)
{
    CopyPart part = {source, target, first, first + count, entry->word, 0};
    u32 aligned = part.word <= alignment;
    if (entry->sign) {
        copy_negated(entry, part, !aligned || entry->unaligned);
    } else if (aligned && entry->used <= 3 && entry->rows_axis == NO_AXIS) {
        copy_plain(entry, part);
    } else {
        for (; part.word > alignment; part.word /= 2)
            part.piece_bits++;
        part.first <<= part.piece_bits;
        part.past <<= part.piece_bits;
        copy_any(entry, part);
    }
}
