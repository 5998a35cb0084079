"""Histories of an air: messages lost, repeated, out of order, replayed, and the air killed; every sum is exact."""

from __future__ import annotations

from contextlib import suppress

import numpy as np
import pytest
from test_deploy_air import new_air, opening, said, summed

from airmixml.deploy.air import as_bytes
from airmixml.messages import ProtocolError

WORKERS, SLOTS, SAMPLES = 4, 3, 6
FRAMES = np.arange(WORKERS * SLOTS * SAMPLES).reshape(SLOTS, WORKERS, SAMPLES) ** 2
SENT = [
    [opening(tuple(range(WORKERS)), SAMPLES, number=slot)]
    + [said(each, as_bytes(FRAMES[slot, each]), number=slot).packed() for each in range(WORKERS)]
    for slot in range(SLOTS)
]


@pytest.mark.parametrize("fault", ["none", "drop", "repeat", "reorder", "replay", "kill", "all"])
def test_every_sum_is_exact_over_the_workers_that_it_names(fault: str) -> None:
    """50 histories of each kind: what a sum names is what it holds, whatever went wrong."""
    happens = {name: fault in (name, "all") for name in ("drop", "repeat", "reorder", "replay", "kill")}
    complete = 0
    for seed in range(50):
        rng, air, said_so_far = np.random.default_rng(seed), new_air(), list[bytes]()
        for slot in range(SLOTS):
            messages = [each for each in SENT[slot] if not (happens["drop"] and rng.random() < 0.2)]
            if happens["repeat"]:
                messages += [messages[place] for place in rng.integers(len(messages), size=3)] if messages else []
            if happens["replay"]:
                messages += said_so_far
            if happens["reorder"]:
                messages = [messages[place] for place in rng.permutation(len(messages))]
            said_so_far += messages
            killed_at = int(rng.integers(len(messages) + 1)) if happens["kill"] and rng.random() < 0.5 else -1
            found = []
            for place, message in enumerate(messages):
                if place == killed_at:
                    air = new_air()  # all that it knew is gone
                with suppress(ProtocolError):
                    found += air.handle(message)
            found += air.expire()
            for message in found:
                total = summed([message])
                held = FRAMES[message.round][list(total.present)]
                assert np.array_equal(total.samples, held.sum(axis=0))
                complete += total.present == tuple(range(WORKERS))
    if fault in ("none", "repeat"):
        assert complete >= 50 * SLOTS  # nothing is lost that arrives
