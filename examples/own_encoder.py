"""
An encoder of your own
======================

An encoder turns an input in [0, 1] into the features that a worker sends. The package centres them and bounds their
norm. Here each number fills up several features one after the other, like a thermometer.
"""

from dataclasses import replace

import matplotlib.pyplot as plt
import numpy as np

from airmixml import Scenario, simulate, train
from airmixml.workers import Encoder, FeatureCost


class Thermometer(Encoder):
    about, never_negative, takes_features = "numbers that fill up one after the other", True, False

    def __init__(self, levels):
        self.levels = levels

    def feature_count(self, workers, input_dim):
        return self.levels * input_dim

    def features(self, workers, unit_inputs, image_shape, rng):
        filled = self.levels * unit_inputs[:, :, None] - np.arange(self.levels)
        return np.clip(filled, 0.0, 1.0).astype(np.float32).reshape(len(unit_inputs), -1)

    def cost(self, workers, input_dim):
        return FeatureCost(multiply_accumulates=2 * self.levels * input_dim)


# %%
# It takes the place of a name. More levels let a linear learner bend its boundary, but spread the signal thinner; on
# Iris that does not pay.

base, levels = Scenario.preset("private-iris"), (1, 2, 4, 8)
encoders = [replace(base.workers, encoder=Thermometer(count)) for count in levels]
mixtures = [simulate(replace(base, workers=workers)) for workers in encoders]
accuracies = [100 * train(each).history.final_accuracy for each in mixtures]
figure, axis = plt.subplots(figsize=(6, 3.2), layout="constrained")
axis.plot(levels, accuracies, "o-", color="#3b6ea8")
axis.set(xlabel="levels per number", ylabel="accuracy, %")
plt.show()
