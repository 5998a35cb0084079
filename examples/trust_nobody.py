"""
Trust nobody
============

The receiver's noise protects nobody from a receiver that stands close, or has less noise. Where workers bring the noise
themselves, and masks that cancel in the sum, the target holds against everyone who hears each of them separately.
"""

import matplotlib.pyplot as plt
import numpy as np

from airmixml import Scenario, simulate, train

PRESETS = ("paper-iris", "private-iris", "trustless-iris")
ADVERSARIES = ("release", "server", "eavesdropper", "everyone")

# %%
# Each preset has the target epsilon 5. Against whom does it hold?

least, accuracy = {}, {}
for name in PRESETS:
    mixtures = simulate(Scenario.preset(name).with_overrides("learner.epochs=20"))
    accuracy[name] = 100 * train(mixtures).history.final_accuracy
    stated = {(each.adversary, each.epsilon) for each in mixtures.report.statements}
    least[name] = [min((e for who, e in stated if who == adversary), default=np.inf) for adversary in ADVERSARIES]
    print(f"{name:15} accuracy {accuracy[name]:.0f} %", dict(zip(ADVERSARIES, np.round(least[name], 1), strict=True)))

# %%
# A bar that reaches the top stands for no protection at all: somebody who hears each worker without noise reads its
# sample.

top = 1e6
figure, axis = plt.subplots(figsize=(9, 4.4), layout="constrained")
for place, name in enumerate(PRESETS):
    heights = np.minimum(least[name], top)
    axis.bar(np.arange(len(ADVERSARIES)) + 0.27 * (place - 1), heights, 0.25, label=f"{name}: {accuracy[name]:.0f} %")
axis.axhline(5, color="grey", linestyle=":")
axis.set(yscale="log", ylim=(0.5, top), ylabel="smallest epsilon stated", xticks=range(len(ADVERSARIES)))
axis.set_xticklabels(ADVERSARIES)
axis.legend(title="preset: test accuracy")
plt.show()
