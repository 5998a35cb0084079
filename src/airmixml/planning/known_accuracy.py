"""Accuracies of a few public designs, measured at several noise levels: what a plan may expect without reading data.

Accuracy depends on how much noise there is, not on whose it is. Each table has the standard deviation of the noise on a
symbol of the mean over all workers, in units of a worker's own symbol, and the mean accuracy in per cent, measured with
the receiver's noise alone against the server: ``airmix run --preset NAME --set privacy.epsilon=E --seeds S`` with
``privacy.noise=receiver`` and ``privacy.adversary=server``, S = 3 for MNIST (2 beyond a deviation of 1e-3), else 20.
"""

import math
from typing import Final

import numpy as np

from airmixml.scenario import Scenario

_MEASURED: Final[dict[str, tuple[tuple[float, float], ...]]] = {
    "trustless-mnist": (
        (9.31e-6, 98.85),
        (6.95e-5, 98.13),
        (1.31e-4, 97.63),
        (5.73e-4, 95.27),
        (1.71e-3, 92.2),
        (4.54e-3, 78.8),
    ),
    "trustless-digits": (
        (8.82e-5, 92.1),
        (2.00e-4, 91.5),
        (4.66e-4, 89.8),
        (1.30e-3, 86.0),
        (3.48e-3, 73.8),
        (1.05e-2, 40.5),
        (2.87e-2, 17.6),
    ),
    "trustless-iris": (
        (1.21e-4, 97.4),
        (2.48e-4, 96.7),
        (5.84e-4, 96.1),
        (1.33e-3, 95.6),
        (3.22e-3, 95.3),
        (6.75e-3, 94.9),
    ),
}


def known_accuracy(scenario: Scenario, noise_deviation: float) -> float | None:
    """Return the accuracy in per cent to expect of a measured design with that noise; None beyond what was measured."""
    for name, measured in _MEASURED.items():
        preset = Scenario.preset(name)
        if (scenario.workers, scenario.learner) == (preset.workers, preset.learner):
            deviations, accuracies = zip(*measured, strict=True)
            if noise_deviation > deviations[-1]:
                return None
            return float(np.interp(math.log(noise_deviation), np.log(deviations), accuracies))
    return None
