"""Several labels at once: the share of labels that are right after one slot, and after 20 rounds.

Digits are even, above four, prime, and drawn with a loop or not; breast cancer's tumours are malignant or not, and
larger, rougher and more concave than most or not, told from the columns of their standard errors and worst values.
"""

import argparse

import numpy as np
from sklearn.datasets import load_breast_cancer, load_digits
from sklearn.model_selection import train_test_split

from airmixml import AirMixClassifier


def digits() -> tuple[np.ndarray, np.ndarray, tuple[object, object]]:
    """Return images, four labels of each, and bounds."""
    rows, digit = load_digits(return_X_y=True)
    labels = [digit % 2 == 0, digit > 4, np.isin(digit, (2, 3, 5, 7)), np.isin(digit, (0, 6, 8, 9))]
    return rows, np.column_stack(labels).astype(int), (0, 16)


def tumours() -> tuple[np.ndarray, np.ndarray, tuple[object, object]]:
    """Return the last 20 columns, four labels of which three come from the others, and bounds."""
    rows, benign = load_breast_cancer(return_X_y=True)
    labels = [benign == 0, *(rows[:, column] > np.median(rows[:, column]) for column in (0, 4, 6))]
    kept = rows[:, 10:]
    return kept, np.column_stack(labels).astype(int), (kept.min(axis=0), kept.max(axis=0))


def main() -> None:
    """Print mean and standard deviation over the seeds."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, default=10)
    seeds = range(parser.parse_args().seeds)
    for load in (digits, tumours):
        rows, labels, bounds = load()
        for epsilon in (1.0, 10.0):
            for rounds in (0, 20):
                right = []
                for seed in seeds:
                    train, test, known, wanted = train_test_split(rows, labels, test_size=1 / 3, random_state=seed)
                    model = AirMixClassifier(
                        epsilon=epsilon, input_bounds=bounds, rounds=rounds, mode="simulation", random_state=seed
                    )
                    right.append(100.0 * (model.fit(train, known).predict(test) == wanted).mean())
                told = f"{np.mean(right):.1f} +- {np.std(right, ddof=1):.1f} %"
                print(f"{load.__name__}, epsilon {epsilon:g}, {rounds} rounds: {told}")


if __name__ == "__main__":
    main()
