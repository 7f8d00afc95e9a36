#include "fields.h"

#include <stdlib.h>

#include "memory.h"

double **fields_new(const struct block *block) {
    double **fields = calloc((size_t)block->fields, sizeof *fields);
    for (int number = 0; number < block->fields; number++)
        fields[number] = private_new((size_t)block->cells * sizeof(double));
    return fields;
}

void fields_free(double **fields, int count) {
    for (int number = 0; number < count; number++) free(fields[number]);
    free(fields);
}
