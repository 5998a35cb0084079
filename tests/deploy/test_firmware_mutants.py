"""Every guard of the C worker is taken out once, and the test of that guard must notice."""

from __future__ import annotations

import ctypes
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import test_firmware as guarded
from c_worker import FIRMWARE, built

pytestmark = [pytest.mark.long, guarded.pytestmark]

# File, what stands there, what a mutant has instead, and the call that must fail.
MUTANTS: list[tuple[str, str, str, Callable[..., None], tuple[Any, ...]]] = [
    (file, old, new, test, given)
    for test, *mutants in (
        (
            guarded.test_restarted_worker_never_sends_again_in_a_round_that_it_began,
            ("ledger.c", " || begun_before_restart", "", (False,)),
            ("ledger.c", "ledger->awake = false;", "ledger->awake = true;", (False,)),
        ),
        (
            guarded.test_attempts_rise_until_a_frame_is_sent,
            ("ledger.c", "attempt > ledger->attempt && !ledger->paid", "attempt > ledger->attempt", ()),
            ("ledger.c", "attempt > ledger->attempt && !ledger->paid", "!ledger->paid", ()),
            ("ledger.c", "round >= c->most_rounds || ", "", ()),
            ("ledger.c", " || attempt >= MOST_ATTEMPTS", "", ()),
        ),
        (
            guarded.test_no_more_is_spent_than_agreed_also_over_restarts,
            ("ledger.c", " && ledger->spent <= c->budget - c->cost", "", (250, 9, 2)),
            ("ledger.c", "c->cost <= c->budget && ", "", (99, 9, 0)),
            ("ledger.c", "ledger->releases < c->releases && ", "", (10**6, 4, 4)),
            ("ledger.c", "note_spent(ledger, amx_big(record + 8, 8))", "ledger->paid = true", (250, 9, 2)),
        ),
        (
            guarded.test_order_is_kept_before_anything_is_sent_and_so_is_its_cost,
            ("ledger.c", "return keep(ledger, c, SPENT, c->cost, persist, context);", "return AMX_OK;", ()),
            (
                "ledger.c",
                "return keep(ledger, c, BEGAN, 0, persist, context);",
                "ledger->awake = true; return AMX_OK;",
                (),
            ),
        ),
        (
            guarded.test_nothing_is_sent_where_the_ledger_cannot_be_written,
            ("ledger.c", "if (!persist(context, record))", "if (persist(context, record), false)", (1,)),
            ("ledger.c", "if (!persist(context, record))", "if (persist(context, record), false)", (2,)),
        ),
        (
            guarded.test_damaged_record_ends_all_sending,
            (
                "ledger.c",
                "if (!amx_equal(digest, record + DATA_BYTES,",
                "if (false && !amx_equal(digest, record,",
                (12,),
            ),
        ),
        (
            guarded.test_records_of_another_run_or_worker_or_out_of_order_are_refused,
            ("ledger.c", "type == FIRST && !ledger->provisioned", "type == FIRST", ()),
            ("ledger.c", "type == BEGAN && ledger->provisioned && ", "type == BEGAN && ", ()),
            ("ledger.c", " && is_later(ledger, round, attempt))\n", ")\n", ()),
            ("ledger.c", "type == SPENT && ledger->any && !ledger->paid", "type == SPENT && ledger->any", ()),
            ("ledger.c", "type == SPENT && ledger->any && ", "type == SPENT && ", ()),
            ("ledger.c", "amx_sha256_add(&hash, c->run, 32);", "", ()),
            ("ledger.c", "amx_sha256_add(&hash, identity, 8);", "", ()),
        ),
        (
            guarded.test_lost_records_end_all_sending_unless_they_were_the_last,
            ("ledger.c", "amx_copy(ledger->link, ", "(void)(", (3,)),  # each record stands alone
        ),
        (
            guarded.test_worker_whose_ledger_is_missing_sends_nothing,
            ("ledger.c", "if (!ledger->provisioned)", "if (false)", ()),
        ),
        (
            guarded.test_orders_that_are_not_the_servers_or_not_agreed_are_refused,
            ("worker.c", "if (!port->verify(", "if (false && !port->verify(", ()),
            ("worker.c", " || !amx_equal(header.run, c->run, AMX_RUN_BYTES)", "", ()),
            ("worker.c", " || header.sender != AMX_SERVER", "", ()),
            ("worker.c", "header.type != AMX_ORDER || ", "", ()),
            ("worker.c", "bytes == 9 && ", "", ()),
            ("worker.c", "body[0] == c->kind && ", "", ()),
            ("worker.c", " && amx_double_of(amx_big(body + 1, 8)) <= c->power_dbm", "", ()),
            ("wire.c", "amx_big(message, 4) != MAGIC || ", "", ()),
            ("wire.c", " || amx_big(message + 6, 2) != 0", "", ()),
            ("wire.c", " || header->type > AMX_LAST_TYPE", "", ()),
            ("wire.c", "if (bytes - AMX_HEADER_BYTES - AMX_SIGNATURE_BYTES != header->body_bytes)", "if (0)", ()),
        ),
        (
            guarded.test_second_frame_of_a_round_with_other_bytes_is_refused,
            ("worker.c", "if (again && !amx_equal(", "if (false && !amx_equal(", ("row",)),
            ("worker.c", "amx_sha256_add(&hash, seeds->noise, AMX_SEED_BYTES);", "", ("noise",)),
        ),
        (
            guarded.test_another_order_under_the_name_of_a_round_is_refused,
            ("worker.c", "? AMX_AGAIN : AMX_OTHER_ORDER", "? AMX_AGAIN : AMX_AGAIN", ()),
        ),
        (
            guarded.test_frame_with_fewer_masks_than_agreed_is_refused,
            ("worker.c", "seeds->edge_count < c->fewest_masks", "false", ()),
        ),
        (
            guarded.test_rows_that_are_not_finite_and_labels_that_are_too_long_are_refused,
            ("encode.c", "value - value == 0.0f", "true", ()),
            ("encode.c", "is_within_norm(c, row) ? AMX_OK : AMX_BAD_ROW", "AMX_OK", ()),
            ("worker.c", " || !worker->has_row", "", ()),
        ),
        (
            guarded.test_damaged_contract_and_one_that_is_too_large_are_refused,
            ("contract.c", " || !is_whole(blob, bytes)", "", ()),
            ("contract.c", "c->features > AMX_MOST_FEATURES", "false", ()),
        ),
    )
    for file, old, new, given in mutants
]


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda each: f"{each[0]}: {each[1]}")
def test_mutant_dies(mutant: tuple[Any, ...], tmp_path: Path) -> None:
    file, old, new, test, given = mutant
    source = tmp_path / "firmware"
    shutil.copytree(FIRMWARE, source, ignore=shutil.ignore_patterns("build"))
    code = (source / "worker" / file).read_text(encoding="utf-8")
    assert old in code
    (source / "worker" / file).write_text(code.replace(old, new), encoding="utf-8")
    strict = "-std=c11 -ffp-contract=off -ffreestanding -w -Iworker"
    library = ctypes.CDLL(str(built("host", tmp_path / "build", source, STRICT=strict) / "libairmix.so"))
    with pytest.raises(AssertionError):
        test(library, *given)
