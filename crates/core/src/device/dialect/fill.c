// The bytes of an element of 1 to 16 bytes, again and again, at any address.

KERNEL void fill(GLOBAL u8 *target, u64 low, u64 high, i64 bytes, i64 count)
{
    i64 index = GLOBAL_INDEX(0);
    if (index >= count)
        return;
    for (i64 at = 0; at < bytes; at++)
        target[index * bytes + at] = (u8)(at < 8 ? low >> (8 * at) : high >> (8 * (at - 8)));
}
