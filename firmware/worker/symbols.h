/* The numbers of a worker's frame, one after the other, before masks: no memory for the vector is needed. */
#ifndef AMX_SYMBOLS_H
#define AMX_SYMBOLS_H

#include "encode.h"

struct amx_symbols {
    const struct amx_contract *contract;
    const struct amx_row *row;
    uint32_t left, right; /* of the next product; labels come after the features */
};

/* Products of features, upper triangle row by row, those of two different features times sqrt(2); then of features
   with labels, feature by feature, times the weight of labels. */
float amx_next_symbol(struct amx_symbols *symbols);

/* Rounds up or down at random, so that the mean is right: 32 random bits decide. */
int64_t amx_rounded(float symbol, double step, uint32_t random);

#endif
