#include "contract.h"

#include <float.h>

#include "bytes.h"
#include "sha256.h"

/* The frame must have the bits of the reference: every float operation is rounded to its own type. */
_Static_assert(FLT_EVAL_METHOD == 0, "floats must not be kept in a wider format");
_Static_assert(sizeof(float) == 4 && sizeof(double) == 8, "floats must be those of IEEE 754");

enum { VERSION = 1, HEADER_BYTES = 192 };
enum { UNIT_NORM = 1, HAS_MEAN = 2, HAS_CONSTANT = 4, HAS_BOUNDS = 8 };
static const double FINEST = 536870912.0; /* 2^29: more steps would not fit the grid of the rounding */
static const double LARGEST = 1e15;       /* norm: its square is far from the end of float32 */
static const int64_t FARTHEST = 1 << 24;  /* noise, in steps */

double amx_double_of(uint64_t bits) {
    union {
        uint64_t bits;
        double value;
    } word = {bits};
    return word.value;
}

double amx_double(const uint8_t *from) { return amx_double_of(amx_little8(from)); }

float amx_float(const uint8_t *from) {
    union {
        uint32_t bits;
        float value;
    } word = {amx_little4(from)};
    return word.value;
}

static bool is_whole(const uint8_t *blob, size_t bytes) {
    struct amx_sha256 hash;
    uint8_t digest[AMX_DIGEST_BYTES];
    amx_sha256_start(&hash);
    amx_sha256_add(&hash, blob, bytes - AMX_DIGEST_BYTES);
    amx_sha256_end(&hash, digest);
    return amx_equal(digest, blob + bytes - AMX_DIGEST_BYTES, AMX_DIGEST_BYTES);
}

static bool is_usable(const struct amx_contract *c) {
    if (c->inputs == 0 || c->features > AMX_MOST_FEATURES || c->outputs == 0 || c->outputs > AMX_MOST_OUTPUTS)
        return false;
    if (c->bits < 2 || c->bits > 62 || c->thresholds == 0 || c->smallest < -FARTHEST || c->smallest > FARTHEST)
        return false;
    /* Written so that NaN fails. */
    if (!(c->row_norm > 0.0 && c->row_norm < LARGEST && c->label_weight >= 0.0f && (double)c->label_weight < LARGEST))
        return false;
    if (!(c->share > 0.0f && c->share <= 1.0f && c->constant >= 0.0f && (double)c->constant < LARGEST))
        return false;
    if (!(c->step > 0.0 && c->norm > 0.0 && c->norm < LARGEST && c->norm / c->step <= FINEST))
        return false;
    for (uint32_t i = 0; c->lower && i < c->inputs; i++) {
        double lower = amx_double(c->lower + 8 * i), upper = amx_double(c->upper + 8 * i);
        if (!(lower < upper && upper - lower <= DBL_MAX))
            return false;
    }
    return true;
}

enum amx_status amx_contract_read(struct amx_contract *c, const uint8_t *blob, size_t bytes) {
    if (bytes < HEADER_BYTES + AMX_DIGEST_BYTES || amx_big(blob, 4) != 0x414d5843 /* "AMXC" */ ||
        blob[4] != VERSION || blob[5] != 0 || !is_whole(blob, bytes))
        return AMX_BAD_CONTRACT;
    unsigned flags = blob[6];
    c->bits = blob[7];
    c->run = blob + 8;
    c->server_key = blob + 40;
    c->identity = amx_little8(blob + 72);
    c->budget = amx_little8(blob + 80);
    c->cost = amx_little8(blob + 88);
    c->kind = amx_little4(blob + 96);
    c->most_rounds = amx_little4(blob + 100);
    c->inputs = amx_little4(blob + 104);
    c->outputs = amx_little4(blob + 108);
    c->thresholds = amx_little4(blob + 112);
    c->label_weight = amx_float(blob + 116);
    c->share = amx_float(blob + 120);
    c->constant = amx_float(blob + 124);
    c->row_norm = amx_double(blob + 128);
    c->step = amx_double(blob + 136);
    c->norm = amx_double(blob + 144);
    c->smallest = (int64_t)amx_little8(blob + 152);
    c->releases = amx_little4(blob + 160);
    c->own_class = amx_float(blob + 164);
    c->other_class = amx_float(blob + 168);
    c->power_dbm = amx_double(blob + 172);
    c->fewest_masks = amx_little4(blob + 180);
    c->unit_norm = (flags & UNIT_NORM) != 0;
    /* Sizes are bounded before they are multiplied. */
    if (c->inputs > AMX_MOST_FEATURES || c->thresholds > 1u << 24)
        return AMX_BAD_CONTRACT;
    c->features = c->inputs + ((flags & HAS_CONSTANT) ? 1 : 0);
    size_t bounds = (flags & HAS_BOUNDS) ? 8 * (size_t)c->inputs : 0;
    size_t means = (flags & HAS_MEAN) ? 4 * (size_t)c->inputs : 0;
    if (bytes != HEADER_BYTES + 2 * bounds + means + 16 * (size_t)c->thresholds + AMX_DIGEST_BYTES)
        return AMX_BAD_CONTRACT;
    const uint8_t *vectors = blob + HEADER_BYTES;
    c->lower = bounds ? vectors : NULL;
    c->upper = bounds ? vectors + bounds : NULL;
    c->mean = means ? vectors + 2 * bounds : NULL;
    c->high = vectors + 2 * bounds + means;
    c->low = c->high + 8 * (size_t)c->thresholds;
    c->numbers = c->features * (c->features + 1) / 2 + c->features * c->outputs;
    return is_usable(c) ? AMX_OK : AMX_BAD_CONTRACT;
}
