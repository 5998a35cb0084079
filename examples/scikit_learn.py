"""Private over-the-air training as a scikit-learn estimator: accuracy against epsilon, by cross-validation."""

from sklearn.datasets import load_iris
from sklearn.model_selection import cross_val_score

from airmixml import AirMixClassifier

inputs, classes = load_iris(return_X_y=True)  # centimetres; every row is the private sample of one worker

for epsilon in (1.0, 5.0, 20.0):
    model = AirMixClassifier(
        epsilon=epsilon,
        delta=1e-3,
        adversary="server",
        accountant="gdp",
        adjacency="remove-one",
        input_bounds=(0, 10),  # public knowledge: any iris fits, whatever was measured here
        encoder="clip",
        centre="public",
        constant=0.5,
        sends="moments",
        policy="equalmix",
        scheduled=len(inputs),
        slots=1,
        model="lda",
        random_state=0,
    )
    scores = cross_val_score(model, inputs, classes)
    fitted = model.fit(inputs, classes)
    print(f"accuracy {scores.mean():.2f}, {fitted.privacy_}")
