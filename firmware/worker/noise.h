/* Skellam noise from random bits by integer arithmetic alone, as src/airmixml/integers/encoding.py draws it. */
#ifndef AMX_NOISE_H
#define AMX_NOISE_H

#include "chacha20.h"
#include "contract.h"

/* The noise of the number in this place, from its 64 random bits. Where those equal the upper half of a threshold, once
   in 10^14 draws or so, 64 more of another stream decide. */
int64_t amx_noise(const struct amx_contract *contract, uint64_t random, const struct amx_stream *ties, uint32_t place);

#endif
