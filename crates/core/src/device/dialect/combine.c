// A list of copies that combine: each word of an entry with the one at its target. A word is a number, or a part of a complex
// number, and is aligned for it on both sides. Each group of threads takes one tile.

#define COMBINE_SUM 1
#define COMBINE_MIN 2
#define COMBINE_MAX 3

#define NUMBER_SIGNED 1
#define NUMBER_UNSIGNED 2
#define NUMBER_FLOAT 3
#define NUMBER_BFLOAT 4

// Sizes in bits.
#define SIGN_BIT(bits) ((u64)1 << ((bits) - 1))

// Whether the number that arrives takes the place of the one that is there, for the smaller or the larger one.
DEVICE_FUNCTION u32 takes_place(u32 combine, u32 is_less, u32 is_greater)
{
    return combine == COMBINE_MIN ? is_less : is_greater;
}

DEVICE_FUNCTION u64 combined_integers(u64 there, u64 arrived, u32 bits, u32 number, u32 combine)
{
    if (combine == COMBINE_SUM)
        return there + arrived;
    u64 flipped = number == NUMBER_SIGNED ? SIGN_BIT(bits) : 0; // then the order is that of unsigned numbers
    u64 a = arrived ^ flipped, t = there ^ flipped;
    return takes_place(combine, a < t, a > t) ? arrived : there;
}

#if !defined(__OPENCL_VERSION__) || defined(cl_khr_fp64)
DEVICE_FUNCTION u64 combined_f64(u64 there, u64 arrived, u32 combine)
{
    f64 a = F64_OF_BITS(arrived), t = F64_OF_BITS(there);
    if (combine == COMBINE_SUM)
        return BITS_OF_F64(t + a);
    return a != a || takes_place(combine, a < t, a > t) ? arrived : there;
}
#endif

// A number of 16 bits as one of 32, which is exact.
DEVICE_FUNCTION f32 widened(u32 bits, u32 number)
{
    if (number == NUMBER_BFLOAT)
        return F32_OF_BITS(bits << 16);
    u32 sign = (bits & 0x8000) << 16, exponent = bits >> 10 & 31, mantissa = bits & 0x3ff;
    if (exponent == 0) {
        // Below 2^-14: a multiple of 2^-24.
        f32 magnitude = (f32)mantissa * 5.9604644775390625e-8f;
        return F32_OF_BITS(BITS_OF_F32(magnitude) | sign);
    }
    return F32_OF_BITS(sign | (exponent == 31 ? 255 : exponent + 112) << 23 | mantissa << 13);
}

// The nearest number of 16 bits, of two the even one. The sum of two, rounded to 32 bits and then to 16, is the one that is
// rounded once: 24 bits are at least twice 11 and 2 more.
DEVICE_FUNCTION u32 narrowed(f32 value, u32 number)
{
    u32 bits = BITS_OF_F32(value), sign = bits >> 16 & 0x8000, magnitude = bits & 0x7fffffff;
    if (number == NUMBER_BFLOAT) {
        if (magnitude > 0x7f800000)
            return bits >> 16 | 0x40;
        return (bits + 0x7fff + (bits >> 16 & 1)) >> 16;
    }
    if (magnitude > 0x7f800000)
        return sign | 0x7e00 | (magnitude >> 13 & 0x3ff);
    if (magnitude >= 0x477ff000) // 65520, halfway from the largest number to the next power of two
        return sign | 0x7c00;
    if (magnitude < 0x38800000) // 2^-14: half of 1 has the same last place as these numbers
        return sign | (BITS_OF_F32(F32_OF_BITS(magnitude) + 0.5f) - 0x3f000000);
    return sign | (magnitude - 0x38000000 + 0xfff + (magnitude >> 13 & 1)) >> 13;
}

DEVICE_FUNCTION u64 combined_f32(u64 there, u64 arrived, u32 word, u32 number, u32 combine)
{
    f32 a = word == 4 ? F32_OF_BITS((u32)arrived) : widened((u32)arrived, number);
    f32 t = word == 4 ? F32_OF_BITS((u32)there) : widened((u32)there, number);
    if (combine == COMBINE_SUM)
        return word == 4 ? BITS_OF_F32(t + a) : narrowed(t + a, number);
    return a != a || takes_place(combine, a < t, a > t) ? arrived : there;
}

