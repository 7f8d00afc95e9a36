/* What is in the fields, and whether it arrived: every value follows from the global place of its cell. */
#ifndef VALUES_H
#define VALUES_H

#include "../peers.h"

/* Writes the owned cells, and NaN into the halo. `version` makes other values. */
void peers_fill(const struct peers_case *problem, int rank, int size, int field, int version, double *values);
/* The number of cells that do not hold what they should; with `stand_in`, halos hold the rank's own cells. */
int64_t peers_wrong(const struct peers_case *problem, int rank, int size, int field, int version,
                    int stand_in, const double *values);
void peers_mesh_fill(const struct peers_mesh *mesh, int field, int version, double *values);
/* As above; with `stand_in`, a halo cell holds the own cell that has the number which the other rank gave it.
 */
int64_t peers_mesh_wrong(const struct peers_mesh *mesh, int field, int version, int stand_in,
                         const double *values);

#endif
