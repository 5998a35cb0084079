#include "wire.h"

#include "bytes.h"

const uint8_t AMX_PREFIX[AMX_PREFIX_BYTES] = "airmixml-deploy/1"; /* with the zero behind it */

static const uint32_t MAGIC = 0x414d5831; /* "AMX1" */

enum amx_status amx_read_header(struct amx_header *header, const uint8_t *message, size_t bytes) {
    if (bytes < AMX_HEADER_BYTES + AMX_SIGNATURE_BYTES || amx_big(message, 4) != MAGIC || amx_big(message + 6, 2) != 0)
        return AMX_NO_MESSAGE;
    header->type = message[4];
    header->attempt = message[5];
    header->sender = amx_big(message + 8, 8);
    header->run = message + 16;
    header->round = (uint32_t)amx_big(message + 48, 4);
    header->body_bytes = (uint32_t)amx_big(message + 52, 4);
    if (header->type == 0 || header->type > AMX_LAST_TYPE || header->body_bytes > AMX_LARGEST_BODY)
        return AMX_NO_MESSAGE;
    if (bytes - AMX_HEADER_BYTES - AMX_SIGNATURE_BYTES != header->body_bytes)
        return AMX_NO_MESSAGE;
    return AMX_OK;
}

void amx_write_header(const struct amx_header *header, uint8_t out[AMX_HEADER_BYTES]) {
    amx_put_big(out, MAGIC, 4);
    out[4] = header->type;
    out[5] = header->attempt;
    amx_put_big(out + 6, 0, 2);
    amx_put_big(out + 8, header->sender, 8);
    amx_copy(out + 16, header->run, AMX_RUN_BYTES);
    amx_put_big(out + 48, header->round, 4);
    amx_put_big(out + 52, header->body_bytes, 4);
}
