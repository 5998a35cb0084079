"""An isolating listener where workers send integers: what each sends alone is uniform, so their sum is all there is.

That sum is attacked as the server's (``known_schedule``). Here the listener hears the audited worker alone, in the
number that its canary moves most: a residue that tells nothing unless masks are missing, or come again in every run.
Where masks may be recovered, it calls the worker absent though it sent: its edge masks are revealed, its self mask is
left. Masks are formed from keys, by the code of the workers (``isolating_filter``).

What workers add is also measured: the sum over the worker and its neighbours, in which masks cancel, over the stated
deviation, and the worker's residue, which is uniform, as the normal number of the same probability.
"""

from dataclasses import dataclass, replace
from typing import Final

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtri

from airmixml.arrays import Doubles
from airmixml.audit.faults import Fault
from airmixml.audit.isolating_filter import FormedMasks, draw_honest, listen
from airmixml.audit.isolating_listener import CHECKED_CHAPTER, COLLUDERS, FIRST_CHECKED_SLOT, check_standardised
from airmixml.audit.known_schedule import contributions, rounded_in_noise, skellam_numbers
from airmixml.audit.noise_check import NoiseCheck
from airmixml.audit.trials import Bench, Trials, seats_of_worker
from airmixml.integers.rounding import reduce, signed
from airmixml.radio.integer_sums import IntegerSums
from airmixml.radio.masking import any_masking
from airmixml.streams import Streams
from airmixml.wording import plural

_TRIALS_PER_BLOCK: Final = 8192
_CHAPTER: Final = 1 << 37  # behind those of all other attacks
_ROUND: Final = b"audit, one residue"


@dataclass(frozen=True, kw_only=True, eq=False)
class _Heard:
    """A slot of the audited worker, in one number."""

    sums: IntegerSums  # of which the worker's own noise alone counts
    worlds: tuple[float, float]  # its number with the canary and without


@dataclass(frozen=True, kw_only=True, eq=False)
class _Scored:
    """Scores trials, with the canary and without."""

    seed: int  # of noise and rounding
    slots: tuple[_Heard, ...]
    formed: FormedMasks | None  # masks; None where there are none
    recovers: bool  # whether masks may be recovered: then the self mask is left
    fault: Fault  # injected into the mechanism

    def __call__(self, block: int, size: int) -> Doubles:
        """Return the scores of a block of trials; 2 x size."""
        scores = np.zeros((2, size))
        for number, slot in enumerate(self.slots):
            move, code = slot.worlds[0] - slot.worlds[1], slot.sums.noise.code
            for world, sent in enumerate(slot.worlds):
                generator = Streams(self.seed).generator(
                    "audit", _CHAPTER + 2 * (block * len(self.slots) + number) + world
                )
                heard = rounded_in_noise(slot.sums, np.full((size, 1), sent), generator, self.fault)[:, 0]
                where = code.bits, 2 * number + world, block * _TRIALS_PER_BLOCK, size
                residues = reduce(reduce(heard, code.bits) + self._masks(*where), code.bits)
                precision = 1.0 / (slot.sums.noise.variance_per_worker * code.step)
                scores[world] += move * precision * signed(residues, code.bits)
        return scores

    def _masks(self, bits: int, slot: int, first: int, size: int) -> NDArray[np.uint64]:
        """Return what masks add; shape size."""
        if self.formed is None or self.fault.unmasked:
            return np.zeros(size, dtype=np.uint64)
        if self.recovers:
            return self.formed.self_residues(bits, slot, first, size)
        return self.formed.residues((self.formed.seat,), bits, slot, first, size)


def _formed(bench: Bench, worker: int) -> FormedMasks | None:
    """Return the masks that the worker shares with honest neighbours, in the seat of its first slot; None: none."""
    scenario = bench.air.scenario
    masking, generator = any_masking(scenario, None), Streams(scenario.seed).generator("audit", COLLUDERS)
    if masking.graph is None:
        return None
    places = (int(where) for kind in bench.kinds for *_, seat in seats_of_worker(kind, worker) for where in seat)
    own = next(places)
    listening = listen(masking, own, draw_honest(scenario, masking, own, generator), most_masks=0)
    return FormedMasks.of(listening, masking, seed=scenario.seed, round_id=_ROUND, reused=bench.fault.reused_seeds)


def residue_trials(bench: Bench, worker: int) -> Trials:
    """Return scores of trials in which the worker alone is listened to."""
    _, with_canary, without, every = contributions(bench, worker)
    slots = []
    for one, other, sums in zip(with_canary.double(), without.double(), every, strict=True):
        assert sums is not None
        place = int((one - other).abs().argmax())
        worlds = (sums.noise.workers * float(one[place]), sums.noise.workers * float(other[place]))
        slots.append(_Heard(sums=replace(sums, masked=False), worlds=worlds))
    scenario = bench.air.scenario
    scored = _Scored(
        seed=scenario.seed,
        slots=tuple(slots),
        formed=_formed(bench, worker),
        recovers=scenario.privacy.most_absent > 0.0,
        fault=bench.fault,
    )
    how = f"{plural(len(slots), 'slot')}, the residue of one number that the worker sends"
    return bench.run("one worker heard alone", min(_TRIALS_PER_BLOCK, bench.trials), scored, how=how)


def check_residues(bench: Bench, worker: int, failure: float) -> NoiseCheck:
    """Form what workers add in several slots, and return what it is like."""
    formed, sums, fault = _formed(bench, worker), bench.air.integers, bench.fault
    assert sums is not None
    bits, each = sums.noise.code.bits, sums.noise.variance_per_worker

    def standardised(slot: int, symbols: int) -> Doubles:
        generator = Streams(bench.air.scenario.seed).generator("audit", CHECKED_CHAPTER + slot)
        own = skellam_numbers(each, generator, (symbols,), fault)
        rest = own * 0
        if sums.carriers > 1:
            rest = skellam_numbers((sums.carriers - 1) * each, generator, (symbols,), fault)
        masks = others = np.zeros(symbols, dtype=np.uint64)
        if formed is not None and not fault.unmasked:
            where = bits, FIRST_CHECKED_SLOT + slot, 0, symbols
            masks = formed.residues((formed.seat,), *where)
            others = formed.residues((seat for seat in formed.seeds if seat != formed.seat), *where)
        sent = reduce(reduce(own, bits) + masks, bits)
        everybody = signed(reduce(sent + reduce(rest, bits) + others, bits), bits)
        within = generator.random((2, symbols)) - 0.5  # of a step: what is on steps has no density
        rows = [(everybody + within[0]) / np.sqrt(sums.carriers * each)]
        if formed is not None:
            rows.append(ndtri((signed(sent, bits) + within[1] + 0.5) / 2.0**bits + 0.5))
        return np.stack(rows)

    return check_standardised(bench, standardised, failure)
