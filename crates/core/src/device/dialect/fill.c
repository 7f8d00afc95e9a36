// Writes an element of 1 to 16 bytes `count` times, at any address.

KERNEL void fill(GLOBAL u8 *target, u64 low, u64 high, i64 bytes, i64 count)
{
    i64 index = GLOBAL_INDEX(0);
    if (index >= count)
        return;
    GLOBAL u8 *element = target + index * bytes;
    if (bytes % 8 == 0 && (u64)target % 8 == 0) {
        ((GLOBAL u64 *)element)[0] = low;
        if (bytes == 16)
            ((GLOBAL u64 *)element)[1] = high;
        return;
    }
    for (i64 at = 0; at < bytes; at++)
        element[at] = (u8)(at < 8 ? low >> (8 * at) : high >> (8 * (at - 8)));
}
