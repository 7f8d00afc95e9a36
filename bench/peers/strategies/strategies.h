/* The contestants that are written in C. */
#ifndef STRATEGIES_H
#define STRATEGIES_H

#include "../peers.h"

extern const struct peers_strategy packed_per_neighbour, packed_self_copied, packed_per_rank, packed_paired;
extern const struct peers_strategy datatypes_per_field, axis_after_axis, staged_paired, pulled_paired;
extern const struct peers_strategy limit_private, limit_shared;

extern const struct peers_strategy mesh_packed, mesh_raw, mesh_staged, mesh_pulled, mesh_gather, mesh_gather_shared;

#endif
