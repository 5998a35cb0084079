/* A seed turned into random bytes that are addressed, not drawn in turn: ChaCha20 (RFC 8439). */
#ifndef AMX_CHACHA20_H
#define AMX_CHACHA20_H

#include <stdint.h>

enum { AMX_SEED_BYTES = 32, AMX_BLOCK_BYTES = 64 };

/* What a key stream is for: the same seed and round never give the same bytes to two uses. */
enum amx_use { AMX_MASKS = 2, AMX_ROUNDING = 3, AMX_NOISE = 4, AMX_TIES = 5 };

struct amx_stream {
    uint32_t state[16];
};

/* The nonce is the use (4 bytes) and the round (8 bytes), little end first. */
void amx_stream_open(struct amx_stream *stream, const uint8_t seed[AMX_SEED_BYTES], uint32_t use, uint64_t round);
void amx_stream_block(const struct amx_stream *stream, uint32_t block, uint8_t out[AMX_BLOCK_BYTES]);

#endif
