"""
An impairment of your own
=========================

An impairment gives every scheduled worker a gain. Here one worker in ten is behind an obstacle and arrives weaker.
"""

from dataclasses import replace

import matplotlib.pyplot as plt

from airmixml import Scenario, simulate
from airmixml.impairments.gains import Impairment
from airmixml.scenario import Air


class Obstacle(Impairment):
    about = "one worker in ten behind an obstacle"

    def __init__(self, gain):
        self.gain = gain

    def of(self, scenario):
        return self

    def gains(self, draws):
        return 1.0 - (1.0 - self.gain) * (draws.uniforms("obstacle") < 0.1).double()

    def largest_power_gain(self, failure):
        return 1.0  # nobody arrives more strongly than planned, which privacy rests on


# %%
# ``Air(also=...)`` takes it. The bound on its gain keeps the privacy target true.

base, gains = Scenario.preset("private-iris"), (1.0, 0.7, 0.4, 0.1)
mixtures = [simulate(replace(base, air=Air(also=(Obstacle(gain),)))) for gain in gains]
errors = [float((each.examples.clean_inputs - mixtures[0].examples.clean_inputs).norm()) for each in mixtures]
figure, axis = plt.subplots(figsize=(6, 3.2), layout="constrained")
axis.plot(gains, errors, "o-", color="#3b6ea8")
axis.set(xlabel="amplitude behind the obstacle", ylabel="error of the mixture")
plt.show()
