/* The contestants that are written in C. */
#ifndef STRATEGIES_H
#define STRATEGIES_H

#include "../peers.h"

extern const struct peers_strategy packed_per_neighbour, packed_self_copied, packed_per_rank, packed_paired;
extern const struct peers_strategy datatypes_per_field, axis_after_axis, staged_paired, staged_past_caches;
extern const struct peers_strategy pulled_paired, limit_private, limit_shared;

extern const struct peers_strategy mesh_packed, mesh_raw, mesh_staged, mesh_staged_past_caches, mesh_pulled;
extern const struct peers_strategy mesh_gather, mesh_gather_shared;

extern const struct peers_strategy sums_packed, sums_staged, sums_pulled, sums_pass_shared, sums_pass;

extern const struct peers_strategy transposes_alltoallw, transposes_packed, transposes_pulled, transposes_pass;

#endif
