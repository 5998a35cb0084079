"""Private over-the-air training as a scikit-learn estimator: accuracy against epsilon, by cross-validation."""

from sklearn.datasets import load_iris
from sklearn.model_selection import cross_val_score

from airmixml import AirMixClassifier

inputs, classes = load_iris(return_X_y=True)  # every row is the private sample of one worker
bounds = (0, 8)  # centimetres; public knowledge: any iris fits, whatever was measured here

for epsilon in (1.0, 5.0, 20.0):
    # Cross-validation releases the same rows several times over, so it is simulated; the last fit is protected.
    study = AirMixClassifier(epsilon=epsilon, input_bounds=bounds, mode="simulation", random_state=0)
    scores = cross_val_score(study, inputs, classes)
    fitted = AirMixClassifier(epsilon=epsilon, input_bounds=bounds).fit(inputs, classes)
    print(f"accuracy {scores.mean():.2f}, {fitted.privacy_}")
