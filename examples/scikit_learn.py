"""Private over-the-air training as a scikit-learn estimator, compared over the dispersion alpha."""

from sklearn.datasets import load_iris
from sklearn.model_selection import cross_val_score

from airmixml import AirMixClassifier

inputs, classes = load_iris(return_X_y=True)
bounds = ([4.3, 2.0, 1.0, 0.1], [7.9, 4.4, 6.9, 2.5])  # public knowledge of the flowers, not measured here

for alpha in (1.0, 1e5):
    model = AirMixClassifier(epsilon=20.0, alpha=alpha, input_bounds=bounds, epochs=30, random_state=0)
    scores = cross_val_score(model, inputs, classes, cv=3)
    fitted = model.fit(inputs, classes)
    print(f"alpha {alpha:g}: accuracy {scores.mean():.2f}, {fitted.energy_joules_:.2g} J, {fitted.privacy_}")
