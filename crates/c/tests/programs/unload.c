/* unload LIBRARY: a thread loads the library, exchanges, closes it, and ends. */
#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

#include "haloport.h"

/* A function of the library, by the name that it has in the header. */
#define FUNCTION(name)          \
    __typeof__(&name) name##_;  \
    *(void **)&name##_ = function(library, #name)

static void *function(void *library, const char *name) {
    void *found = dlsym(library, name);
    if (!found) {
        fprintf(stderr, "%s\n", dlerror());
        exit(1);
    }
    return found;
}

static void *use(void *path) {
    void *library = dlopen(path, RTLD_NOW);
    if (!library) {
        fprintf(stderr, "%s\n", dlerror());
        exit(1);
    }
    FUNCTION(hp_comm_threads);
    FUNCTION(hp_pattern_grid);
    FUNCTION(hp_plan_create);
    FUNCTION(hp_exchange);
    hp_comm *comm;
    hp_pattern *pattern;
    hp_plan *plan;
    double u[6] = {0};
    void *data[] = {u};
    hp_grid grid = HP_GRID_INIT;
    grid.axes = 1, grid.cells[0] = 4, grid.periodic[0] = 1, grid.halo_lower[0] = grid.halo_upper[0] = 1;
    hp_array like = HP_ARRAY_INIT;
    like.type = HP_F64, like.axes = 1, like.extent[0] = 6;
    u[1] = 7;
    if (hp_comm_threads_(1, &comm) != HP_OK || hp_pattern_grid_(comm, &grid, HP_SPLIT, NULL, &pattern) != HP_OK ||
        hp_plan_create_(pattern, 1, &like, NULL, NULL, &plan) != HP_OK ||
        hp_exchange_(plan, data, (hp_stream){HP_DEFAULT, 0, 0}) != HP_OK || u[5] != 7)
        exit(1);
    dlclose(library);
    return NULL;
}

int main(int arguments, char **argument) {
    pthread_t thread;
    if (arguments < 2 || pthread_create(&thread, NULL, use, argument[1]) != 0) return 1;
    pthread_join(thread, NULL);
    return 0;
}
