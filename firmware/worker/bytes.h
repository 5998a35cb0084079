/* Integers in byte strings, whatever the processor's own order: messages have the big end first, streams the little. */
#ifndef AMX_BYTES_H
#define AMX_BYTES_H

#include <stddef.h>
#include <stdint.h>

static inline uint32_t amx_little4(const uint8_t *from) { /* spelt out: compilers make one load of it */
    return (uint32_t)from[0] | (uint32_t)from[1] << 8 | (uint32_t)from[2] << 16 | (uint32_t)from[3] << 24;
}

static inline uint64_t amx_little8(const uint8_t *from) {
    return amx_little4(from) | (uint64_t)amx_little4(from + 4) << 32;
}

static inline void amx_put_little4(uint8_t *to, uint32_t value) {
    to[0] = (uint8_t)value, to[1] = (uint8_t)(value >> 8);
    to[2] = (uint8_t)(value >> 16), to[3] = (uint8_t)(value >> 24);
}

static inline uint64_t amx_big(const uint8_t *from, unsigned bytes) {
    uint64_t value = 0;
    for (unsigned i = 0; i < bytes; i++)
        value = value << 8 | from[i];
    return value;
}

static inline void amx_put_big(uint8_t *to, uint64_t value, unsigned bytes) {
    for (unsigned i = bytes; i-- > 0; value >>= 8)
        to[i] = (uint8_t)value;
}

/* The same time whatever the bytes are. */
static inline int amx_equal(const uint8_t *one, const uint8_t *other, size_t count) {
    uint8_t differs = 0;
    for (size_t i = 0; i < count; i++)
        differs |= (uint8_t)(one[i] ^ other[i]);
    return differs == 0;
}

static inline void amx_copy(uint8_t *to, const uint8_t *from, size_t count) {
    for (size_t i = 0; i < count; i++)
        to[i] = from[i];
}

#endif
