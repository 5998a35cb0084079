"""
In a scikit-learn pipeline
==========================

``AirMixClassifier`` is a scikit-learn estimator: every row of ``X`` is the private sample of one worker. What stands
before it in a pipeline must not measure private rows; here it is a fixed function, which each worker can compute alone.
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_iris
from sklearn.model_selection import cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer

from airmixml import AirMixClassifier

inputs, classes = load_iris(return_X_y=True)
bounds = (0, 8)  # centimetres; public knowledge: any iris fits, whatever was measured here


def with_areas(flowers):
    """Append length times width of sepal and petal, brought to the same range."""
    return np.column_stack([flowers, flowers[:, 0] * flowers[:, 1] / 8, flowers[:, 2] * flowers[:, 3] / 8])


# %%
# Cross-validation releases the same rows several times over, so it is simulated:

EPSILONS = (0.5, 1, 3, 10)
figure, axis = plt.subplots(figsize=(8, 4), layout="constrained")
for label, function in (("four measurements", None), ("with areas", with_areas)):
    means = []
    for epsilon in EPSILONS:
        study = AirMixClassifier(epsilon=epsilon, input_bounds=bounds, mode="simulation", random_state=0)
        scores = cross_val_score(make_pipeline(FunctionTransformer(function), study), inputs, classes, cv=5)
        means.append(100 * scores.mean())
    axis.semilogx(EPSILONS, means, marker="o", label=label)
axis.set(xlabel="epsilon against the server, 120 workers", ylabel="accuracy in cross-validation, %")
axis.legend()
plt.show()

# %%
# The last fit is protected, and says what it reveals:

classifier = AirMixClassifier(epsilon=5, input_bounds=bounds, classes=(0, 1, 2))
model = make_pipeline(FunctionTransformer(with_areas), classifier)
model.fit(inputs, classes)[-1].privacy_
