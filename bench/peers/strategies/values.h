/* Fills and checks fields: every value follows from the global place of its cell. */
#ifndef VALUES_H
#define VALUES_H

#include "../peers.h"

/* Writes the owned cells, and NaN into the halo. Values differ between versions. */
void peers_fill(const struct peers_case *problem, int rank, int size, int field, int version, double *values);
/* Returns the number of cells with wrong values. With `stand_in`, halos must hold the rank's own cells. */
int64_t peers_wrong(const struct peers_case *problem, int rank, int size, int field, int version,
                    int stand_in, const double *values);
void peers_mesh_fill(const struct peers_mesh *mesh, int field, int version, double *values);
/* As above. With `stand_in`, a halo cell must hold the rank's own cell with the local number that the halo
 * cell has on the other rank. */
int64_t peers_mesh_wrong(const struct peers_mesh *mesh, int field, int version, int stand_in,
                         const double *values);

#endif
