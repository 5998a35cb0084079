/* Mutated contracts, orders and records under sanitizers: `fuzz COUNT [SEED]`, or as an entry of libFuzzer.

   A contract gets its digest after the mutation, and every signature is taken for
   good: so what lies behind those checks is met as well. */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "bytes.h"
#include "worker.h"

enum { CONTRACT, ORDER, RECORDS, TARGETS };
enum { INPUTS = 3, OUTPUTS = 2, THRESHOLDS = 4, MOST = 1024 };
enum { CONTRACT_BYTES = 192 + 20 * INPUTS + 16 * THRESHOLDS + 32 };

static uint8_t records[64][AMX_RECORD_BYTES];
static size_t record_count;
static volatile uint8_t seen; /* what a port is handed must be there to be read */

static bool persist(void *context, const uint8_t record[AMX_RECORD_BYTES]) {
    (void)context;
    amx_copy(records[record_count++ % 64], record, AMX_RECORD_BYTES);
    return true;
}
static bool verify(void *context, const uint8_t *bytes, size_t count, const uint8_t signature[AMX_SIGNATURE_BYTES],
                   const uint8_t key[32]) {
    (void)context;
    for (size_t i = 0; i < count; i++)
        seen ^= bytes[i];
    for (size_t i = 0; i < 32; i++)
        seen ^= signature[i] ^ signature[32 + i] ^ key[i];
    return true;
}
static bool sign(void *context, enum amx_pass pass, const uint8_t *bytes, size_t count) {
    (void)context, (void)pass, (void)bytes, (void)count;
    return true;
}
static bool signature(void *context, uint8_t out[AMX_SIGNATURE_BYTES]) {
    (void)context;
    memset(out, 0, AMX_SIGNATURE_BYTES);
    return true;
}
static bool emit(void *context, const uint8_t *bytes, size_t count) {
    (void)context, (void)bytes, (void)count;
    return true;
}
static const struct amx_port PORT = {NULL, persist, verify, sign, signature, emit};

static void put_number(uint8_t *to, uint64_t value, unsigned bytes) {
    for (unsigned i = 0; i < bytes; i++, value >>= 8)
        to[i] = (uint8_t)value;
}

static void put_double(uint8_t *to, double value) {
    uint64_t bits;
    memcpy(&bits, &value, 8);
    put_number(to, bits, 8);
}

static void put_float(uint8_t *to, float value) {
    uint32_t bits;
    memcpy(&bits, &value, 4);
    put_number(to, bits, 4);
}

static void put_digest(uint8_t *blob, size_t bytes) {
    struct amx_sha256 hash;
    amx_sha256_start(&hash);
    amx_sha256_add(&hash, blob, bytes - 32);
    amx_sha256_end(&hash, blob + bytes - 32);
}

static size_t good_contract(uint8_t blob[CONTRACT_BYTES]) {
    memset(blob, 0, CONTRACT_BYTES);
    memcpy(blob, "AMXC\1\0\x0b\x14", 8); /* version 1; unit norm, mean, bounds; 20 bits */
    put_number(blob + 80, 1000, 8);
    put_number(blob + 88, 10, 8);
    put_number(blob + 100, 1000, 4);
    put_number(blob + 104, INPUTS, 4);
    put_number(blob + 108, OUTPUTS, 4);
    put_number(blob + 112, THRESHOLDS, 4);
    put_float(blob + 116, 0.5f);
    put_float(blob + 120, 1.0f);
    put_double(blob + 128, 0.99);
    put_double(blob + 136, 0.001);
    put_double(blob + 144, 1.2);
    put_number(blob + 152, (uint64_t)-2, 8);
    put_number(blob + 160, 100, 4);
    put_double(blob + 172, 20.0);
    for (unsigned i = 0; i < INPUTS; i++)
        put_double(blob + 192 + 8 * (INPUTS + i), 1.0);
    for (unsigned i = 0; i < THRESHOLDS; i++)
        put_number(blob + 192 + 20 * INPUTS + 8 * i, (uint64_t)(i + 1) << 61, 8);
    put_digest(blob, CONTRACT_BYTES);
    return CONTRACT_BYTES;
}

static void first_record(const struct amx_contract *c, uint8_t record[AMX_RECORD_BYTES]) {
    uint8_t hashed[32 + 8 + 16 + 16 + 32] = {0}; /* run, identity, link before, data; digest */
    amx_copy(hashed, c->run, 32);
    amx_put_big(hashed + 32, c->identity, 8);
    hashed[56] = 3;
    put_digest(hashed, sizeof hashed);
    amx_copy(record, hashed + 56, AMX_RECORD_BYTES);
}

static size_t good_order(uint8_t *message) {
    static const uint8_t RUN[32] = {0};
    struct amx_header header = {AMX_ORDER, 0, AMX_SERVER, RUN, 1, 9};
    amx_write_header(&header, message);
    memset(message + AMX_HEADER_BYTES, 0, 9 + AMX_SIGNATURE_BYTES);
    return AMX_HEADER_BYTES + 9 + AMX_SIGNATURE_BYTES;
}

static enum amx_status one_round(struct amx_worker *worker, const uint8_t *order, size_t bytes) {
    static const float INPUT[AMX_MOST_FEATURES] = {0.25f, 2.0f, -1.0f}, LABELS[AMX_MOST_OUTPUTS] = {1.0f};
    static const uint8_t SEED[32] = {1};
    static const struct amx_edge EDGES[2] = {{7, {2}}, {0, {3}}};
    const struct amx_seeds seeds = {SEED, SEED, EDGES, 2};
    enum amx_status status = amx_take_order(worker, order, bytes);
    if (status != AMX_OK)
        return status;
    status = amx_take_row(worker, INPUT, LABELS);
    return status == AMX_OK ? amx_send_frame(worker, &seeds) : status;
}

