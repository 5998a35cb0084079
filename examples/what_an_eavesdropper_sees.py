"""
What an eavesdropper sees
=========================

Workers set their power so that all of them arrive at the server with the share that it asked for. Elsewhere they do
not: a receiver that stands beside a worker hears that one far louder than the others.
"""

import matplotlib.pyplot as plt
import numpy as np

from airmixml import Scenario
from airmixml.attacks import watch
from airmixml.attacks.eavesdropper import align_phase, overhear

# %%
# Digits, four workers in each slot, with a target of epsilon 10 against readers of the mixtures. The eavesdropper
# stands ten metres beyond the worker that is farthest from the server, and so sends loudest.

scenario = Scenario.preset("digits").with_overrides(
    "radio.slots=1000", "workers.count=250", "mixing.alpha=1e5", "mixing.power=dp", "privacy.epsilon=10"
)
view = watch(scenario)
heard = overhear(view)

# %%
# The eavesdropper knows no schedule, but it knows which slots are loud. The six workers that it hears best, each in its
# loudest slot: what the worker holds, what the server received, and what the eavesdropper received.

pictures = view.dataset.train_inputs
loudness = heard.symbols.abs().square().sum(dim=1).numpy()
loudest_first = np.argsort(-loudness)
_, first = np.unique(heard.strongest_worker[loudest_first], return_index=True)
slots = loudest_first[np.sort(first)[:6]]
rows = {
    "the worker holds": pictures[view.held_index[heard.strongest_worker[slots]]],
    "the server receives": view.released[slots].numpy(),
    "the eavesdropper receives": align_phase(heard.symbols)[slots, : pictures.shape[1]].numpy(),
}
figure, axes = plt.subplots(len(rows), len(slots), figsize=(9, 4.8), layout="constrained")
for line, (name, images) in zip(axes, rows.items(), strict=True):
    for axis, image in zip(line, images, strict=True):
        axis.imshow(np.reshape(image, (8, 8)), cmap="gray_r")
        axis.set(xticks=[], yticks=[])
    line[0].set_ylabel(name, rotation=0, ha="right", va="center")
plt.show()

# %%
# The worker beside it lies open; the farther ones fade into the noise. Every statement says against whom it holds; this
# run's smallest epsilon against each adversary:

for adversary in ("release", "server", "eavesdropper"):
    stated = [each.epsilon for each in view.transmission.report.statements if each.adversary == adversary]
    print(f"{adversary:13} {min(stated):,.1f}")
