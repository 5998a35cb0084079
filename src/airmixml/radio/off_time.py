"""The sum of workers that are off time by fractions of a symbol; ``impairments.timing`` has the mathematics."""

import torch

from airmixml.impairments.frame import Frame
from airmixml.impairments.timing import filter_blocks, pulse_expansion
from airmixml.scenario import Air


def smear(sums: torch.Tensor, air: Air, frame: Frame) -> torch.Tensor:
    """Return sum_i sum_m rc(m + tau_i) w_i v_i(k + m) of workers that are off time; slots x symbols.

    ``sums`` are those of workers on time, weighted with ``timing_factors``; terms x slots x symbols.
    """
    filters = torch.from_numpy(pulse_expansion(air.roll_off, air.timing_offset_symbols).filters).to(sums.device)
    mixed = torch.zeros_like(sums[0])
    for taps, one in zip(filters, sums, strict=True):
        mixed += filter_blocks(one, taps, frame)
    return mixed
