"""Synthetic tables: rows with classes that no one holds, to try designs on before any data is read.

Real tables differ, but some traits are common to them. Few directions hold most of the variance. Classes differ in some
of these and in others that hardly vary. Some classes fall into groups. Columns are skewed, and round bounds leave them
far from the middle. Several kinds are made, so that no design is chosen for a single one.
"""

from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.random import Generator

from airmixml.arrays import Integers, Singles
from airmixml.planning.slot_designs import InputMoments

_DIRECTIONS: Final = 6  # in which classes differ, the first few of those that vary most


@dataclass(frozen=True, kw_only=True)
class TableKind:
    """One kind of table."""

    decay: float  # variances along the principal directions fall as k to the power of minus this
    groups: int  # how many groups a class falls into
    separation: float  # distance of classes and groups, in deviations of the direction that they differ in


# Chosen so that the order of designs agrees with that on the tables penbased, segment, phoneme and texture of KEEL.
KINDS: Final = (
    TableKind(decay=1.0, groups=1, separation=1.6),
    TableKind(decay=1.6, groups=2, separation=2.0),
    TableKind(decay=1.0, groups=4, separation=4.0),
    TableKind(decay=0.5, groups=4, separation=3.0),
)


@dataclass(frozen=True, kw_only=True, eq=False)
class SyntheticTable:
    """Rows in [0, 1] with classes, half of them to learn from and half to test on."""

    train_inputs: Singles
    train_labels: Integers
    test_inputs: Singles
    test_labels: Integers


def make_table(
    kind: TableKind, *, rows: int, inputs: int, classes: int, moments: InputMoments, rng: Generator
) -> SyntheticTable:
    """Return a table with so many rows to learn from, and as many to test on.

    ``moments`` are about those of a column that was scaled to [0, 1] by its bounds.
    """
    count = 2 * rows
    deviations = np.arange(1.0, inputs + 1.0) ** (-kind.decay / 2.0)
    labels = rng.integers(0, classes, count)
    differing = min(inputs, _DIRECTIONS + classes // 2)
    centres = np.zeros((classes, kind.groups, inputs))
    centres[:, :, :differing] = rng.standard_normal((classes, 1, differing))
    if kind.groups > 1:
        centres[:, :, :differing] += rng.standard_normal((classes, kind.groups, differing))
    centres *= kind.separation * deviations / np.sqrt(kind.groups + 1.0)
    groups = rng.integers(0, kind.groups, count)
    latent = centres[labels, groups] + deviations * rng.standard_normal((count, inputs))
    rotation, _ = np.linalg.qr(rng.standard_normal((inputs, inputs)))
    columns = latent @ rotation
    columns /= columns.std(axis=0)
    skewed = rng.random(inputs) < 0.5
    columns[:, skewed] = np.expm1(0.5 * columns[:, skewed])
    columns -= columns.mean(axis=0)
    columns /= columns.std(axis=0)
    widths = moments.deviation * np.exp(0.4 * rng.standard_normal(inputs))
    middles = np.clip(moments.mean + 0.15 * rng.standard_normal(inputs), 0.05, 0.95)
    unit = np.clip(middles + widths * columns, 0.0, 1.0).astype(np.float32)
    return SyntheticTable(
        train_inputs=unit[:rows], train_labels=labels[:rows], test_inputs=unit[rows:], test_labels=labels[rows:]
    )
