/* What the device remembers over a restart, and what follows from it: it spends no more than its owner agreed to, and
   never sends again in a round that it began before a restart. Each record is durable before anything is sent. */
#ifndef AMX_LEDGER_H
#define AMX_LEDGER_H

#include "contract.h"

enum { AMX_RECORD_BYTES = 32, AMX_LINK_BYTES = 16 };

/* Writes one record behind the others; true only when it would survive a loss of power. */
typedef bool amx_persist(void *context, const uint8_t record[AMX_RECORD_BYTES]);

struct amx_ledger {
    uint64_t spent;    /* in units of the contract */
    uint32_t releases; /* frames that were reserved */
    uint32_t round;    /* the latest that was begun: names of rounds and attempts rise */
    uint8_t attempt;
    uint8_t link[AMX_LINK_BYTES]; /* of the latest record: the next one's covers it, and so all before */
    bool provisioned;             /* whether the first record was there, which no device writes */
    bool any;                     /* whether a round was begun */
    bool awake;                   /* whether it was begun since the last start */
    bool paid;                    /* whether its frame was reserved */
    enum amx_status closed;       /* why nothing more is sent, or AMX_OK */
};

/* Takes a record that was kept, in the order of writing. After one that is damaged, or that follows one that is lost,
   nothing more is sent: what was spent is not known. */
enum amx_status amx_ledger_replay(struct amx_ledger *ledger, const struct amx_contract *contract,
                                  const uint8_t record[AMX_RECORD_BYTES]);

/* Keeps that a round is begun, and that the cost of its frame is spent; or refuses. */
enum amx_status amx_ledger_begin(struct amx_ledger *ledger, const struct amx_contract *contract, uint32_t round,
                                 uint8_t attempt, amx_persist *persist, void *context);
enum amx_status amx_ledger_reserve(struct amx_ledger *ledger, const struct amx_contract *contract,
                                   amx_persist *persist, void *context);

#endif
