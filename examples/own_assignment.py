"""
An assignment of your own
=========================

An assignment says which worker of a slot gets which mixing ratio, and may look at their channels. Here the largest
ratio goes to the weakest channel, the opposite of ``max-min``.
"""

from dataclasses import replace

import matplotlib.pyplot as plt
import numpy as np

from airmixml import Scenario, simulate
from airmixml.radio.mixing import Assignment


class ToTheWeakest(Assignment):
    about = "the largest ratio to the weakest channel"

    def assign(self, ratios, magnitude, chances):
        rank = (-magnitude).argsort(axis=1).argsort(axis=1)
        return np.take_along_axis(np.sort(ratios, axis=1), rank, axis=1)


# %%
# Such ratios depend on who was scheduled, so a hidden schedule hides nobody. ``random`` and ``max-min`` keep that
# credit.

base = Scenario.preset("paper-iris").with_overrides("mixing.alpha=5", "mixing.power=max")
assignments = {"to the weakest": ToTheWeakest(), "random": "random", "max-min": "max-min"}
draws = {
    name: simulate(replace(base, mixing=replace(base.mixing, assignment=rule))).examples.draws
    for name, rule in assignments.items()
}
figure, axis = plt.subplots(figsize=(6, 3.2), layout="constrained")
for name, drawn in draws.items():
    axis.loglog(drawn.magnitude.ravel(), drawn.ratios.ravel(), ".", label=name)
axis.set(xlabel="amplitude of the channel", ylabel="mixing ratio")
axis.legend()
plt.show()
