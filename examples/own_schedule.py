"""
A schedule of your own
======================

A schedule says who sends when, and how often a worker sends at most: privacy rests on that number. Here workers take
turns, so that all of them spend the same.
"""

from dataclasses import replace

import matplotlib.pyplot as plt
import numpy as np

from airmixml import Scenario, simulate
from airmixml.radio.schedules import Schedule


class InTurn(Schedule):
    about = "all workers in turn"

    def pick(self, slots, scheduled, workers, chances):
        return (slots[:, None] * scheduled + np.arange(scheduled)) % workers

    def most_participations(self, slots, scheduled, workers):
        return -(-slots * scheduled // workers)


# %%
# Every adversary is taken to know such a schedule. The server learns less of the worst worker, who sends less often
# than under a random one.

base = Scenario.preset("paper-iris").with_overrides("mixing.power=fixed", "mixing.power_scale_watts=1e-15")
reports = {
    name: simulate(replace(base, radio=replace(base.radio, schedule=schedule))).report
    for name, schedule in {"at random": "fixed", "in turn": InTurn()}.items()
}
figure, axis = plt.subplots(figsize=(6, 3.2), layout="constrained")
for name, report in reports.items():
    epsilon = report.privacy_against_server.epsilon
    counts = np.bincount(report.ledger.participations)
    axis.plot(counts, "o-", label=f"{name}: epsilon {epsilon:.3g} against the server")
axis.set(xlabel="slots that a worker sends in", ylabel="workers")
axis.legend()
plt.show()
