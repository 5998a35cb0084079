"""
A path loss of your own
=======================

A path loss is a function of the distance, in decibels. Here a signal weakens as in free space up to a breakpoint, and
with twice the slope beyond.
"""

from dataclasses import replace

import matplotlib.pyplot as plt
import numpy as np

from airmixml import Scenario, simulate
from airmixml.impairments.fading import PathLoss


class TwoSlopes(PathLoss):
    about = "20 dB per decade, then 40"

    def __init__(self, breakpoint_metres):
        self.breakpoint_metres = breakpoint_metres

    def loss_db(self, distance_metres):
        beyond = np.maximum(distance_metres / self.breakpoint_metres, 1.0)
        return 32.0 + 20.0 * np.log10(distance_metres) + 20.0 * np.log10(beyond)


# %%
# Workers invert their channels: a lossy path costs energy, not privacy.

base, breakpoints = Scenario.preset("private-iris"), (50.0, 100.0, 200.0, 400.0)
paths = [replace(base.radio, path_loss=TwoSlopes(metres)) for metres in breakpoints]
reports = [simulate(replace(base, radio=radio)).report for radio in paths]
energies = [report.energy_joules for report in reports]
epsilons = [report.privacy.epsilon for report in reports]
print(", ".join(f"{metres:g} m: {energy:.3g} J" for metres, energy in zip(breakpoints, energies, strict=True)))
figure, axis = plt.subplots(figsize=(6, 3.2), layout="constrained")
axis.plot(breakpoints, energies, "o-", color="#3b6ea8")
axis.set(xlabel="breakpoint (m)", ylabel="energy of all workers (J)", ylim=(0, None))
plt.show()
