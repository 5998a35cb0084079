"""Random words of 64 bits turned into numbers of a distribution: the same on a CPU and a GPU, up to rounding."""

import math
from collections.abc import Callable
from typing import Final

import torch

_RADIUS_BITS: Final = 40
_ANGLE_BITS: Final = 64 - _RADIUS_BITS
_SQUEEZE: Final = 0.0331
_LARGE_SHAPE: Final = 1e8


def uniforms(words: torch.Tensor) -> torch.Tensor:
    """Return numbers between 0 and 1, both left out, in steps of 2^-52; float64."""
    return _leading_bits(words, 52).double().add_(0.5).mul_(2.0**-52)


def integers_below(words: torch.Tensor, count: int) -> torch.Tensor:
    """Return integers from 0 to count - 1: of equal probability up to count 2^-53 of it; int64."""
    return _leading_bits(words, 53).double().mul_(2.0**-53 * count).long()


def exponentials(words: torch.Tensor) -> torch.Tensor:
    """Return standard exponential values; float64."""
    return uniforms(words).log_().neg_()


def standard_normals(words: torch.Tensor, *, out: torch.Tensor) -> torch.Tensor:
    """Fill ``out`` with independent standard normal values (Box and Muller), two from each word; float32.

    Words are rows x pairs, ``out`` rows x 2 pairs, or one column less. 40 bits of a word give the radius, which ends at
    7.5 deviations (one value in 10^13 lies beyond), 24 the angle.
    """
    radius, angle = _polar(words)
    pairs = words.shape[-1]
    torch.mul(radius, torch.cos(angle), out=out[..., :pairs])
    rest = out.shape[-1] - pairs
    torch.mul(radius[..., :rest], torch.sin(angle[..., :rest]), out=out[..., pairs:])
    return out


def normal_pairs(words: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """Return two independent standard normal values of each word; both of its shape, float64 of float32's precision."""
    radius, angle = _polar(words)
    return (radius * torch.cos(angle)).double(), (radius * torch.sin(angle)).double()


def log_gammas(
    shape: torch.Tensor, words: torch.Tensor, more: Callable[[torch.Tensor, int], torch.Tensor]
) -> torch.Tensor:
    """Return logarithms of standard gamma values with these shapes, at least 0; rows x columns, float64.

    Marsaglia and Tsang's method: d (1 + c x)^3 for a normal x is accepted with a probability of 95 % or more. Shapes a
    below 1 use G(a) = G(a + 1) U^(1/a), as a logarithm: 1e-8 is an ordinary shape. ``shape`` has as many values as
    there are columns. ``words`` are rows x columns x 3, enough for two attempts; ``more(places, attempt)`` gives a word
    each for further ones, where places count through rows x columns x 2.
    """
    small = shape < 1.0
    d = torch.where(small, shape + 1.0, shape) - 1.0 / 3.0
    c = (9.0 * d).rsqrt()
    normals, columns = normal_pairs(words[..., 0]), shape.shape[-1]
    chances = _leading_bits(words[..., 1], 32), words[..., 1] & 0xFFFFFFFF
    base = 1.0 + c * normals[0]
    flat = base.view(-1)
    left = torch.nonzero(~_surely_accepted(normals[0], chances[0])).T
    left = left[0] * columns + left[1]
    drawn, chance, attempt = normals[0].view(-1)[left], chances[0].reshape(-1)[left], 1
    while True:
        column = left % columns
        rejected = ~_accepted(drawn, flat[left], chance, d[column])
        left, column = left[rejected], column[rejected]
        if not len(left):
            break
        if attempt == 1:
            drawn, chance = normals[1].view(-1)[left], chances[1].reshape(-1)[left]
        else:
            drawn, chance = normal_pairs(more(2 * left, attempt))[0], _leading_bits(more(2 * left + 1, attempt), 32)
        flat[left] = 1.0 + c[column] * drawn
        attempt += 1
    logarithms = base.log_().mul_(3.0).add_(d.log())
    if bool(small.any()):
        # A shape of 0 gives minus infinity: nothing.
        boost = uniforms(words[..., 2]).log_().div_(torch.where(small, shape, 1.0))
        logarithms = torch.where(small, logarithms + boost, logarithms)
    return logarithms


def _surely_accepted(normal: torch.Tensor, chance: torch.Tensor) -> torch.Tensor:
    """Return which values the full test would accept, as a bound without logarithms tells of nearly all."""
    return chance.double().mul_(2.0**-32) < 1.0 - _SQUEEZE * normal.square().square_()


def _accepted(normal: torch.Tensor, base: torch.Tensor, chance: torch.Tensor, d: torch.Tensor) -> torch.Tensor:
    """Return which d base^3 are accepted: base above 0 and ln U below x^2 / 2 + d - d base^3 + d ln base^3."""
    log_chance = chance.double().add_(0.5).mul_(2.0**-32).log_()
    bound = 0.5 * normal.square() + d * (1.0 - base**3 + 3.0 * torch.log(base.clamp(min=1e-300)))
    # Of large shapes all but one in d would be, and the terms of the bound cancel to nothing.
    return (base > 0.0) & ((log_chance < bound) | (d > _LARGE_SHAPE))


def _polar(words: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """Return radius and angle of points whose two coordinates are standard normal; float32."""
    uniform = _leading_bits(words, _RADIUS_BITS).float().add_(0.5).mul_(2.0**-_RADIUS_BITS)
    radius = uniform.log_().mul_(-2.0).sqrt_()
    angle = (words & ((1 << _ANGLE_BITS) - 1)).float().mul_(2.0 * math.pi * 2.0**-_ANGLE_BITS)
    return radius, angle


def _leading_bits(words: torch.Tensor, bits: int) -> torch.Tensor:
    """Return the leading bits as a number that is never negative; int64."""
    return (words >> (64 - bits)).bitwise_and_((1 << bits) - 1)
