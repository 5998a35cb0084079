"""
Mixing ratios of your own
=========================

A mixing policy makes the shares of a slot of uniform random numbers. Here each share is half of the one before; they
are dealt out to the workers in random order.
"""

from dataclasses import replace

import matplotlib.pyplot as plt
import numpy as np

from airmixml import Scenario, simulate
from airmixml.radio.mixing import Ratios


class Falling(Ratios):
    about = "each share a part of the one before"

    def __init__(self, part):
        self.part = part

    def shares(self, chances):
        weights = self.part ** np.arange(chances.shape[1])
        return np.tile(weights / weights.sum(), (len(chances), 1))


# %%
# The power of a slot follows from its largest share: the target holds for any shares, and unequal ones leave less
# signal of the others.

base, parts = Scenario.preset("paper-iris"), (1.0, 0.8, 0.5, 0.25)
reports = [simulate(replace(base, mixing=replace(base.mixing, policy=Falling(part)))).report for part in parts]
epsilons = [report.privacy.epsilon for report in reports]
energies = [report.energy_joules for report in reports]
figure, axis = plt.subplots(figsize=(6, 3.2), layout="constrained")
axis.plot(parts, energies, "o-", color="#3b6ea8")
axis.set(xlabel="share over the one before", ylabel="energy of all workers (J)", ylim=(0, None))
plt.show()
