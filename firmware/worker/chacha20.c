#include "chacha20.h"

#include "bytes.h"

static inline uint32_t turned(uint32_t word, unsigned by) { return word << by | word >> (32 - by); }

#define QUARTER(a, b, c, d)                                                                                            \
    do {                                                                                                               \
        a += b, d = turned(d ^ a, 16);                                                                                 \
        c += d, b = turned(b ^ c, 12);                                                                                 \
        a += b, d = turned(d ^ a, 8);                                                                                  \
        c += d, b = turned(b ^ c, 7);                                                                                  \
    } while (0)

void amx_stream_open(struct amx_stream *stream, const uint8_t seed[AMX_SEED_BYTES], uint32_t use, uint64_t round) {
    uint32_t *state = stream->state;
    state[0] = 0x61707865, state[1] = 0x3320646e, state[2] = 0x79622d32, state[3] = 0x6b206574;
    for (unsigned i = 0; i < 8; i++)
        state[4 + i] = amx_little4(seed + 4 * i);
    state[12] = 0;
    state[13] = use;
    state[14] = (uint32_t)round;
    state[15] = (uint32_t)(round >> 32);
}

void amx_stream_block(const struct amx_stream *stream, uint32_t block, uint8_t out[AMX_BLOCK_BYTES]) {
    uint32_t x[16];
    for (unsigned i = 0; i < 16; i++)
        x[i] = stream->state[i];
    x[12] = block;
    for (unsigned round = 0; round < 10; round++) {
        QUARTER(x[0], x[4], x[8], x[12]);
        QUARTER(x[1], x[5], x[9], x[13]);
        QUARTER(x[2], x[6], x[10], x[14]);
        QUARTER(x[3], x[7], x[11], x[15]);
        QUARTER(x[0], x[5], x[10], x[15]);
        QUARTER(x[1], x[6], x[11], x[12]);
        QUARTER(x[2], x[7], x[8], x[13]);
        QUARTER(x[3], x[4], x[9], x[14]);
    }
    for (unsigned i = 0; i < 16; i++)
        amx_put_little4(out + 4 * i, x[i] + (i == 12 ? block : stream->state[i]));
}
