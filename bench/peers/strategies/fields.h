/* The fields of a strategy whose memory is its own. */
#ifndef FIELDS_H
#define FIELDS_H

#include "block.h"

double **fields_new(const struct block *block);
void fields_free(double **fields, int count);

#endif
