/* Integers in byte strings, whatever the processor's own order: messages have the big end first, streams the little. */
#ifndef AMX_BYTES_H
#define AMX_BYTES_H

#include <stddef.h>
#include <stdint.h>

static inline uint64_t amx_little(const uint8_t *from, unsigned bytes) {
    uint64_t value = 0;
    for (unsigned i = bytes; i-- > 0;)
        value = value << 8 | from[i];
    return value;
}

static inline void amx_put_little(uint8_t *to, uint64_t value, unsigned bytes) {
    for (unsigned i = 0; i < bytes; i++, value >>= 8)
        to[i] = (uint8_t)value;
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
