/* What a caller from another language needs besides the worker: how much memory to give it, and its encoded row. */
#include "worker.h"

size_t amx_worker_bytes(void);
size_t amx_worker_bytes(void) { return sizeof(struct amx_worker); }

const float *amx_worker_features(const struct amx_worker *worker);
const float *amx_worker_features(const struct amx_worker *worker) { return worker->row.features; }
