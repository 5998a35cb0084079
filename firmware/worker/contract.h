/* What the device's owner agreed to, as firmware/provision.py writes it: constants in flash that no order
   changes. Numbers have the little end first; vectors stay where they are and are read in place. */
#ifndef AMX_CONTRACT_H
#define AMX_CONTRACT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "status.h"

/* Memory is fixed when the firmware is built; contracts that need more are refused. */
#ifndef AMX_MOST_FEATURES
#define AMX_MOST_FEATURES 1025
#endif
#ifndef AMX_MOST_OUTPUTS
#define AMX_MOST_OUTPUTS 32
#endif

struct amx_contract {
    const uint8_t *run;        /* digest of the contract, 32 bytes: messages of another run are refused */
    const uint8_t *server_key; /* that orders are verified with, 32 bytes */
    uint64_t identity;         /* this worker's number */
    /* encoder */
    uint32_t inputs, features, outputs; /* features are inputs, and the constant where there is one */
    bool unit_norm;                     /* every row is brought to the norm; else longer ones are shortened */
    double row_norm;                    /* a margin for float32 below the declared norm */
    float share, constant;              /* share scales the other features where a constant is appended */
    float label_weight;
    float own_class, other_class; /* what is sent of a class: this in its place, that in the others */
    const uint8_t *lower, *upper, *mean; /* float64, float64, float32 for each input; NULL where there is none */
    /* integers */
    double step, norm; /* what 1 stands for; the largest norm of a vector of products */
    uint32_t bits, numbers;
    int64_t smallest;                   /* value of noise */
    const uint8_t *high, *low;          /* thresholds of the noise, upper and lower 64 bits */
    uint32_t thresholds;
    uint32_t fewest_masks; /* shared with others, in any round */
    /* spending, mu^2 in units of 2^-48 */
    uint64_t budget, cost;
    uint32_t kind, releases, most_rounds; /* kind: the one that this worker sends; it refuses orders of others */
    double power_dbm;                     /* that no order may exceed */
};

/* Reads and checks a blob, which must stay where it is. */
enum amx_status amx_contract_read(struct amx_contract *contract, const uint8_t *blob, size_t bytes);

double amx_double_of(uint64_t bits);
double amx_double(const uint8_t *from); /* little end first, as all of a contract */
float amx_float(const uint8_t *from);

#endif