DEVICE_FUNCTION u64 load_word(u64 address, u32 word)
{
    switch (word) {
    case 8: return *GLOBAL_AT(const u64, address);
    case 4: return *GLOBAL_AT(const u32, address);
    case 2: return *GLOBAL_AT(const u16, address);
    default: return *GLOBAL_AT(const u8, address);
    }
}

DEVICE_FUNCTION void store_word(u64 address, u32 word, u64 bits)
{
    switch (word) {
    case 8: *GLOBAL_AT(u64, address) = bits; break;
    case 4: *GLOBAL_AT(u32, address) = (u32)bits; break;
    case 2: *GLOBAL_AT(u16, address) = (u16)bits; break;
    default: *GLOBAL_AT(u8, address) = (u8)bits; break;
    }
}

// With the two halves of a number in a structure, NVRTC 12 compiled for minutes without coming to an end.
DEVICE_FUNCTION void combine_wide_word(u64 source, u64 target, u32 sign, u32 number, u32 combine)
{
    u64 low = *GLOBAL_AT(const u64, source), high = *GLOBAL_AT(const u64, source + 8);
    u64 there_low = *GLOBAL_AT(const u64, target), there_high = *GLOBAL_AT(const u64, target + 8);
    if (sign) {
        high = ~high + (low == 0);
        low = (u64)0 - low;
    }
    u64 flipped = number == NUMBER_SIGNED ? SIGN_BIT(64) : 0;
    u64 a = high ^ flipped, t = there_high ^ flipped;
    u32 is_less = a < t || (a == t && low < there_low);
    u32 is_greater = a > t || (a == t && low > there_low);
    if (combine == COMBINE_SUM) {
        low += there_low;
        high += there_high + (low < there_low);
    } else if (!takes_place(combine, is_less, is_greater)) {
        low = there_low;
        high = there_high;
    }
    *GLOBAL_AT(u64, target) = low;
    *GLOBAL_AT(u64, target + 8) = high;
}

DEVICE_FUNCTION void combine_word(u64 source, u64 target, u32 word, u32 sign, u32 number, u32 combine)
{
    u32 bits = 8 * word;
    u64 arrived = load_word(source, word), there = load_word(target, word), result;
    if (sign)
        arrived = (sign == SIGN_OF_FLOAT ? arrived ^ SIGN_BIT(bits) : (u64)0 - arrived) & (~(u64)0 >> (64 - bits));
    if (number <= NUMBER_UNSIGNED)
        result = combined_integers(there, arrived, bits, number, combine);
#if !defined(__OPENCL_VERSION__) || defined(cl_khr_fp64)
    else if (word == 8)
        result = combined_f64(there, arrived, combine);
#endif
    else
        result = combined_f32(there, arrived, word, number, combine);
    store_word(target, word, result);
}

// The bytes from row 0 to the row that a list names at `place`; 0 without a list.
DEVICE_FUNCTION i64 row_offset(u64 list, u32 place, i64 stride)
{
    return list ? *GLOBAL_AT(const u32, list + 4 * (u64)place) * stride : 0;
}

KERNEL GROUP_SIZE(GROUP_THREADS) void combine_words(
    GLOBAL const CopyEntry *entries, GLOBAL const CopyTile *tiles, i64 count, CONSTANT_PARAMETER CopyBases bases)
{
    u32 group = (u32)GROUP_INDEX(0);
    if (group >= (u32)count)
        return;
    if (bases.stop && *GLOBAL_AT(const volatile u32, bases.stop))
        return;
    CopyTile tile = tiles[group];
    GLOBAL const CopyEntry *entry = &entries[tile.entry];
    u64 source = entry->source + bases.at[entry->source_block], target = entry->target + bases.at[entry->target_block];
    u32 word = entry->word, sign = entry->sign, number = entry->number, combine = entry->combine;
    for (u32 at = (u32)LOCAL_INDEX(0); at < tile.count; at += GROUP_THREADS) {
        CopyOffsets offsets = offsets_of(entry, tile.first + at);
        u64 from = source + offsets.source + row_offset(entry->source_rows, offsets.row, entry->source_row_stride);
        u64 to = target + offsets.target + row_offset(entry->target_rows, offsets.row, entry->target_row_stride);
        if (word == 16)
            combine_wide_word(from, to, sign, number, combine);
        else
            combine_word(from, to, word, sign, number, combine);
    }
}
