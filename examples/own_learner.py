"""
A learner of your own
=====================

A learner builds the network that the server trains on the mixtures. Here it is one layer, or two with another
activation.
"""

from dataclasses import replace

import matplotlib.pyplot as plt
from torch import nn

from airmixml import Scenario, simulate, train
from airmixml.edge import LearnerModel


class Layers(LearnerModel):
    about = "one or two layers"

    def __init__(self, hidden):
        self.hidden = hidden

    def build(self, learner, input_dim, label_dim, image_shape):
        if not self.hidden:
            return nn.Sequential(nn.Linear(input_dim, label_dim))
        return nn.Sequential(nn.Linear(input_dim, self.hidden), nn.ReLU(), nn.Linear(self.hidden, label_dim))


# %%
# ``learner.epochs``, ``learner.loss`` and the other keys of training hold for it too.

base = Scenario.preset("paper-iris").with_overrides("mixing.power=max", "mixing.alpha=0.1", "learner.epochs=30")
figure, axis = plt.subplots(figsize=(6, 3.2), layout="constrained")
finals = {}
for hidden in (0, 16):
    scenario = replace(base, learner=replace(base.learner, model=Layers(hidden)))
    history = train(simulate(scenario)).history
    finals[hidden] = history.final_accuracy
    axis.plot(history.test_accuracy, label=f"{hidden} hidden units" if hidden else "one layer")
axis.set(xlabel="epoch", ylabel="test accuracy", ylim=(0, 1))
axis.legend()
plt.show()
