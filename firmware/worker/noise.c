#include "noise.h"

#include "bytes.h"

/* How many of the sorted words are at most the limit. The number of steps depends on the count alone. */
static uint32_t count_at_most(const uint8_t *words, uint32_t count, uint64_t limit) {
    uint32_t found = 0, half = 1;
    while (half <= count / 2)
        half *= 2;
    for (; half; half /= 2)
        if (found + half <= count && amx_little8(words + 8 * (found + half - 1)) <= limit)
            found += half;
    return found;
}

int64_t amx_noise(const struct amx_contract *c, uint64_t random, const struct amx_stream *ties, uint32_t place) {
    uint32_t found = count_at_most(c->high, c->thresholds, random);
    if (found > 0 && amx_little8(c->high + 8 * (found - 1)) == random) {
        uint8_t block[AMX_BLOCK_BYTES];
        uint32_t first = random ? count_at_most(c->high, c->thresholds, random - 1) : 0;
        amx_stream_block(ties, place / 8, block);
        found = first + count_at_most(c->low + 8 * first, found - first, amx_little8(block + 8 * (place % 8)));
    }
    return c->smallest + (int64_t)found;
}
