// Copies of numbers with the other sign.

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
