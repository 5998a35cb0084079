#include "symbols.h"

_Static_assert((-1LL >> 1) == -1LL, "shifts of negative numbers must keep the sign");

static const float ROOT_OF_TWO = 0x1.6a09e6p+0f;

float amx_next_symbol(struct amx_symbols *s) {
    const struct amx_contract *c = s->contract;
    const struct amx_row *row = s->row;
    if (s->left < c->features) {
        float product = row->features[s->left] * row->features[s->right];
        if (s->left != s->right)
            product *= ROOT_OF_TWO;
        if (++s->right == c->features)
            s->right = ++s->left;
        return product;
    }
    float product = row->features[s->left - c->features] * row->labels[s->right - c->features];
    if (++s->right == c->features + c->outputs)
        s->left++, s->right = c->features;
    return c->label_weight * product;
}

int64_t amx_rounded(float symbol, double step, uint32_t random) {
    double in_steps = (double)symbol / step;
    /* Below 2^61: the contract bounds the norm to 2^29 steps, and the encoder keeps to the norm. */
    int64_t place = (int64_t)(in_steps * 4294967296.0);
    return (place + (int64_t)random) >> 32;
}
