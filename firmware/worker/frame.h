/* A frame of masked integers, formed in pieces: products, rounding, noise and masks modulo 2^bits, packed. */
#ifndef AMX_FRAME_H
#define AMX_FRAME_H

#include "chacha20.h"
#include "encode.h"

struct amx_edge {
    uint64_t other; /* worker at the other end of this mask */
    uint8_t seed[AMX_SEED_BYTES];
};

/* Secrets of one round. The seed of the worker's own mask may be handed out later; the one of its noise never is. */
struct amx_seeds {
    const uint8_t *noise, *own; /* AMX_SEED_BYTES each */
    const struct amx_edge *edges;
    uint32_t edge_count;
};

typedef bool amx_sink(void *context, const uint8_t *bytes, size_t count);

unsigned amx_word_bytes(uint32_t bits); /* 1, 2, 4 or 8: the smallest word that holds so many bits */

/* Hands the frame of a round to the sink, piece by piece; false as soon as the sink returns false. */
bool amx_form_frame(const struct amx_contract *contract, const struct amx_row *row, const struct amx_seeds *seeds,
                    uint64_t round, amx_sink *sink, void *context);

#endif
