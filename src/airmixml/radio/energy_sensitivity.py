"""How far one worker moves what is received where the server detects energies.

A worker with the symbols v sends amplitudes in proportion to a = (sqrt(v+), sqrt(v-)), its positive parts on one
resource and its negative parts on the other. What the server receives is complex Gaussian around a sum of such vectors,
turned by phases that it knows at worst; so the move of neighbours is one of a, times sqrt(beta q).

A worker that falls silent: ||a||^2 = ||v||_1.
Another sample: ||a - a'||^2 <= ||v - v'||_1, since for numbers that are not negative
(sqrt(r) - sqrt(s))^2 <= |sqrt(r) - sqrt(s)| (sqrt(r) + sqrt(s)) = |r - s|, and |v+ - v'+| + |v- - v'-| = |v - v'|: the
two parts of a number never move in the same direction. Besides, a . a' >= 0, so it is at most ||v||_1 + ||v'||_1.

An absolute sum over d numbers is up to sqrt(d) times their norm. This is what detection by energy costs privacy.
"""

import math

from airmixml.privacy import Sensitivity
from airmixml.workers import Signal


def energy_sensitivity(signal: Signal, squared_norm: float, squared_distance: float) -> Sensitivity:
    """Return the bounds on ||a||^2 and ||a - a'||^2, for inputs with these bounds on ||x||^2 and ||x - x'||^2.

    Samples: ||x||_1 + w ||l||_1, with ||x||_1 <= sqrt(d) ||x||. Moments: ||svec(x x^T)||_1 is ||x||^2 plus sqrt(2)
    times the sum of |x_k x_l| over k < l, so ||x||_1^2 / sqrt(2) + (1 - 1 / sqrt(2)) ||x||^2, which is at most
    (d / sqrt(2) + 1 - 1 / sqrt(2)) ||x||^2; the products with the label add w ||x||_1 ||l||_1. All are attained where
    the numbers of an input are equally large.
    """
    root, label = math.sqrt(signal.features), signal.label_weight * largest_label_sum(signal)
    if not signal.moments:
        inputs = root * math.sqrt(squared_norm)
        moved = min(2.0 * inputs, root * math.sqrt(squared_distance))
        return Sensitivity(removal=inputs + label, replacement=moved + 2.0 * label)
    half = math.sqrt(0.5)
    removal = (half * signal.features + 1.0 - half) * squared_norm + label * root * math.sqrt(squared_norm)
    farthest = signal.largest_squared_distance(squared_norm, squared_distance)
    return Sensitivity(removal=removal, replacement=min(2.0 * removal, math.sqrt(signal.symbols * farthest)))


def largest_label_sum(signal: Signal) -> float:
    """Return the bound on ||l||_1 of a label with ||l|| <= 1: 1 for one number that is 1, sqrt(K) for any K numbers.

    A centred label has one number sqrt(1 - 1/K) and K - 1 that together are as large below zero.
    """
    if signal.centred_labels:
        return 2.0 * math.sqrt(1.0 - 1.0 / signal.classes)
    return math.sqrt(signal.classes) if signal.signed else 1.0
