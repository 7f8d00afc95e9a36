// One entry without blocks, passed with the launch: each group of threads takes `each` words.
KERNEL GROUP_SIZE_RESIDENT(GROUP_THREADS, RESIDENT_GROUPS) void copy_entry(CONSTANT_PARAMETER CopyEntry entry, u32 each)
{
    u32 first = (u32)GROUP_INDEX(0) * each;
    if (first < entry.words)
        copy_part(&entry, entry.source, entry.target, 16, first, min(entry.words - first, each));
}