static enum amx_status tried(unsigned target, const uint8_t *data, size_t size) {
    static struct amx_worker worker;
    uint8_t blob[CONTRACT_BYTES], order[256], first[AMX_RECORD_BYTES];
    uint8_t *copy = malloc(size ? size : 1); /* a byte too far is seen */
    size_t blob_bytes = good_contract(blob), order_bytes = good_order(order);
    if (size > 0)
        memcpy(copy, data, size);
    enum amx_status status = amx_start(&worker, blob, blob_bytes, &PORT);
    first_record(&worker.contract, first);
    if (target == CONTRACT) {
        if (size >= 32)
            put_digest(copy, size);
        status = amx_start(&worker, copy, size, &PORT);
        if (status == AMX_OK) {
            amx_copy(order + 16, worker.contract.run, 32);
            order[AMX_HEADER_BYTES] = (uint8_t)worker.contract.kind;
            first_record(&worker.contract, first);
            amx_replay(&worker, first);
            status = one_round(&worker, order, order_bytes);
        }
    } else if (target == ORDER) {
        amx_replay(&worker, first);
        status = one_round(&worker, copy, size);
    } else {
        for (size_t at = 0; at + AMX_RECORD_BYTES <= size; at += AMX_RECORD_BYTES)
            status = amx_replay(&worker, copy + at);
        enum amx_status then = one_round(&worker, order, order_bytes);
        bool is_provisioned = size >= AMX_RECORD_BYTES && amx_equal(copy, first, AMX_RECORD_BYTES);
        if ((status == AMX_BAD_LEDGER || !is_provisioned) && then == AMX_OK)
            abort(); /* a ledger that is damaged, or lost, sends nothing */
        status = then;
    }
    free(copy);
    return status;
}

static size_t good_records(uint8_t *data) { /* of a round that was sent */
    static const uint8_t RUN[32] = {0};
    const struct amx_contract contract = {.run = RUN};
    uint8_t order[256];
    record_count = 0;
    tried(ORDER, order, good_order(order));
    first_record(&contract, data);
    memcpy(data + AMX_RECORD_BYTES, records, record_count * AMX_RECORD_BYTES);
    return (1 + record_count) * AMX_RECORD_BYTES;
}

static size_t good_input(unsigned target, uint8_t *data) {
    return target == CONTRACT ? good_contract(data) : target == ORDER ? good_order(data) : good_records(data);
}

/* An input says how a good message is changed: target, change of its length, and bits that are turned over. So no
   corpus is needed, and zeros are a good message. */
int LLVMFuzzerTestOneInput(const uint8_t *input, size_t size);
int LLVMFuzzerTestOneInput(const uint8_t *input, size_t size) {
    uint8_t data[MOST + 256] = {0};
    if (size < 2 || size > MOST)
        return 0;
    unsigned target = input[0] % TARGETS;
    size_t bytes = good_input(target, data);
    bytes = input[1] < 128 ? bytes + input[1] : bytes - (bytes < 256u - input[1] ? bytes : 256u - input[1]);
    for (size_t i = 2; i < size; i++)
        data[i - 2] ^= input[i];
    tried(target, data, bytes);
    return 0;
}

#ifndef WITH_LIBFUZZER
static uint64_t state;
static unsigned long counts[TARGETS][AMX_FEW_MASKS + 1];

static uint32_t drawn(uint32_t below) {
    state ^= state << 13, state ^= state >> 7, state ^= state << 17;
    return (uint32_t)(state >> 32) % below;
}

static size_t mutated(uint8_t *data, size_t size) {
    for (uint32_t times = drawn(4); times > 0 && size > 0; times--) {
        uint32_t place = drawn(drawn(2) ? (uint32_t)size : size < 200 ? (uint32_t)size : 200);
        switch (drawn(6)) {
        case 0:
            data[place] ^= (uint8_t)(1u << drawn(8));
            break;
        case 1:
            data[place] = (uint8_t)(drawn(2) ? 0xff : drawn(256));
            break;
        case 2:
            size = place; /* cut off */
            break;
        case 3:
            for (uint32_t more = drawn(40); more > 0 && size < MOST; more--)
                data[size++] = (uint8_t)drawn(256);
            break;
        case 4: /* a number of 4 or 8 bytes that is far too large, or not a number */
            for (uint32_t i = 0; i < (drawn(2) ? 4u : 8u) && place + i < size; i++)
                data[place + i] = drawn(8) ? 0xff : 0x7f;
            break;
        default: /* two pieces change places */
            for (uint32_t i = 0, other = drawn((uint32_t)size); i < 32 && place + i < size && other + i < size; i++) {
                uint8_t byte = data[place + i];
                data[place + i] = data[other + i], data[other + i] = byte;
            }
        }
    }
    return size;
}

int main(int argc, char **argv) {
    unsigned long inputs = argc > 1 ? strtoul(argv[1], NULL, 10) : 100000;
    state = (argc > 2 ? strtoull(argv[2], NULL, 10) : 1) * 0x9e3779b97f4a7c15u | 1;
    uint8_t data[MOST + 64];
    for (unsigned long i = 0; i < inputs; i++) {
        unsigned target = (unsigned)(i % TARGETS);
        size_t size = good_input(target, data);
        enum amx_status status = tried(target, data, mutated(data, size));
        counts[target][status]++;
    }
    static const char *const NAMES[TARGETS] = {"contract", "order", "records"};
    for (unsigned target = 0; target < TARGETS; target++)
        for (unsigned status = 0; status <= AMX_FEW_MASKS; status++)
            if (counts[target][status])
                printf("%s %u %lu %s\n", NAMES[target], status, counts[target][status], amx_words(status));
    return 0;
}
#endif
