#include "encode.h"

static const double ROUNDING = 1e-6; /* more than float32 adds to the square of a norm, in three roundings a number */
static const double LARGEST = 1e30;  /* of inputs without bounds */

static bool is_finite(float value) { return value - value == 0.0f; }

double amx_square_root(double value) {
    union {
        double value;
        uint64_t bits;
    } word = {value};
    int exponent = (int)(word.bits >> 52) - 1023;
    if (value <= 0.0)
        return 0.0;
    if (exponent == -1023) /* a subnormal number, brought into range by powers of four */
        return amx_square_root(value * 0x1p108) * 0x1p-54;
    uint64_t rest = (word.bits & ((1ULL << 52) - 1)) | 1ULL << 52, root = 0;
    if (exponent & 1)
        rest <<= 1, exponent -= 1;
    /* One bit of the root after the other, 54 of them: the last one rounds. */
    uint64_t trial = 0;
    for (uint64_t bit = 1ULL << 53; bit; bit >>= 1) {
        rest <<= 1;
        uint64_t next = trial + bit;
        if (next <= rest)
            trial = next + bit, rest -= next, root += bit;
    }
    root = (root >> 1) + (root & 1);
    word.bits = ((uint64_t)(exponent / 2 + 1023) << 52) + (root - (1ULL << 52));
    return word.value;
}

static double squared_length(const float *numbers, uint32_t count) {
    double sum = 0.0;
    for (uint32_t i = 0; i < count; i++)
        sum += (double)numbers[i] * (double)numbers[i];
    return sum;
}

static double clipped(double value, double lower, double upper) {
    return value < lower ? lower : value > upper ? upper : value;
}

static float scaled(float input, double lower, double upper) {
    return (float)((clipped((double)input, lower, upper) - lower) / (upper - lower));
}

static void bound_norm(const struct amx_contract *c, float *features) {
    double length = amx_square_root(squared_length(features, c->inputs));
    if (length == 0.0 || (!c->unit_norm && length <= c->row_norm))
        return;
    double factor = c->row_norm / length;
    for (uint32_t i = 0; i < c->inputs; i++)
        features[i] = (float)((double)features[i] * factor);
}

/* Products have the norm ||x|| sqrt(||x||^2 + w^2 ||l||^2). The encoder keeps to the bound; this trusts no encoder. */
static bool is_within_norm(const struct amx_contract *c, const struct amx_row *row) {
    double x = squared_length(row->features, c->features), l = squared_length(row->labels, c->outputs);
    double weight = (double)c->label_weight;
    return l <= 1.0 + ROUNDING && x * (x + weight * weight * l) <= c->norm * c->norm * (1.0 - ROUNDING);
}

enum amx_status amx_encode(const struct amx_contract *c, const float *inputs, const float *labels,
                           struct amx_row *row) {
    for (uint32_t i = 0; i < c->inputs; i++) {
        if (!is_finite(inputs[i]))
            return AMX_BAD_ROW;
        row->features[i] = c->lower ? scaled(inputs[i], amx_double(c->lower + 8 * i), amx_double(c->upper + 8 * i))
                                    : (float)clipped((double)inputs[i], -LARGEST, LARGEST);
        if (c->mean)
            row->features[i] -= amx_float(c->mean + 4 * i);
    }
    bound_norm(c, row->features);
    if (c->features > c->inputs) {
        for (uint32_t i = 0; i < c->inputs; i++)
            row->features[i] *= c->share;
        row->features[c->inputs] = c->constant;
    }
    for (uint32_t i = 0; i < c->outputs; i++) {
        if (!is_finite(labels[i]))
            return AMX_BAD_ROW;
        row->labels[i] = labels[i];
    }
    return is_within_norm(c, row) ? AMX_OK : AMX_BAD_ROW;
}

enum amx_status amx_code_class(const struct amx_contract *c, uint32_t number, float labels[AMX_MOST_OUTPUTS]) {
    if (number >= c->outputs)
        return AMX_BAD_ROW;
    for (uint32_t i = 0; i < c->outputs; i++)
        labels[i] = i == number ? c->own_class : c->other_class;
    return AMX_OK;
}
