/* What a worker does to its row before it sends it, as src/airmixml/workers/encoding.py does. */
#ifndef AMX_ENCODE_H
#define AMX_ENCODE_H

#include "contract.h"

struct amx_row {
    float features[AMX_MOST_FEATURES];
    float labels[AMX_MOST_OUTPUTS];
};

/* Scales raw numbers by the declared bounds, subtracts the public mean, bounds the norm, appends the constant. Labels
   are as the contract's label code makes them, of norm at most 1. */
enum amx_status amx_encode(const struct amx_contract *contract, const float *inputs, const float *labels,
                           struct amx_row *row);

/* Writes what is sent of a class, numbered from 0; the target of a regression the caller scales itself. */
enum amx_status amx_code_class(const struct amx_contract *contract, uint32_t number, float labels[AMX_MOST_OUTPUTS]);

double amx_square_root(double value); /* of a positive number, correctly rounded */

#endif
