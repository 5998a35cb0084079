"""
An imperfect air
================

On the paper's channel all workers are in phase, on time, and known exactly. Here the same scenario runs on channel
profiles with phases, clocks, pilots, converters and absent workers. The privacy target holds on each: where gains may
err, workers send with less power.
"""

import matplotlib.pyplot as plt
import numpy as np

from airmixml import Scenario, simulate, train
from airmixml.scenario import AIR_PRESETS, air_summary

SEEDS = 3
scenario = Scenario.preset("private-iris")
accuracy, epsilon = {}, {}
for name in AIR_PRESETS:
    runs = [simulate(scenario.on_air(name).with_seed(seed)) for seed in range(SEEDS)]
    accuracy[name] = [100 * train(each).history.final_accuracy for each in runs]
    epsilon[name] = max(each.report.privacy.epsilon for each in runs)
    print(f"{name:9} {np.mean(accuracy[name]):5.1f} %, epsilon at most {epsilon[name]:.3f}: {air_summary(name)}")

# %%
figure, axis = plt.subplots(figsize=(8, 4), layout="constrained")
for place, name in enumerate(AIR_PRESETS):
    axis.bar(place, np.mean(accuracy[name]), yerr=np.std(accuracy[name]), capsize=4, width=0.6, color="#3b6ea8")
    axis.scatter(np.full(SEEDS, place), accuracy[name], color="#222222", s=12, zorder=3)
axis.set(xticks=range(len(AIR_PRESETS)), ylim=(0, 100), ylabel="test accuracy, %")
axis.set_xticklabels([f"{name}\nepsilon {epsilon[name]:.2f}" for name in AIR_PRESETS])
axis.set_title(f"private-iris, one slot, {SEEDS} seeds")
plt.show()
