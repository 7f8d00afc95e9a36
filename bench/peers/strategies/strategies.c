#include "strategies.h"

#include <stddef.h>

/* One line for each contestant; all others are compared to the first. C requires a copy of the structures. */
const struct peers_strategy *peers_strategies(void) {
    static struct peers_strategy list[16];
    const struct peers_strategy *all[] = {
        &packed_per_neighbour, &datatypes_per_field, &packed_self_copied, &packed_per_rank,
        &packed_paired,        &axis_after_axis,     &staged_paired,      &staged_past_caches,
        &pulled_paired,        &limit_shared,        &limit_private,
    };
    for (size_t at = 0; at < sizeof all / sizeof *all; at++) list[at] = *all[at];
    return list;
}

const struct peers_strategy *peers_mesh_strategies(void) {
    static struct peers_strategy list[16];
    const struct peers_strategy *all[] = {
        &mesh_packed, &mesh_raw,           &mesh_staged, &mesh_staged_past_caches,
        &mesh_pulled, &mesh_gather_shared, &mesh_gather,
    };
    for (size_t at = 0; at < sizeof all / sizeof *all; at++) list[at] = *all[at];
    return list;
}

const struct peers_strategy *peers_sum_strategies(void) {
    static struct peers_strategy list[16];
    const struct peers_strategy *all[] = {
        &sums_packed, &sums_staged, &sums_pulled, &sums_pass_shared, &sums_pass,
    };
    for (size_t at = 0; at < sizeof all / sizeof *all; at++) list[at] = *all[at];
    return list;
}

const struct peers_strategy *peers_transpose_strategies(void) {
    static struct peers_strategy list[16];
    const struct peers_strategy *all[] = {
        &transposes_alltoallw, &transposes_packed, &transposes_pulled, &transposes_pass,
    };
    for (size_t at = 0; at < sizeof all / sizeof *all; at++) list[at] = *all[at];
    return list;
}
