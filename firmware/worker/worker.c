#include "worker.h"

#include "bytes.h"

static void digest_of(const uint8_t *bytes, size_t count, uint8_t digest[AMX_DIGEST_BYTES]) {
    struct amx_sha256 hash;
    amx_sha256_start(&hash);
    amx_sha256_add(&hash, bytes, count);
    amx_sha256_end(&hash, digest);
}

enum amx_status amx_start(struct amx_worker *worker, const uint8_t *contract, size_t bytes,
                          const struct amx_port *port) {
    worker->ledger = (struct amx_ledger){0};
    worker->port = port;
    worker->has_row = false;
    return amx_contract_read(&worker->contract, contract, bytes);
}

enum amx_status amx_replay(struct amx_worker *worker, const uint8_t record[AMX_RECORD_BYTES]) {
    return amx_ledger_replay(&worker->ledger, &worker->contract, record);
}

/* The body of an order: the kind of frame, and the power in dBm (float64) to send it with. */
static bool is_agreed(const struct amx_contract *c, const uint8_t *body, uint32_t bytes) {
    return bytes == 9 && body[0] == c->kind && amx_double_of(amx_big(body + 1, 8)) <= c->power_dbm; /* NaN is not */
}

enum amx_status amx_take_order(struct amx_worker *worker, const uint8_t *message, size_t bytes) {
    const struct amx_contract *c = &worker->contract;
    const struct amx_port *port = worker->port;
    struct amx_header header;
    uint8_t digest[AMX_DIGEST_BYTES];
    enum amx_status status = amx_read_header(&header, message, bytes);
    if (status != AMX_OK)
        return status;
    if (header.type != AMX_ORDER || header.sender != AMX_SERVER || !amx_equal(header.run, c->run, AMX_RUN_BYTES))
        return AMX_OTHER_RUN;
    size_t statement = bytes - AMX_SIGNATURE_BYTES;
    if (!port->verify(port->context, message, statement, message + statement, c->server_key))
        return AMX_NOT_SIGNED;
    if (!is_agreed(c, message + AMX_HEADER_BYTES, header.body_bytes))
        return AMX_OTHER_ORDER;
    /* Without the signature: of a statement there may be several that verify. */
    digest_of(message, statement, digest);
    struct amx_ledger *ledger = &worker->ledger;
    if (ledger->awake && header.round == ledger->round && header.attempt == ledger->attempt)
        return amx_equal(digest, worker->order, AMX_DIGEST_BYTES) ? AMX_AGAIN : AMX_OTHER_ORDER;
    status = amx_ledger_begin(ledger, c, header.round, header.attempt, port->persist, port->context);
    if (status == AMX_OK)
        amx_copy(worker->order, digest, AMX_DIGEST_BYTES);
    return status;
}

enum amx_status amx_take_row(struct amx_worker *worker, const float *inputs, const float *labels) {
    enum amx_status status = amx_encode(&worker->contract, inputs, labels, &worker->row);
    worker->has_row = status == AMX_OK;
    return status;
}

/* All that decides the bytes of a frame: a repeat of a round must have the same. */
static void digest_of_frame(const struct amx_worker *worker, const struct amx_seeds *seeds, uint8_t *digest) {
    const struct amx_contract *c = &worker->contract;
    struct amx_sha256 hash;
    uint8_t other[8];
    amx_sha256_start(&hash);
    amx_sha256_add(&hash, (const uint8_t *)worker->row.features, c->features * sizeof(float));
    amx_sha256_add(&hash, (const uint8_t *)worker->row.labels, c->outputs * sizeof(float));
    amx_sha256_add(&hash, seeds->noise, AMX_SEED_BYTES);
    amx_sha256_add(&hash, seeds->own, AMX_SEED_BYTES);
    for (uint32_t i = 0; i < seeds->edge_count; i++) {
        amx_put_big(other, seeds->edges[i].other, 8);
        amx_sha256_add(&hash, other, 8);
        amx_sha256_add(&hash, seeds->edges[i].seed, AMX_SEED_BYTES);
    }
    amx_sha256_end(&hash, digest);
}

/* A message on its way out, in one of the two passes that its signature takes. */
struct outgoing {
    const struct amx_port *port;
    enum amx_pass pass;
};

static bool put(void *context, const uint8_t *bytes, size_t count) {
    const struct outgoing *out = context;
    const struct amx_port *port = out->port;
    return port->sign(port->context, out->pass, bytes, count) &&
           (out->pass == AMX_FIRST_PASS || port->emit(port->context, bytes, count));
}

/* Sends a frame, or where there are words, those. */
static enum amx_status send(const struct amx_worker *worker, const struct amx_header *header,
                            const struct amx_seeds *seeds, const char *words) {
    const struct amx_port *port = worker->port;
    uint8_t packed[AMX_HEADER_BYTES], signature[AMX_SIGNATURE_BYTES];
    amx_write_header(header, packed);
    for (enum amx_pass pass = AMX_FIRST_PASS; pass <= AMX_SECOND_PASS; pass++) {
        struct outgoing out = {port, pass};
        if (!port->sign(port->context, pass, AMX_PREFIX, AMX_PREFIX_BYTES) || !put(&out, packed, AMX_HEADER_BYTES))
            return AMX_NOT_SENT;
        if (words ? !put(&out, (const uint8_t *)words, header->body_bytes)
                  : !amx_form_frame(&worker->contract, &worker->row, seeds, header->round, put, &out))
            return AMX_NOT_SENT;
    }
    if (!port->signature(port->context, signature) || !port->emit(port->context, signature, AMX_SIGNATURE_BYTES))
        return AMX_NOT_SENT;
    return AMX_OK;
}

enum amx_status amx_send_frame(struct amx_worker *worker, const struct amx_seeds *seeds) {
    const struct amx_contract *c = &worker->contract;
    const struct amx_port *port = worker->port;
    struct amx_ledger *ledger = &worker->ledger;
    uint8_t digest[AMX_DIGEST_BYTES];
    if (!ledger->awake || !worker->has_row)
        return ledger->closed != AMX_OK ? ledger->closed : AMX_NOT_BEGUN;
    if (seeds->edge_count < c->fewest_masks)
        return AMX_FEW_MASKS;
    digest_of_frame(worker, seeds, digest);
    bool again = ledger->paid;
    if (again && !amx_equal(digest, worker->sent, AMX_DIGEST_BYTES))
        return AMX_OTHER_FRAME;
    if (!again) {
        enum amx_status status = amx_ledger_reserve(ledger, c, port->persist, port->context);
        if (status != AMX_OK)
            return status;
        amx_copy(worker->sent, digest, AMX_DIGEST_BYTES);
    }
    struct amx_header header = {AMX_FRAME, ledger->attempt, c->identity, c->run, ledger->round,
                                c->numbers * amx_word_bytes(c->bits)};
    enum amx_status status = send(worker, &header, seeds, NULL);
    return status == AMX_OK && again ? AMX_AGAIN : status;
}

enum amx_status amx_send_refusal(const struct amx_worker *worker, const struct amx_header *order, enum amx_status why) {
    const char *words = amx_words(why);
    struct amx_header header = {AMX_REFUSAL, order->attempt, worker->contract.identity, worker->contract.run,
                                order->round, 0};
    while (words[header.body_bytes])
        header.body_bytes++;
    return send(worker, &header, NULL, words);
}
