/* What a model writes in each step: the owned cells that other ranks need, or on boxes those near the halo; the halo
 * itself if that is added to its owners. */
#ifndef WRITES_H
#define WRITES_H

#include "../peers.h"

/* Make the writes of fields at these addresses, which rewrite the values that the fields have now. */
void *peers_writes(const struct peers_case *problem, double *const *fields);
void *peers_mesh_writes(const struct peers_mesh *mesh, double *const *fields);
void *peers_sum_writes(const struct peers_mesh *mesh, double *const *fields);
void peers_writes_run(const void *writes);
void peers_writes_free(void *writes);

#endif
