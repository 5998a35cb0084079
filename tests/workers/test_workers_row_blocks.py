"""Rows that are encoded block by block on several threads are encoded as they would be alone."""

from __future__ import annotations

import threading

import numpy as np
import pytest
import torch

from airmixml.scenario import Workers
from airmixml.streams import Streams
from airmixml.workers import encode
from airmixml.workers.encoding import for_each_block


def test_every_row_once_and_the_first_block_first() -> None:
    before, rows, order = torch.get_num_threads(), np.zeros(1003, dtype=int), []
    torch.set_num_threads(3)
    try:

        def work(block: slice) -> None:
            order.append((block.start, threading.current_thread() is threading.main_thread(), torch.get_num_threads()))
            rows[block] += 1

        for_each_block(work, len(rows), 100)
        assert torch.get_num_threads() == 3
    finally:
        torch.set_num_threads(before)
    assert (rows == 1).all()
    assert order[0][:2] == (0, True)
    assert {threads for _, _, threads in order} <= {1, 3}


@pytest.mark.parametrize("centre", ["own", "public", "private", "refined"])
@pytest.mark.parametrize("encoder", ["gradients", "clip"])
def test_blocks_are_encoded_as_their_rows_alone(encoder: str, centre: str) -> None:
    images = np.random.default_rng(0).random((1100, 64), dtype=np.float32)
    features = 20 if encoder == "gradients" else 0
    workers = Workers(dataset="mine.npz", encoder=encoder, features=features, centre=centre, clip_norm=0.9)
    together, shortened = encode(workers, images, image_shape=(8, 8), streams=Streams(2))
    counts = []
    for rows in (slice(0, 3), slice(510, 515), slice(1099, 1100)):
        alone, count = encode(workers, images[rows], image_shape=(8, 8), streams=Streams(2))
        assert together[rows] == pytest.approx(alone, abs=2e-6)
        counts.append(count)
    lengths = np.linalg.norm(together.astype(np.float64), axis=1)
    assert shortened == np.count_nonzero(lengths > 0.9 * (1.0 - 3e-6))
    assert sum(counts) <= shortened
