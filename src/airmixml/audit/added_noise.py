"""Whether what workers add to hide themselves is what claims against somebody who hears every worker rest on.

Noise and masks of several slots are formed as in the trials, symbol by symbol. Two sums of them are measured, each over
its stated deviation, which must be independent standard normal numbers, within a slot and between slots:

- of all honest workers: masks cancel, n workers' own noise stays, of variance n s^2. Noise that is too weak shows here.
- of the audited worker, less the mean of all: k masks, of variance k e^2 + (1 - 1 / n) s^2. Masks that are missing show
  here, and masks that come again in another slot, which a difference of the two slots would take away.

The two are independent of each other. Without masks the worker's own noise is measured alone.
"""

import math
from typing import Final

import numpy as np
import torch
from numpy.typing import NDArray

from airmixml.audit.heard_apart import HeardSlot, heard_slots
from airmixml.audit.noise_check import NoiseCheck, NoiseMeter
from airmixml.audit.trials import Bench, noise_source
from airmixml.radio.masking import masking_of

_ENOUGH_NUMBERS: Final = 4096
_MOST_SYMBOLS: Final = 1024
_LEAST_SLOTS: Final = 4
_CHAPTER: Final = 1 << 35
_FIRST_SLOT: Final = 1 << 40  # of masks: behind those of all trials
ADDED_NOISE: Final = "what workers add"


def check_added_noise(bench: Bench, worker: int, failure: float) -> NoiseCheck:
    """Form what workers add in several slots, and return what it is like."""
    symbols = min(bench.air.signal.symbols, _MOST_SYMBOLS)
    slots = max(_LEAST_SLOTS, -(-_ENOUGH_NUMBERS // symbols))
    meter, heard = NoiseMeter(symbols, 2.0), heard_slots(bench, worker, alone=True)[0]
    for slot in range(slots):
        bench.context.progress(ADDED_NOISE, slot, slots)
        rows = torch.from_numpy(_standardised(bench, heard, slot, symbols))
        meter.add(rows, torch.zeros_like(rows), np.ones(len(rows)))
    bench.context.progress(ADDED_NOISE, slots, slots)
    return meter.finish(failure, of=ADDED_NOISE)


def _standardised(bench: Bench, heard: HeardSlot, slot: int, symbols: int) -> NDArray[np.float64]:
    """Return both sums of a slot over their stated deviations; rows x symbols."""
    masking, fault = masking_of(bench.air.scenario), bench.settings.fault
    assert masking is not None
    source, listening = noise_source(bench.air.scenario.seed, _CHAPTER + slot), heard.listening
    deviation, others = math.sqrt(masking.own_watts), listening.others
    own, rest = deviation * fault.noise_factor * torch.randn((2, symbols), generator=source).double().numpy()
    if heard.formed is None:
        return np.asarray(own[None] / deviation)
    rest, count = rest * math.sqrt(others), others + 1
    masks = others_masks = np.zeros(symbols)
    if not fault.unmasked:
        masks = heard.formed.of_worker(_FIRST_SLOT + slot, 0, symbols)
        others_masks = heard.formed.of_others(_FIRST_SLOT + slot, 0, symbols)
    everybody = own + rest + masks + others_masks
    masked_watts = len(listening.masks) * masking.pair_watts + (1.0 - 1.0 / count) * masking.own_watts
    apart = own + masks - everybody / count
    return np.stack([everybody / (deviation * math.sqrt(count)), apart / math.sqrt(masked_watts)])
