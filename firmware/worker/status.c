#include "status.h"

const char *amx_words(enum amx_status status) {
    switch (status) {
    case AMX_OK:
        return "done";
    case AMX_AGAIN:
        return "a repeat: the same bytes are sent again";
    case AMX_NO_MESSAGE:
        return "message is cut off, too long, or of another protocol or version";
    case AMX_OTHER_RUN:
        return "message is of another run, sender or type";
    case AMX_NOT_SIGNED:
        return "order is not signed by the server";
    case AMX_OTHER_ORDER:
        return "order asks for something that is not in the contract, or that this round's first order did not ask for";
    case AMX_USED_ROUND:
        return "round was begun before: this worker never sends in it again";
    case AMX_NO_BUDGET:
        return "budget: the frame would spend more than the owner agreed to";
    case AMX_NOT_BEGUN:
        return "no order, no row or no seeds: there is nothing to send";
    case AMX_BAD_ROW:
        return "row has numbers that are not finite, or is longer than its bounds allow";
    case AMX_OTHER_FRAME:
        return "frame would differ from the one that was sent in this round";
    case AMX_NOT_KEPT:
        return "ledger could not be written";
    case AMX_BAD_LEDGER:
        return "ledger is lost or damaged, and what was spent is not known: this worker sends nothing more in this run";
    case AMX_NOT_SENT:
        return "signature or transport failed";
    case AMX_BAD_CONTRACT:
        return "contract is damaged, or too large for this build";
    case AMX_FEW_MASKS:
        return "masks are fewer than agreed";
    }
    return "unknown status";
}
