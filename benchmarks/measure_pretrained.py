"""Measure what docs/extending.md tells of a pretrained encoder: Fashion-MNIST, one shot, against the server.

    python examples/pretrained_encoder.py features.onnx
    python benchmarks/measure_pretrained.py --encoder onnx:features.onnx --out benchmarks/results/pretrained.json

The size of the images and the number of blocks were chosen on 10,000 held-out training images; the test set is used
here alone. Features do not depend on the seed, so they are computed once.
"""

from __future__ import annotations

import argparse
import statistics
import time
from pathlib import Path

from airmixml import Scenario, __version__, settle
from airmixml.edge import learn
from airmixml.streams import Streams
from airmixml.workers import Signal, load_dataset, worker_cost
from results_file import show_and_write


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--encoder", default="onnx:features.onnx")
    parser.add_argument("--dataset", default="fashion-mnist")
    parser.add_argument("--epsilons", type=float, nargs="+", default=[1.0, 10.0])
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--data-dir", type=Path)
    parser.add_argument("--out", type=Path)
    arguments = parser.parse_args()
    started = time.perf_counter()
    changes = (f"workers.dataset={arguments.dataset}", f"workers.encoder={arguments.encoder}")
    scenario = settle(Scenario.preset("private-images").with_overrides(*changes), data_dir=arguments.data_dir)
    dataset = load_dataset(scenario.workers, Streams(scenario.seed), data_dir=arguments.data_dir)
    seconds_to_encode = time.perf_counter() - started
    signal = Signal.of(scenario.workers, dataset.input_dim, dataset.label_dim)
    rows = []
    for epsilon in arguments.epsilons:
        single = scenario.with_overrides(f"privacy.epsilon={epsilon}")
        runs = [learn(single.with_seed(seed), dataset=dataset) for seed in range(arguments.seeds)]
        scores = [run.trained.history.final_accuracy for run in runs]
        stated = runs[0].transmission.report.privacy
        rows.append(
            {
                "epsilon": epsilon,
                "delta": stated.delta,
                "stated": str(stated),
                "accuracy": statistics.fmean(scores),
                "deviation": statistics.stdev(scores) if len(scores) > 1 else 0.0,
                "seeds": arguments.seeds,
            }
        )
    result = {
        "airmixml": __version__,
        "dataset": arguments.dataset,
        "encoder": arguments.encoder,
        "features": dataset.input_dim,
        "workers": scenario.workers.count,
        "test_samples": len(dataset.test_labels),
        "worker_cost": worker_cost(scenario.workers, dataset.held_dim, signal).to_dict(),
        "seconds_to_encode": round(seconds_to_encode, 1),
        "rows": rows,
    }
    show_and_write(result, arguments.out)


if __name__ == "__main__":
    main()
