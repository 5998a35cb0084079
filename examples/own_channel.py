"""
A channel of your own
=====================

Fading is the law of a channel's power around its mean, given by its quantiles. Of Nakagami fading it is a gamma law of
shape m: m = 1 is Rayleigh fading, a large m hardly fades.
"""

from dataclasses import replace

import matplotlib.pyplot as plt
from scipy.special import gammaincinv

from airmixml import Scenario, simulate
from airmixml.impairments.fading import Fading
from airmixml.scenario import Air


class Nakagami(Fading):
    about = "Nakagami fading"

    def __init__(self, m):
        self.m = m

    def quantile(self, chances):
        return gammaincinv(self.m, chances) / self.m


# %%
# Workers invert their channels, and those in a fade below -20 dB stay silent. So deep fades cost energy, not privacy.

base, shapes = Scenario.preset("private-iris"), (1.0, 2.0, 4.0, 16.0)
base = replace(base, air=Air(truncation_db=-20.0))
reports = [simulate(replace(base, radio=replace(base.radio, fading=Nakagami(m)))).report for m in shapes]
energies = [report.energy_joules for report in reports]
print(", ".join(f"m = {m:g}: {energy:.3g} J" for m, energy in zip(shapes, energies, strict=True)))
figure, axis = plt.subplots(figsize=(6, 3.2), layout="constrained")
axis.semilogx(shapes, energies, "o-", color="#3b6ea8")
axis.set(xlabel="m", ylabel="energy of all workers (J)", ylim=(0, None))
plt.show()
