"""The likelihood ratio of a known sample: how much likelier a reception is if one worker sent it than if none did.

Everything else in a reception is Gaussian with covariance S (``gaussian_background``). A worker that sends v with
amplitude a moves its mean by a v. With b = v^H S^-1 y and c = v^T S^-1 v the ratio is

    exp(a b - a^2 c / 2)                    of real y, whose phases are in line;
    exp(-a^2 c) I_0(2 a |b|)                of complex y and a phase that may be any, over which is averaged.

By Neyman and Pearson no test of one slot is better, as far as the background is Gaussian. A worker that may send in a
slot with probability p, and with amplitudes of known shares, has the mean of these ratios and of 1. Slots have
independent noise, so their logarithms add up; where a worker has one amplitude in all slots, they add up for each level
first.
"""

import math
from collections.abc import Callable
from typing import Any

import torch

from airmixml.attacks.gaussian_background import Background
from airmixml.attacks.linkage import Scores
from airmixml.attacks.nearest_neighbours import NUMBERS_AT_ONCE, blocks_of
from airmixml.attacks.receptions import Amplitudes


def log_ratios(b: torch.Tensor, c: torch.Tensor, level: float) -> torch.Tensor:
    """Return the logarithm of the ratio for one amplitude; shape of b and c, b real or complex."""
    if not b.is_complex():
        return level * b - level**2 / 2.0 * c
    argument = 2.0 * level * b.abs()
    found: torch.Tensor = torch.special.i0e(argument).log() + argument - level**2 * c
    return found


def log_ratios_by_level(b: torch.Tensor, c: torch.Tensor, amplitudes: Amplitudes) -> torch.Tensor:
    """Return the same for a worker that sends with probability p; levels x the shape of b and c."""
    found = torch.stack([log_ratios(b, c, level) for level in amplitudes.levels])
    p = amplitudes.taking_part
    if p >= 1.0:
        return found
    found += math.log(p) if p else -math.inf
    return torch.logaddexp(found, found.new_tensor(math.log1p(-p)))


def averaged(by_level: torch.Tensor, amplitudes: Amplitudes) -> torch.Tensor:
    """Return logarithms of ratios averaged over the levels, their first axis."""
    shares = torch.tensor(amplitudes.shares, dtype=by_level.dtype, device=by_level.device).log()
    found: torch.Tensor = torch.logsumexp(by_level + shares.reshape(-1, *[1] * (by_level.dim() - 1)), dim=0)
    return found


def score(
    background: Background,
    held: Any,
    decoys: Any,
    amplitudes: Amplitudes,
    each: Callable[[slice, torch.Tensor], None] | None = None,
    numbers_at_once: int = NUMBERS_AT_ONCE,
) -> Scores:
    """Return the scores of candidates over all slots, in blocks; ``each`` is told those of held ones in some slots.

    What of the background lies where public samples never do is unknown to its model. Decoys show how much there is:
    sent by nobody, they would have E |b|^2 / c = 1. Slots in which they have more are taken to be as much noisier.
    """
    everybody = (held, decoys)
    levels = len(amplitudes.levels) if amplitudes.alike else 1
    totals = [torch.zeros((levels, len(part)), dtype=torch.float64, device=background.device) for part in everybody]
    for slots in blocks_of(background.slots, len(held) + len(decoys), numbers_at_once):
        products = [background.products(part, slots) for part in everybody]
        noisier = _noisier(*products[1])
        for number, (b, c) in enumerate(products):
            by_level = log_ratios_by_level(b / noisier, c / noisier, amplitudes)
            together = averaged(by_level, amplitudes)
            totals[number] += (by_level if amplitudes.alike else together[None]).double().sum(dim=2)
            if number == 0 and each is not None:
                each(slots, together)
    found = [averaged(total, amplitudes) if amplitudes.alike else total[0] for total in totals]
    return Scores(held=found[0].cpu().numpy(), decoys=found[1].cpu().numpy())


def _noisier(b: torch.Tensor, c: torch.Tensor) -> torch.Tensor:
    """Return mean |b|^2 / c over decoys, at least 1; slots."""
    squares = b.abs().square() / c.clamp_min(1e-30)
    return squares.mean(dim=0).clamp_min(1.0)
