/* Messages as src/airmixml/deploy/wire.py packs them: header, body, signature; integers have the big end first. */
#ifndef AMX_WIRE_H
#define AMX_WIRE_H

#include <stddef.h>
#include <stdint.h>

#include "status.h"

enum { AMX_HEADER_BYTES = 56, AMX_SIGNATURE_BYTES = 64, AMX_RUN_BYTES = 32, AMX_PREFIX_BYTES = 18 };
enum amx_type { AMX_ORDER = 2, AMX_FRAME = 9, AMX_REFUSAL = 15, AMX_LAST_TYPE = 16 };

#define AMX_SERVER UINT64_MAX
#define AMX_LARGEST_BODY (32u << 20)

extern const uint8_t AMX_PREFIX[AMX_PREFIX_BYTES]; /* stands before all that is signed */

struct amx_header {
    uint8_t type, attempt;
    uint64_t sender;
    const uint8_t *run;
    uint32_t round, body_bytes;
};

/* Reads the header of a whole message; refuses one that does not end where its header says. */
enum amx_status amx_read_header(struct amx_header *header, const uint8_t *message, size_t bytes);
void amx_write_header(const struct amx_header *header, uint8_t out[AMX_HEADER_BYTES]);

#endif
