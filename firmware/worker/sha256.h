/* SHA-256 (FIPS 180-4), of bytes as they come. */
#ifndef AMX_SHA256_H
#define AMX_SHA256_H

#include <stddef.h>
#include <stdint.h>

enum { AMX_DIGEST_BYTES = 32 };

struct amx_sha256 {
    uint32_t state[8];
    uint64_t bytes;
    uint8_t block[64];
};

void amx_sha256_start(struct amx_sha256 *hash);
void amx_sha256_add(struct amx_sha256 *hash, const uint8_t *bytes, size_t count);
void amx_sha256_end(struct amx_sha256 *hash, uint8_t digest[AMX_DIGEST_BYTES]);

#endif
