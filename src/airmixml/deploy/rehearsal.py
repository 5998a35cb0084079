"""What a trial will learn, before it is started: its sums are drawn many times, with noise that is new each time."""

from collections.abc import Sequence
from pathlib import Path
from typing import Final

import numpy as np

from airmixml.data import DataSet
from airmixml.deploy.contract import Contract
from airmixml.deploy.rounds import Sum
from airmixml.deploy.server_process import Teacher
from airmixml.deploy.worker_process import vectors

REHEARSALS: Final = 20


def rehearse(contract: Contract, dataset: DataSet, rows: Sequence[Path]) -> list[float]:
    """Return the accuracies on test rows that so many runs would end with, in rising order; the rows must be public.

    Each file of ``rows`` is of one worker, and all take part in every round. Masks leave nothing in a sum, and its
    noise is nearly normal, so a run is its vectors and normal numbers. Empty where nothing is scored.
    """
    held, random = [vectors(contract, path, 1)(0) for path in rows], np.random.default_rng()
    teacher, everyone = Teacher(contract, dataset), tuple(range(len(rows)))
    found = []
    for _ in range(REHEARSALS):
        sums = list[Sum]()
        for number, place in enumerate(contract.schedule):
            kind = contract.kinds[place]
            told = teacher.tell(sums) if kind.sends == "gradients" else None
            mean, variance = np.mean([each(place, told) for each in held], axis=0), kind.noise_variance(len(rows))
            noise = np.sqrt(variance) * random.standard_normal(kind.numbers)
            sums.append(Sum(number, place, everyone, mean + noise, variance))
        score = teacher.score(sums)
        if score is None:
            return []
        found.append(score)
    return sorted(found)


def told_of(accuracies: Sequence[float]) -> str:
    """Return in a line what such accuracies say."""
    least, half, most = (100.0 * each for each in (accuracies[0], float(np.median(accuracies)), accuracies[-1]))
    return (
        f"rehearsed {len(accuracies)} times: {least:.0f} to {most:.0f} % accuracy on the test rows, half of them below "
        f"{half:.0f} %; with all workers in every round, and noise that is new each time"
    )
