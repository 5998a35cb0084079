"""
Mixing ratios
=============

In a slot the channel adds up the samples of a few workers, each with its share q. The shares are drawn from a Dirichlet
distribution: a small alpha lets one worker dominate, a large one gives equal shares.
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_digits

from airmixml import Scenario
from airmixml.radio.mixing import draw_ratios
from airmixml.randomness.slot_words import slot_words
from airmixml.streams import Streams

ALPHAS = (0.1, 1.0, 10.0, 1e5)
WORKERS, SLOTS = 4, 2000
images = load_digits().images[[10, 21, 13, 44]] / 16

# %%
# Above: how often the largest share of a slot has which size. Below: the mixture of the same four digits, with the
# shares of the first slot and without noise.

figure, axes = plt.subplots(2, len(ALPHAS), figsize=(11, 5.4), layout="constrained")
for (above, below), alpha in zip(axes.T, ALPHAS, strict=True):
    mixing = Scenario().with_overrides(f"mixing.alpha={alpha:g}").mixing
    ratios = draw_ratios(mixing, WORKERS, range(SLOTS), slot_words(Streams(0), "ratios")).numpy()
    above.hist(ratios.max(axis=1), bins=np.linspace(1 / WORKERS, 1, 31), color="#3b6ea8")
    above.set(title=f"alpha = {alpha:g}", xlabel="largest share", xlim=(0.2, 1.03), yticks=[])
    below.imshow(np.tensordot(ratios[0], images, 1), cmap="gray_r", vmin=0, vmax=1)
    below.set(xticks=[], yticks=[], xlabel="  ".join(f"{share:.2f}" for share in ratios[0]))
plt.show()

# %%
# Equal shares hide a worker best: the privacy bound of a slot depends on its largest share alone, and the smaller that
# is, the more power a privacy target allows.
