// Copies a word of host memory, which the host may write meanwhile, to memory of the device.

KERNEL void fetch_word(GLOBAL u32 *target, u64 source)
{
    if (GLOBAL_INDEX(0) == 0)
        *target = *GLOBAL_AT(const volatile u32, source);
}
