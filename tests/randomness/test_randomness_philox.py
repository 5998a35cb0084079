"""Philox4x64-10 against its authors' known answers, against NumPy, and on a GPU against both."""

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from airmixml.randomness.slot_words import philox4x64, words_at, words_from

CPU, ONES = torch.device("cpu"), 2**64 - 1
# From the file of known answers that Random123 comes with: counter, key, output.
KNOWN = [
    (
        (0, 0, 0, 0),
        (0, 0),
        (0x16554D9ECA36314C, 0xDB20FE9D672D0FDC, 0xD7E772CEE186176B, 0x7E68B68AEC7BA23B),
    ),
    (
        (ONES, ONES, ONES, ONES),
        (ONES, ONES),
        (0x87B092C3013FE90B, 0x438C3C67BE8D0224, 0x9CC7D7C69CD777B6, 0xA09CAEBF594F0BA0),
    ),
    (
        (0x243F6A8885A308D3, 0x13198A2E03707344, 0xA4093822299F31D0, 0x082EFA98EC4E6C89),
        (0x452821E638D01377, 0xBE5466CF34E90C6C),
        (0xA528F45403E61D95, 0x38C72DBD566E9788, 0xA5A1610E72FD18B5, 0x57BD43B5E52B7FE6),
    ),
]
KEYS = st.tuples(st.integers(0, ONES), st.integers(0, ONES))


def as_words(values: tuple[int, ...]) -> np.ndarray:
    return np.array(values, dtype=np.uint64)


@pytest.mark.parametrize(("counter", "key", "output"), KNOWN)
def test_known_answers(counter: tuple[int, ...], key: tuple[int, int], output: tuple[int, ...]) -> None:
    assert (np.stack(philox4x64(tuple(as_words(counter)[:, None]), key))[:, 0] == as_words(output)).all()


@given(key=KEYS, attempt=st.integers(0, 2**40), first=st.integers(0, 2**50), count=st.integers(0, 40))
@settings(max_examples=50, deadline=None)
def test_words_in_order_are_those_at_their_places(key: tuple[int, int], attempt: int, first: int, count: int) -> None:
    made = words_from(key, attempt, first, count, CPU)
    assert torch.equal(made, words_at(key, attempt, torch.arange(first, first + count)))
    assert made.shape == (count,)


def test_words_of_other_keys_attempts_and_places_are_others() -> None:
    plain = words_from((1, 2), 0, 0, 100, CPU)
    for other in (words_from((2, 1), 0, 0, 100, CPU), words_from((1, 2), 1, 0, 100, CPU)):
        assert not torch.isin(plain, other).any()
    assert not torch.isin(plain, words_from((1, 2), 0, 100, 100, CPU)).any()


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
@pytest.mark.parametrize(("attempt", "first", "count"), [(0, 0, 1), (3, 5, 10_001), (0, 2**40 + 3, 4096), (7, 2, 0)])
def test_a_gpu_makes_the_same_words(attempt: int, first: int, count: int) -> None:
    key, gpu = (2**63 + 12345, 77), torch.device("cuda")
    expected = words_from(key, attempt, first, count, CPU)
    assert torch.equal(words_from(key, attempt, first, count, gpu).cpu(), expected)
    assert torch.equal(words_at(key, attempt, torch.arange(first, first + count, device=gpu)).cpu(), expected)
