"""
A power policy of your own
==========================

A power policy is an object. Here it uses a share of the power that the privacy target allows, so that an epsilon still
holds if the receiver has less noise than stated.
"""

from dataclasses import replace

import matplotlib.pyplot as plt

from airmixml import Scenario, simulate
from airmixml.radio.mixing import PowerPolicy


class Share(PowerPolicy):
    about, keeps_target = "a share of what the target allows", True

    def __init__(self, share):
        self.share = share

    def received_watts(self, scenario, private_watts):
        return self.share * private_watts()


# %%
# It takes the place of a name: in scenarios for ``run``, ``simulate`` or ``sweep``, and in ``AirMixClassifier``.

base, shares = Scenario.preset("private-iris"), (1.0, 0.5, 0.25, 0.1)
reports = [simulate(replace(base, mixing=replace(base.mixing, power=Share(share)))).report for share in shares]
epsilons = [report.privacy.epsilon for report in reports]
print(", ".join(f"share {share:g}: epsilon {epsilon:.3g}" for share, epsilon in zip(shares, epsilons, strict=True)))
figure, axis = plt.subplots(figsize=(6, 3.2), layout="constrained")
axis.plot(shares, epsilons, "o-", color="#3b6ea8")
axis.set(xlabel="share of the allowed power", ylabel="epsilon", ylim=(0, None))
plt.show()
