/* Fills and checks fields: every value follows from the global place of its cell. Values differ between versions. */
#ifndef VALUES_H
#define VALUES_H

#include "../peers.h"

/* Writes the owned cells, and NaN into the halo. */
void peers_fill(const struct peers_case *problem, int rank, int size, int field, int version, double *values);
/* Returns the number of cells with wrong values. With `stand_in`, halos must hold the rank's own cells. */
int64_t peers_wrong(const struct peers_case *problem, int rank, int size, int field, int version,
                    int stand_in, const double *values);
void peers_mesh_fill(const struct peers_mesh *mesh, int field, int version, double *values);
/* As above. With `stand_in`, a halo cell must hold the rank's own cell with the local number that the halo
 * cell has on the other rank. */
int64_t peers_mesh_wrong(const struct peers_mesh *mesh, int field, int version, int stand_in,
                         const double *values);
/* Writes the owned cells, and other values into the halo. */
void peers_sum_fill(const struct peers_mesh *mesh, int field, int version, double *values);
/* Returns the number of wrong cells after the halo was added to its owners once: owned cells have the values of
 * their copies in the halo of the other rank as well, and the halo is as before. With `stand_in`, each halo cell was
 * added to the rank's own cell with the local number of its owner. */
int64_t peers_sum_wrong(const struct peers_mesh *mesh, int field, int version, int stand_in, const double *values);
/* Writes field `field`, as `struct peers_strategy` numbers them: the cells of the first part, or NaN in the second. */
void peers_transpose_fill(const struct peers_transpose *problem, int rank, int size, int field, int version,
                          double *values);
/* Returns the number of wrong cells. With `stand_in`, the second part must hold rows of the rank's own in place of
 * those of others. */
int64_t peers_transpose_wrong(const struct peers_transpose *problem, int rank, int size, int field, int version,
                              int stand_in, const double *values);

#endif
