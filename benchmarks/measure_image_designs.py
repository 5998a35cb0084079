"""Accuracy of one slot and of rounds against noise, for several feature counts: what ``airmix plan`` expects of images.

    python benchmarks/measure_image_designs.py --dataset digits --features 512 >> FILE

appends rows to ``src/airmixml/planning/image_accuracies.csv``. Noise is the standard deviation on a symbol of the mean,
over the longest vector that a worker can send: 1 / (N mu) for a Gaussian mechanism. Rows of MNIST and Fashion-MNIST are
of the same mechanism without a radio, on an H200.
"""

import argparse
from itertools import product

from airmixml import Scenario, settle
from airmixml.edge import learn
from airmixml.privacy.gaussian import gaussian_mu
from airmixml.streams import Streams
from airmixml.workers import load_dataset

SEEDS, ROUNDS, EPSILONS = 3, (0, 4, 8, 20), (0.3, 1.0, 3.0, 10.0)


def main() -> None:
    """Print one row for each number of features and rounds and each noise: the accuracy of every seed."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--dataset", default="digits")
    parser.add_argument("--encoder", default="cells")
    parser.add_argument("--features", default="512")
    asked = parser.parse_args()
    keys = (f"workers.dataset={asked.dataset}", f"workers.encoder={asked.encoder}")
    preset = settle(Scenario.preset("private-images").with_overrides(*keys))
    count = preset.workers.count
    for features in asked.features.split(","):
        found: dict[tuple[int, float], list[float]] = {}
        for seed in range(SEEDS):
            encoded = preset.with_overrides(f"workers.features={features}").with_seed(seed)
            data = load_dataset(encoded.workers, Streams(seed))
            for rounds, epsilon in product(ROUNDS, EPSILONS):
                scenario = encoded.with_overrides(f"privacy.epsilon={epsilon}", f"learner.rounds={rounds}")
                accuracy = learn(scenario, dataset=data).trained.history.final_accuracy
                found.setdefault((rounds, epsilon), []).append(accuracy)
        for (rounds, epsilon), accuracies in found.items():
            noise = 1.0 / count / gaussian_mu(epsilon, preset.privacy.delta)
            shown = " ".join(f"{accuracy:.4f}" for accuracy in accuracies)
            print(f"{asked.encoder},{asked.dataset},{count},{features},{rounds},{noise:.4g},{shown}", flush=True)


if __name__ == "__main__":
    main()
