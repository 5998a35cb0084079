#include "frame.h"

#include "bytes.h"
#include "noise.h"
#include "symbols.h"

enum { PIECE = 64 }; /* numbers formed at once: a whole number of blocks of every key stream */

unsigned amx_word_bytes(uint32_t bits) { return bits <= 8 ? 1 : bits <= 16 ? 2 : bits <= 32 ? 4 : 8; }

static uint64_t word_at(const uint8_t *from, unsigned width) {
    if (width == 8)
        return amx_little8(from);
    if (width == 4)
        return amx_little4(from);
    return width == 2 ? (uint64_t)from[0] | (uint64_t)from[1] << 8 : (uint64_t)from[0];
}

/* The words of a key stream from a place on that is a multiple of PIECE. */
static void fill(uint64_t words[PIECE], const uint8_t *seed, enum amx_use use, uint64_t round, uint32_t first,
                 uint32_t count, unsigned width) {
    struct amx_stream stream;
    uint8_t block[AMX_BLOCK_BYTES];
    uint32_t in_block = AMX_BLOCK_BYTES / width;
    amx_stream_open(&stream, seed, use, round);
    for (uint32_t i = 0; i < count; i += in_block) {
        amx_stream_block(&stream, (first + i) / in_block, block);
        for (uint32_t j = 0; j < in_block && i + j < count; j++)
            words[i + j] = word_at(block + j * width, width);
    }
}

bool amx_form_frame(const struct amx_contract *c, const struct amx_row *row, const struct amx_seeds *seeds,
                    uint64_t round, amx_sink *sink, void *context) {
    struct amx_symbols symbols = {c, row, 0, 0};
    struct amx_stream ties;
    uint64_t sums[PIECE], words[PIECE]; /* modulo 2^64, so modulo 2^bits too */
    uint8_t *packed = (uint8_t *)words; /* when all are added */
    unsigned width = amx_word_bytes(c->bits);
    amx_stream_open(&ties, seeds->noise, AMX_TIES, round);
    for (uint32_t first = 0, count; first < c->numbers; first += count) {
        count = c->numbers - first < PIECE ? c->numbers - first : PIECE;
        fill(words, seeds->noise, AMX_ROUNDING, round, first, count, 4);
        for (uint32_t i = 0; i < count; i++)
            sums[i] = (uint64_t)amx_rounded(amx_next_symbol(&symbols), c->step, (uint32_t)words[i]);
        fill(words, seeds->noise, AMX_NOISE, round, first, count, 8);
        for (uint32_t i = 0; i < count; i++)
            sums[i] += (uint64_t)amx_noise(c, words[i], &ties, first + i);
        fill(words, seeds->own, AMX_MASKS, round, first, count, width);
        for (uint32_t i = 0; i < count; i++)
            sums[i] += words[i];
        for (uint32_t edge = 0; edge < seeds->edge_count; edge++) {
            /* The end with the smaller number adds the mask, the other one subtracts it. */
            bool subtracted = seeds->edges[edge].other < c->identity;
            fill(words, seeds->edges[edge].seed, AMX_MASKS, round, first, count, width);
            for (uint32_t i = 0; i < count; i++)
                sums[i] += subtracted ? 0 - words[i] : words[i];
        }
        for (uint32_t i = 0; i < count; i++) {
            uint64_t residue = sums[i] & ((1ULL << c->bits) - 1);
            for (unsigned byte = 0; byte < width; byte++, residue >>= 8)
                packed[i * width + byte] = (uint8_t)residue;
        }
        if (!sink(context, packed, (size_t)count * width))
            return false;
    }
    return true;
}
