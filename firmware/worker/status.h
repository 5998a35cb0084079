/* What a call came to; everything but AMX_OK and AMX_AGAIN is a refusal, after which nothing has been sent. */
#ifndef AMX_STATUS_H
#define AMX_STATUS_H

enum amx_status {
    AMX_OK = 0,
    AMX_AGAIN,        /* a repeat: what was sent before is sent again, to the last byte */
    AMX_NO_MESSAGE,   /* cut off, too long, or of another protocol or version */
    AMX_OTHER_RUN,    /* of another contract, another sender or another type */
    AMX_NOT_SIGNED,   /* not signed by the server */
    AMX_OTHER_ORDER,  /* what it asks for is not in the contract, or differs from what this round's order asked for */
    AMX_USED_ROUND,   /* a round that this worker began before: before a restart, or under a later name */
    AMX_NO_BUDGET,    /* it would spend more than the owner agreed to */
    AMX_NOT_BEGUN,    /* no order, no row or no seeds: there is nothing to send */
    AMX_BAD_ROW,      /* numbers that are not finite, or a label that is too long */
    AMX_OTHER_FRAME,  /* another row, or other seeds, than those of the frame that was sent in this round */
    AMX_NOT_KEPT,     /* the ledger could not be written: nothing more is sent before a restart */
    AMX_BAD_LEDGER,   /* a record is lost or damaged: nothing more is sent in this run */
    AMX_NOT_SENT,     /* the port's signature or transport failed */
    AMX_BAD_CONTRACT, /* damaged, or too large for this build */
    AMX_FEW_MASKS,    /* the port gave fewer masks than the contract's rules ask for */
};

const char *amx_words(enum amx_status status);

#endif
