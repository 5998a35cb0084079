/* One round on the board: an order, a frame, both repeated, then a restart. A test puts the messages into memory and
   compares what is printed with the Python reference.

   The port is a stand-in. It "signs" by digests of the two passes and verifies an order against a digest: that shows
   which bytes are to be signed, and protects nothing. A product takes Ed25519 from a secure element or a library. */
#include "board.h"
#include "bytes.h"
#include "worker.h"

enum { MOST_RECORDS = 4, MOST_EDGES = 16 };

/* Sizes of contract and order, number of edges, one word free; the ledger's first record, contract, order, inputs,
   labels, seeds of noise and own mask, edges. All numbers have the little end first. */
static const uint8_t *const GIVEN = (const uint8_t *)0x21000000;

static struct amx_worker worker;
static struct amx_edge edges[MOST_EDGES];
static struct {
    struct amx_sha256 passes[2], sent;
    uint8_t records[MOST_RECORDS][AMX_RECORD_BYTES];
    uint32_t record_count;
} port_state;

static bool persist(void *context, const uint8_t record[AMX_RECORD_BYTES]) {
    (void)context;
    if (port_state.record_count == MOST_RECORDS)
        return false;
    amx_copy(port_state.records[port_state.record_count++], record, AMX_RECORD_BYTES);
    return true;
}

static bool verify(void *context, const uint8_t *bytes, size_t count, const uint8_t signature[AMX_SIGNATURE_BYTES],
                   const uint8_t key[32]) {
    struct amx_sha256 hash;
    uint8_t digest[AMX_DIGEST_BYTES];
    (void)context;
    amx_sha256_start(&hash);
    amx_sha256_add(&hash, key, 32);
    amx_sha256_add(&hash, AMX_PREFIX, AMX_PREFIX_BYTES);
    amx_sha256_add(&hash, bytes, count);
    amx_sha256_end(&hash, digest);
    return amx_equal(digest, signature, AMX_DIGEST_BYTES);
}

static bool sign(void *context, enum amx_pass pass, const uint8_t *bytes, size_t count) {
    (void)context;
    amx_sha256_add(&port_state.passes[pass - 1], bytes, count);
    return true;
}

static bool signature(void *context, uint8_t out[AMX_SIGNATURE_BYTES]) {
    (void)context;
    for (unsigned pass = 0; pass < 2; pass++)
        amx_sha256_end(&port_state.passes[pass], out + pass * AMX_DIGEST_BYTES);
    return true;
}

static bool emit(void *context, const uint8_t *bytes, size_t count) {
    (void)context;
    amx_sha256_add(&port_state.sent, bytes, count);
    return true;
}

static bool drop(void *context, const uint8_t *bytes, size_t count) {
    (void)context;
    (void)bytes;
    (void)count;
    return true;
}

static const struct amx_port PORT = {NULL, persist, verify, sign, signature, emit};

static void send_frame(const char *status_name, const char *digest_name, const struct amx_seeds *seeds) {
    uint8_t digest[AMX_DIGEST_BYTES];
    amx_sha256_start(&port_state.passes[0]);
    amx_sha256_start(&port_state.passes[1]);
    amx_sha256_start(&port_state.sent);
    board_print_number(status_name, (uint32_t)amx_send_frame(&worker, seeds));
    amx_sha256_end(&port_state.sent, digest);
    board_print_hex(digest_name, digest, sizeof digest);
}

static enum amx_status take_row(const uint8_t *from) {
    for (uint32_t i = 0; i < worker.contract.inputs; i++, from += 4)
        worker.row.features[i] = amx_float(from);
    for (uint32_t i = 0; i < worker.contract.outputs; i++, from += 4)
        worker.row.labels[i] = amx_float(from);
    return amx_take_row(&worker, worker.row.features, worker.row.labels);
}

static void start(const char *name, const uint8_t *contract, size_t bytes) {
    board_print_number(name, (uint32_t)amx_start(&worker, contract, bytes, &PORT));
    for (uint32_t i = 0; i < port_state.record_count; i++) {
        board_print_hex("record", port_state.records[i], AMX_RECORD_BYTES);
        board_print_number("replay", (uint32_t)amx_replay(&worker, port_state.records[i]));
    }
}

int main(void) {
    size_t contract_bytes = amx_little4(GIVEN), order_bytes = amx_little4(GIVEN + 4);
    uint32_t edge_count = amx_little4(GIVEN + 8);
    const uint8_t *first = GIVEN + 16, *contract = first + AMX_RECORD_BYTES;
    const uint8_t *order = contract + contract_bytes, *next = order + order_bytes;
    if (edge_count > MOST_EDGES)
        return 2;
    persist(NULL, first); /* as the owner does where the device is provisioned */
    start("start", contract, contract_bytes);
    const uint8_t *row = next;
    next += 4 * (worker.contract.inputs + worker.contract.outputs);
    struct amx_seeds seeds = {next, next + AMX_SEED_BYTES, edges, edge_count};
    next += 2 * AMX_SEED_BYTES;
    for (uint32_t i = 0; i < edge_count; i++, next += 8 + AMX_SEED_BYTES) {
        edges[i].other = amx_little8(next);
        amx_copy(edges[i].seed, next + 8, AMX_SEED_BYTES);
    }
    board_print_number("order", (uint32_t)amx_take_order(&worker, order, order_bytes));
    board_print_number("row", (uint32_t)take_row(row));
    board_print_hex("features", (const uint8_t *)worker.row.features, 4 * worker.contract.features);
    send_frame("frame", "frame_digest", &seeds);
    board_print_number("stack_bytes", board_stack_bytes());
    uint32_t before = board_ticks();
    amx_form_frame(&worker.contract, &worker.row, &seeds, worker.ledger.round, drop, NULL);
    board_print_number("ticks", board_ticks() - before);
    board_print_number("order_again", (uint32_t)amx_take_order(&worker, order, order_bytes));
    send_frame("frame_again", "frame_again_digest", &seeds);
    start("restart", contract, contract_bytes);
    board_print_number("order_after_restart", (uint32_t)amx_take_order(&worker, order, order_bytes));
    board_print_number("row_after_restart", (uint32_t)take_row(row));
    send_frame("frame_after_restart", "nothing_digest", &seeds);
    return 0;
}
