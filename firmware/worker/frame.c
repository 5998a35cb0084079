#include "frame.h"

#include "bytes.h"
#include "noise.h"
#include "symbols.h"

enum { PIECE = 64 }; /* numbers formed at once: a whole number of blocks of every key stream */

struct piece {
    uint64_t sums[PIECE]; /* modulo 2^64, so modulo 2^bits too */
    uint32_t first, count;
};

unsigned amx_word_bytes(uint32_t bits) { return bits <= 8 ? 1 : bits <= 16 ? 2 : bits <= 32 ? 4 : 8; }

/* The next word of a stream that is read in order: word i of a piece lies in block (first + i) * width / 64. */
static uint64_t word(const struct amx_stream *stream, uint8_t block[AMX_BLOCK_BYTES], uint32_t place, unsigned width) {
    uint32_t in_block = place % (AMX_BLOCK_BYTES / width);
    if (in_block == 0)
        amx_stream_block(stream, place / (AMX_BLOCK_BYTES / width), block);
    return amx_little(block + in_block * width, width);
}

static void add_mask(struct piece *piece, const uint8_t *seed, uint64_t round, unsigned width, bool subtracted) {
    struct amx_stream stream;
    uint8_t block[AMX_BLOCK_BYTES];
    amx_stream_open(&stream, seed, AMX_MASKS, round);
    for (uint32_t i = 0; i < piece->count; i++) {
        uint64_t mask = word(&stream, block, piece->first + i, width);
        piece->sums[i] += subtracted ? 0 - mask : mask;
    }
}

bool amx_form_frame(const struct amx_contract *c, const struct amx_row *row, const struct amx_seeds *seeds,
                    uint64_t round, amx_sink *sink, void *context) {
    struct amx_symbols symbols = {c, row, 0, 0};
    struct amx_stream rounding, noise, ties;
    struct piece piece;
    uint8_t rounding_block[AMX_BLOCK_BYTES], noise_block[AMX_BLOCK_BYTES], packed[8 * PIECE];
    unsigned width = amx_word_bytes(c->bits);
    amx_stream_open(&rounding, seeds->noise, AMX_ROUNDING, round);
    amx_stream_open(&noise, seeds->noise, AMX_NOISE, round);
    amx_stream_open(&ties, seeds->noise, AMX_TIES, round);
    for (piece.first = 0; piece.first < c->numbers; piece.first += piece.count) {
        uint32_t left = c->numbers - piece.first;
        piece.count = left < PIECE ? left : PIECE;
        for (uint32_t i = 0; i < piece.count; i++) {
            uint32_t place = piece.first + i;
            uint32_t random = (uint32_t)word(&rounding, rounding_block, place, 4);
            int64_t rounded = amx_rounded(amx_next_symbol(&symbols), c->step, random);
            int64_t drawn = amx_noise(c, word(&noise, noise_block, place, 8), &ties, place);
            piece.sums[i] = (uint64_t)rounded + (uint64_t)drawn;
        }
        add_mask(&piece, seeds->own, round, width, false);
        for (uint32_t i = 0; i < seeds->edge_count; i++) /* the end with the smaller number adds, the other subtracts */
            add_mask(&piece, seeds->edges[i].seed, round, width, seeds->edges[i].other < c->identity);
        for (uint32_t i = 0; i < piece.count; i++)
            amx_put_little(packed + i * width, piece.sums[i] & ((1ULL << c->bits) - 1), width);
        if (!sink(context, packed, (size_t)piece.count * width))
            return false;
    }
    return true;
}
