"""
Your own table, protected
=========================

A table in which every row belongs to somebody: here, measurements of cell nuclei from 569 biopsies. Each row sits on a
device of its own; the server learns a model from their sum and nothing about one of them.
"""

from sklearn.datasets import load_breast_cancer
from sklearn.model_selection import train_test_split

# %%
# Declare bounds from what you know without the data: the range of an instrument, a scale, a unit. Measured on the rows
# they would leak them. Values outside are clipped. Classes are declared for the same reason.

bounds = {
    "mean radius": (5, 30),
    "mean texture": (5, 40),
    "mean perimeter": (40, 200),
    "mean concave points": (0, 0.25),
    "worst radius": (5, 40),
    "worst concave points": (0, 0.3),
}
rows, classes = load_breast_cancer(return_X_y=True, as_frame=True)
private_rows, public_rows, private_classes, public_classes = train_test_split(
    rows[list(bounds)], classes, test_size=0.3, random_state=0
)

# %%
# The fit is *protected*: its noise comes from the operating system and is forgotten. The object holds what the
# statement covers and nothing else, so it may be stored and handed on.

from airmixml import AirMixClassifier

model = AirMixClassifier(epsilon=1, input_bounds=bounds, classes=(0, 1))
model.fit(private_rows, private_classes)
model.privacy_

# %%
# On rows that are public anyway it can be tested:

print(f"accuracy on the public rows: {100 * model.score(public_rows, public_classes):.1f} %")

# %%
# How accuracy depends on epsilon is a question for simulations, on data that may be seen: every further fit of private
# rows releases them once more.

import matplotlib.pyplot as plt
import numpy as np

EPSILONS, SEEDS = (0.1, 0.3, 1, 3, 10), 4
scores = np.array(
    [
        [
            AirMixClassifier(epsilon=epsilon, input_bounds=bounds, mode="simulation", random_state=seed)
            .fit(private_rows, private_classes)
            .score(public_rows, public_classes)
            for seed in range(SEEDS)
        ]
        for epsilon in EPSILONS
    ]
)
figure, axis = plt.subplots(figsize=(8, 4), layout="constrained")
axis.errorbar(EPSILONS, 100 * scores.mean(axis=1), 100 * scores.std(axis=1), marker="o", capsize=3)
axis.set(xscale="log", xlabel="epsilon against the server", ylabel="accuracy on public rows, %")
axis.set_title(f"{len(private_rows)} workers with one row each, mean and deviation over {SEEDS} seeds")
plt.show()

# %%
# A second fit releases the rows again. What all protected fits of this process reveal together, at most:

model.fit(private_rows, private_classes).joint_privacy_

# %%
# The same with files, as ``airmix run --private`` does it. The folder holds the model, the statements and nothing
# un-noised:

from pathlib import Path
from tempfile import TemporaryDirectory

from airmixml import Scenario, run

with TemporaryDirectory() as folder:
    table = Path(folder, "cells.csv")
    private_rows.assign(kind=private_classes).to_csv(table, index=False)
    lower, upper = ([pair[side] for pair in bounds.values()] for side in (0, 1))
    scenario = Scenario.preset("private-table").with_overrides(
        f"workers.dataset={table}",
        "workers.label_column=kind",
        "workers.classes=[0, 1]",
        f"workers.input_lower={lower}",
        f"workers.input_upper={upper}",
    )
    run(scenario, private=True, out=Path(folder, "cells"))
    print(sorted(path.name for path in Path(folder, "cells").iterdir()))
