#include "sha256.h"

#include "bytes.h"

static const uint32_t CONSTANTS[64] = {
    0x428a2f98, 0x71374491, 0xb5c0fbcf, 0xe9b5dba5, 0x3956c25b, 0x59f111f1, 0x923f82a4, 0xab1c5ed5,
    0xd807aa98, 0x12835b01, 0x243185be, 0x550c7dc3, 0x72be5d74, 0x80deb1fe, 0x9bdc06a7, 0xc19bf174,
    0xe49b69c1, 0xefbe4786, 0x0fc19dc6, 0x240ca1cc, 0x2de92c6f, 0x4a7484aa, 0x5cb0a9dc, 0x76f988da,
    0x983e5152, 0xa831c66d, 0xb00327c8, 0xbf597fc7, 0xc6e00bf3, 0xd5a79147, 0x06ca6351, 0x14292967,
    0x27b70a85, 0x2e1b2138, 0x4d2c6dfc, 0x53380d13, 0x650a7354, 0x766a0abb, 0x81c2c92e, 0x92722c85,
    0xa2bfe8a1, 0xa81a664b, 0xc24b8b70, 0xc76c51a3, 0xd192e819, 0xd6990624, 0xf40e3585, 0x106aa070,
    0x19a4c116, 0x1e376c08, 0x2748774c, 0x34b0bcb5, 0x391c0cb3, 0x4ed8aa4a, 0x5b9cca4f, 0x682e6ff3,
    0x748f82ee, 0x78a5636f, 0x84c87814, 0x8cc70208, 0x90befffa, 0xa4506ceb, 0xbef9a3f7, 0xc67178f2,
};

static inline uint32_t turned(uint32_t word, unsigned by) { return word >> by | word << (32 - by); }

static void mix(uint32_t state[8], const uint8_t block[64]) {
    uint32_t w[16], s[8];
    for (unsigned i = 0; i < 16; i++)
        w[i] = (uint32_t)amx_big(block + 4 * i, 4);
    for (unsigned i = 0; i < 8; i++)
        s[i] = state[i];
    for (unsigned i = 0; i < 64; i++) {
        if (i >= 16) { /* a window of 16 words: 64 of them would be a quarter kilobyte of stack */
            uint32_t before = w[(i + 1) & 15], late = w[(i + 14) & 15];
            w[i & 15] += (turned(before, 7) ^ turned(before, 18) ^ before >> 3) + w[(i + 9) & 15] +
                         (turned(late, 17) ^ turned(late, 19) ^ late >> 10);
        }
        uint32_t first = s[7] + (turned(s[4], 6) ^ turned(s[4], 11) ^ turned(s[4], 25)) +
                         ((s[4] & s[5]) ^ (~s[4] & s[6])) + CONSTANTS[i] + w[i & 15];
        uint32_t second = (turned(s[0], 2) ^ turned(s[0], 13) ^ turned(s[0], 22)) +
                          ((s[0] & s[1]) ^ (s[0] & s[2]) ^ (s[1] & s[2]));
        for (unsigned j = 7; j > 0; j--)
            s[j] = s[j - 1];
        s[4] += first;
        s[0] = first + second;
    }
    for (unsigned i = 0; i < 8; i++)
        state[i] += s[i];
}

void amx_sha256_start(struct amx_sha256 *hash) {
    static const uint32_t START[8] = {0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a,
                                      0x510e527f, 0x9b05688c, 0x1f83d9ab, 0x5be0cd19};
    for (unsigned i = 0; i < 8; i++)
        hash->state[i] = START[i];
    hash->bytes = 0;
}

void amx_sha256_add(struct amx_sha256 *hash, const uint8_t *bytes, size_t count) {
    for (size_t i = 0; i < count; i++) {
        hash->block[hash->bytes++ % 64] = bytes[i];
        if (hash->bytes % 64 == 0)
            mix(hash->state, hash->block);
    }
}

void amx_sha256_end(struct amx_sha256 *hash, uint8_t digest[AMX_DIGEST_BYTES]) {
    uint8_t length[8];
    amx_put_big(length, hash->bytes * 8, 8);
    amx_sha256_add(hash, (const uint8_t[]){0x80}, 1);
    while (hash->bytes % 64 != 56)
        amx_sha256_add(hash, (const uint8_t[]){0}, 1);
    amx_sha256_add(hash, length, 8);
    for (unsigned i = 0; i < 8; i++)
        amx_put_big(digest + 4 * i, hash->state[i], 4);
}
