"""
An adversary of your own
========================

An adversary says what it sees of a design; accountants then say what it can learn. Here the server has further
receivers, and the noise of their average hides workers less.
"""

from dataclasses import dataclass, replace

import matplotlib.pyplot as plt

from airmixml import Scenario, simulate
from airmixml.privacy import Server


@dataclass(frozen=True, kw_only=True)
class Receivers(Server):
    about, name = "the server with several receivers", "receivers"
    count: int

    def of(self, scenario, power_gain):
        return self

    def heard(self, design):
        return replace(super().heard(design), noise_watts=design.noise_watts / self.count)


# %%
# As the scenario's adversary it decides how strongly workers may send: the target holds against it, for energy.

base, counts = Scenario.preset("private-iris"), (1, 2, 4, 8)
targets = [replace(base.privacy, adversary=Receivers(count=count)) for count in counts]
reports = [simulate(replace(base, privacy=privacy)).report for privacy in targets]
epsilons = [report.privacy.epsilon for report in reports]
energies = [report.energy_joules for report in reports]
figure, axis = plt.subplots(figsize=(6, 3.2), layout="constrained")
axis.plot(counts, energies, "o-", color="#3b6ea8")
axis.set(xlabel="receivers", ylabel="energy that the target allows (J)", ylim=(0, None))
plt.show()
