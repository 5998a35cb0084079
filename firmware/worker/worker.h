/* The worker: takes an order, and sends one frame for it. A port gives it storage, keys, signatures and a transport.

   amx_start, amx_replay for each record in storage; then for each round amx_take_order, the port's key agreement
   (announcements, nonces, shares), amx_take_row, and amx_send_frame when the port has the seeds of the masks. */
#ifndef AMX_WORKER_H
#define AMX_WORKER_H

#include "frame.h"
#include "ledger.h"
#include "sha256.h"
#include "wire.h"

enum amx_pass { AMX_FIRST_PASS = 1, AMX_SECOND_PASS = 2 };

/* Each call returns false where it could not do what it is for. */
struct amx_port {
    void *context;
    /* Appends a record; returns when it would survive a loss of power. */
    amx_persist *persist;
    /* Whether the signature (Ed25519) under AMX_PREFIX and these bytes is the server's. */
    bool (*verify)(void *context, const uint8_t *bytes, size_t count, const uint8_t signature[AMX_SIGNATURE_BYTES],
                   const uint8_t key[32]);
    /* Signs, with the device's key, bytes that come in pieces. Ed25519 reads a message twice, and a frame does not fit
       into memory; so it is formed twice, and each pass hands over the same bytes. */
    bool (*sign)(void *context, enum amx_pass pass, const uint8_t *bytes, size_t count);
    bool (*signature)(void *context, uint8_t signature[AMX_SIGNATURE_BYTES]); /* after the second pass */
    /* Sends the next bytes of the message. */
    bool (*emit)(void *context, const uint8_t *bytes, size_t count);
};

struct amx_worker {
    struct amx_contract contract;
    struct amx_ledger ledger;
    struct amx_row row;
    const struct amx_port *port;
    uint8_t order[AMX_DIGEST_BYTES]; /* digest of the order that began the round */
    uint8_t sent[AMX_DIGEST_BYTES];  /* digest of all that this round's frame is made of */
    bool has_row;
};

enum amx_status amx_start(struct amx_worker *worker, const uint8_t *contract, size_t bytes,
                          const struct amx_port *port);
enum amx_status amx_replay(struct amx_worker *worker, const uint8_t record[AMX_RECORD_BYTES]);

/* Begins a round: checks the order and keeps that it began. AMX_AGAIN for the order that began the round. */
enum amx_status amx_take_order(struct amx_worker *worker, const uint8_t *message, size_t bytes);

/* Encodes the row that is sent; labels as the contract's label code makes them. Both may lie in worker->row already:
   then they need no further memory. */
enum amx_status amx_take_row(struct amx_worker *worker, const float *inputs, const float *labels);

/* Reserves the loss, keeps that, and sends the frame of the round. Called again it sends the same bytes. */
enum amx_status amx_send_frame(struct amx_worker *worker, const struct amx_seeds *seeds);

/* Sends a REFUSAL that says in words why the order of this header was refused. Answer only signed orders. */
enum amx_status amx_send_refusal(const struct amx_worker *worker, const struct amx_header *order, enum amx_status why);

#endif
