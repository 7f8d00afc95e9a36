/* C's side of `calls.rs`: a plan for arrays of 4³ cells, of one rank with itself. */
#include <haloport.h>
#include <stdlib.h>

hp_plan *calls_plan(int fields) {
    hp_comm *comm;
    hp_pattern *pattern;
    hp_plan *plan;
    hp_grid grid = HP_GRID_INIT;
    hp_array like[20];
    grid.axes = 3;
    for (int axis = 0; axis < 3; axis++) {
        grid.cells[axis] = 4, grid.periodic[axis] = 1;
        grid.halo_lower[axis] = grid.halo_upper[axis] = 1;
    }
    for (int field = 0; field < fields; field++) {
        like[field] = (hp_array)HP_ARRAY_INIT;
        like[field].type = HP_F64, like[field].axes = 3;
        for (int axis = 0; axis < 3; axis++) like[field].extent[axis] = 6;
    }
    if (hp_comm_threads(1, &comm) != HP_OK || hp_pattern_grid(comm, &grid, HP_SPLIT, NULL, &pattern) != HP_OK ||
        hp_plan_create(pattern, fields, like, NULL, NULL, &plan) != HP_OK)
        return NULL;
    return plan;
}
