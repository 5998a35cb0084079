"""Sums of samples whose shares differ from piece to piece, against the sum written out."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from airmixml import Scenario
from airmixml.radio.transmission import make_sender
from airmixml.streams import Streams
from airmixml.workers import load_dataset
from airmixml.workers.signal import Places


@pytest.mark.parametrize("workers", [5, 200])
@pytest.mark.parametrize("pieces", [1, 3, 7])
def test_every_symbol_has_the_shares_of_its_piece(pieces: int, workers: int) -> None:
    scenario = Scenario.preset("digits")
    data = load_dataset(scenario.workers, Streams(0))
    sender = make_sender(scenario, data, torch.device("cpu"))
    rng = np.random.default_rng(pieces)
    index, shares = rng.integers(0, 1300, (4, workers)), rng.standard_normal((4, workers, pieces))
    lengths = [74] if pieces == 1 else [1, *[10] * (pieces - 2), 73 - 10 * (pieces - 2)]
    one_hot = np.eye(10)[data.train_labels]
    table = np.concatenate([data.train_inputs, scenario.workers.label_weight * one_hot], axis=1)
    piece_of = np.repeat(np.arange(pieces), lengths)
    expected = np.einsum("tws,tws->ts", table[index], shares[:, :, piece_of])
    given = torch.from_numpy(index), torch.from_numpy(shares)
    for _ in range(2):  # the second time from what was kept
        np.testing.assert_allclose(sender.weighted_sum(*given, Places(lengths)), expected, atol=1e-4)
