"""Consume a million slots as a stream: memory does not grow with them."""

import sys

from airmixml import Scenario, simulate_blocks
from airmixml.radio import AirReport
from airmixml.streams import Streams
from airmixml.workers import deploy, load_dataset

slots = int(sys.argv[1]) if len(sys.argv) > 1 else 1_000_000
scenario = Scenario.preset("paper-iris").with_overrides(f"radio.slots={slots}", "mixing.power=max")
streams = Streams(scenario.seed)
dataset = load_dataset(scenario.workers, streams)
population = deploy(scenario.workers, dataset.train_samples, streams)

report = AirReport.of(scenario, dataset, population)
total = 0.0
for block in simulate_blocks(scenario, dataset, population):
    total += float(block.inputs.double().sum())  # whatever the edge does with a block
    report.add(block)

print(
    f"{report.slots:,} slots, mean input {total / report.slots / dataset.input_dim:.4f}, {report.energy_joules:.3g} J"
)
