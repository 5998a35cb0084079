"""
Power and privacy
=================

The receiver's noise hides the workers. The stronger they send, the more the server learns, and the more it learns about
each of them: a privacy target is a limit on power.
"""

import matplotlib.pyplot as plt

from airmixml import Scenario
from airmixml.planning import account_scenario
from airmixml.radio.privacy_target import private_received_watts
from airmixml.radio.system import sensitivity_of

EPSILONS = (5, 10, 30, 100, 1000)
scenario = Scenario.preset("paper-iris")
noise_watts = 10 ** (scenario.radio.noise_dbm / 10) / 1000
INPUTS, CLASSES = 4, 3

# %%
# Received power of a worker with share one, over the noise, that each accountant allows. All three bounds are for the
# same 1,000 slots of eight workers and delta = 0.01. ``paper-loose`` and ``pld`` are against an adversary who does not
# know the schedule, ``gdp`` is against the server, who does.

figure, axis = plt.subplots(figsize=(8, 4.2), layout="constrained")
for accountant, adversary in (("paper-loose", "release"), ("pld", "release"), ("gdp", "server")):
    powers = []
    for epsilon in EPSILONS:
        asked = scenario.with_overrides(
            f"privacy.epsilon={epsilon}", f"privacy.accountant={accountant}", f"privacy.adversary={adversary}"
        )
        powers.append(private_received_watts(asked, sensitivity_of(asked, INPUTS, CLASSES)) / noise_watts)
    axis.loglog(EPSILONS, powers, marker="o", label=f"{accountant}, against the {adversary}")
axis.set(xlabel="target epsilon", ylabel="received power of one worker over noise")
axis.legend()
plt.show()

# %%
# The other way round: with the power that the paper's bound allows for its target, what epsilon does each adversary
# face?

stated = {"release": [], "server": [], "eavesdropper": []}
for epsilon in EPSILONS:
    account = account_scenario(scenario.with_overrides(f"privacy.epsilon={epsilon}"), INPUTS, CLASSES)
    for adversary, epsilons in stated.items():
        epsilons.append(min(each.epsilon for each in account.statements if each.adversary == adversary))

figure, axis = plt.subplots(figsize=(8, 4.2), layout="constrained")
for adversary, epsilons in stated.items():
    axis.loglog(EPSILONS, epsilons, marker="o", label=adversary)
axis.axline((10, 10), (100, 100), color="grey", linestyle=":", label="the target")
axis.set(xlabel="target epsilon of the paper's bound", ylabel="smallest epsilon stated")
axis.legend()
plt.show()
