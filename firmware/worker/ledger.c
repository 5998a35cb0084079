#include "ledger.h"

#include "bytes.h"
#include "sha256.h"

/* A record: type, attempt, 2 zeros, round u32, cost u64, and its link: 16 bytes of a digest of run, worker, the link of
   the record before (zeros before the first) and these data. The first is made by firmware/provision.py. */
enum { BEGAN = 1, SPENT = 2, FIRST = 3, DATA_BYTES = AMX_RECORD_BYTES - AMX_LINK_BYTES, MOST_ATTEMPTS = 4 };

static void digest_of(const struct amx_ledger *ledger, const struct amx_contract *c, const uint8_t *data,
                      uint8_t digest[AMX_DIGEST_BYTES]) {
    struct amx_sha256 hash;
    uint8_t identity[8];
    amx_put_big(identity, c->identity, 8);
    amx_sha256_start(&hash);
    amx_sha256_add(&hash, c->run, 32);
    amx_sha256_add(&hash, identity, 8);
    amx_sha256_add(&hash, ledger->link, AMX_LINK_BYTES);
    amx_sha256_add(&hash, data, DATA_BYTES);
    amx_sha256_end(&hash, digest);
}

/* Where a record cannot be kept, what the storage holds is not known: nothing more is sent before a restart. */
static enum amx_status keep(struct amx_ledger *ledger, const struct amx_contract *c, uint8_t type, uint64_t cost,
                            amx_persist *persist, void *context) {
    uint8_t record[DATA_BYTES + AMX_DIGEST_BYTES] = {type, ledger->attempt};
    amx_put_big(record + 4, ledger->round, 4);
    amx_put_big(record + 8, cost, 8);
    digest_of(ledger, c, record, record + DATA_BYTES); /* of which a record holds the first half */
    amx_copy(ledger->link, record + DATA_BYTES, AMX_LINK_BYTES);
    if (!persist(context, record))
        ledger->closed = AMX_NOT_KEPT;
    ledger->awake = ledger->closed == AMX_OK;
    return ledger->closed;
}

static bool is_later(const struct amx_ledger *ledger, uint32_t round, uint8_t attempt) {
    if (!ledger->any || round > ledger->round)
        return true;
    return round == ledger->round && attempt > ledger->attempt && !ledger->paid;
}

static void note_began(struct amx_ledger *ledger, uint32_t round, uint8_t attempt) {
    ledger->any = true;
    ledger->round = round;
    ledger->attempt = attempt;
    ledger->paid = false;
}

static void note_spent(struct amx_ledger *ledger, uint64_t cost) {
    ledger->spent = cost > UINT64_MAX - ledger->spent ? UINT64_MAX : ledger->spent + cost;
    ledger->releases++;
    ledger->paid = true;
}

enum amx_status amx_ledger_replay(struct amx_ledger *ledger, const struct amx_contract *c,
                                  const uint8_t record[AMX_RECORD_BYTES]) {
    uint8_t digest[AMX_DIGEST_BYTES], type = record[0], attempt = record[1];
    uint32_t round = (uint32_t)amx_big(record + 4, 4);
    digest_of(ledger, c, record, digest);
    amx_copy(ledger->link, digest, AMX_LINK_BYTES);
    ledger->awake = false;
    if (!amx_equal(digest, record + DATA_BYTES, AMX_LINK_BYTES))
        ledger->closed = AMX_BAD_LEDGER;
    else if (type == FIRST && !ledger->provisioned)
        ledger->provisioned = true;
    else if (type == BEGAN && ledger->provisioned && is_later(ledger, round, attempt))
        note_began(ledger, round, attempt);
    else if (type == SPENT && ledger->any && !ledger->paid && round == ledger->round && attempt == ledger->attempt)
        note_spent(ledger, amx_big(record + 8, 8));
    else
        ledger->closed = AMX_BAD_LEDGER;
    return ledger->closed;
}

static bool is_covered(const struct amx_ledger *ledger, const struct amx_contract *c) {
    return ledger->releases < c->releases && c->cost <= c->budget && ledger->spent <= c->budget - c->cost;
}

enum amx_status amx_ledger_begin(struct amx_ledger *ledger, const struct amx_contract *c, uint32_t round,
                                 uint8_t attempt, amx_persist *persist, void *context) {
    if (ledger->closed != AMX_OK)
        return ledger->closed;
    if (!ledger->provisioned) /* storage that lost all is not that of a new device */
        return AMX_BAD_LEDGER;
    if (round >= c->most_rounds || attempt >= MOST_ATTEMPTS)
        return AMX_OTHER_ORDER;
    bool begun_before_restart = ledger->any && !ledger->awake && round == ledger->round;
    if (!is_later(ledger, round, attempt) || begun_before_restart)
        return AMX_USED_ROUND;
    if (!is_covered(ledger, c)) /* before it announces keys: the others would wait for its frame in vain */
        return AMX_NO_BUDGET;
    note_began(ledger, round, attempt);
    return keep(ledger, c, BEGAN, 0, persist, context);
}

enum amx_status amx_ledger_reserve(struct amx_ledger *ledger, const struct amx_contract *c, amx_persist *persist,
                                   void *context) {
    if (ledger->closed != AMX_OK)
        return ledger->closed;
    if (!ledger->awake || ledger->paid)
        return AMX_USED_ROUND;
    if (!is_covered(ledger, c))
        return AMX_NO_BUDGET;
    note_spent(ledger, c->cost);
    return keep(ledger, c, SPENT, c->cost, persist, context);
}
