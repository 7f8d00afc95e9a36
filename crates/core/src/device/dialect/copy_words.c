// A list: each group of threads takes one tile.
KERNEL GROUP_SIZE_RESIDENT(GROUP_THREADS, RESIDENT_GROUPS) void copy_words(
    GLOBAL const CopyEntry *entries, GLOBAL const CopyTile *tiles, i64 count, CONSTANT_PARAMETER CopyBases bases)
{
    u32 group = (u32)GROUP_INDEX(0);
    if (group >= (u32)count)
        return;
    if (bases.stop && *GLOBAL_AT(const volatile u32, bases.stop))
        return;
    CopyTile tile = tiles[group];
    GLOBAL const CopyEntry *entry = &entries[tile.entry];
    u32 source_block = entry->source_block, target_block = entry->target_block;
    // Fixed addresses are aligned to the words of their entry.
    u32 alignment = source_block | target_block ? (u32)bases.alignment : 16;
    copy_part(entry, entry->source + bases.at[source_block], entry->target + bases.at[target_block], alignment,
              tile.first, tile.count);
}
