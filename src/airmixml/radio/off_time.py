"""The sum of workers that are off time by fractions of a symbol; ``impairments.timing`` has the mathematics."""

from functools import partial

import torch

from airmixml.impairments.frame import Frame
from airmixml.impairments.timing import equalised_filters, expansion_backoff, filter_blocks, polynomials, timing_filters
from airmixml.scenario import Air
from airmixml.workers.payloads import Places


def mix_off_time(
    mix: partial[torch.Tensor],
    *,
    weights: torch.Tensor,
    places: Places,
    offsets: torch.Tensor,
    air: Air,
    frame: Frame,
) -> torch.Tensor:
    """Return sum_i q_ip sum_m rc(m + tau_i) v_i(k + m) of workers that are off time; slots x symbols.

    ``mix`` adds up workers that are on time (``Payload.weighted_sums``). Offsets, in units of the largest, are slots x
    scheduled, weights slots x scheduled x pieces. ``places`` may ask for some symbols alone: then only those and what
    is heard in them is added up, and they are as the server's equaliser leaves them.
    """
    some = places.symbols is not None
    taps_of_terms = equalised_filters(air) if some else timing_filters(air.roll_off, air.timing_offset_symbols)
    filters = torch.from_numpy(taps_of_terms).to(weights.device)
    heard = None if places.symbols is None else _heard_in(places.symbols, filters.shape[1] // 2, frame)
    mixed = torch.zeros((), device=weights.device)
    factors = expansion_backoff(air.roll_off, air.timing_offset_symbols) * torch.stack(
        polynomials(offsets, len(filters)), dim=2
    )
    on_time = places._replace(symbols=None if heard is None else heard[0])
    every = mix(weights=weights, factors=factors, places=on_time)
    for taps, one in zip(filters, every, strict=True):
        if heard is None:
            mixed = mixed + filter_blocks(one, taps, frame)
        else:
            mixed = mixed + torch.nn.functional.pad(one, (0, 1))[:, heard[1]] @ taps.to(one.dtype)
    return torch.as_tensor(mixed)


def _heard_in(symbols: torch.Tensor, reach: int, frame: Frame) -> tuple[torch.Tensor, torch.Tensor]:
    """Return the symbols that are heard in some, in order, and where among them each tap of each finds its own.

    Places are symbols x taps; the place after the last stands for the silence beyond a block.
    """
    around = symbols[:, None] + torch.arange(-reach, reach + 1, device=symbols.device)
    count, length = sum(frame.lengths), frame.longest_block
    inside = (around >= 0) & (around < count) & (around // length == symbols[:, None] // length)
    needed = torch.unique(around[inside])
    places = torch.searchsorted(needed, around.clamp(0, count - 1))
    return needed, torch.where(inside, places, len(needed))
