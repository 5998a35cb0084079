"""Training on mixtures: a step of the image network, ``paper-iris``, the demo, stacks, and on a GPU half of Table I."""

from __future__ import annotations

import subprocess
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch

import usual_loop
from airmixml import Scenario, Speed, simulate, train
from airmixml.data import DataSet
from airmixml.edge import TrainedModel, train_model, train_stack
from airmixml.scenario import Learner
from bench_kit import Row, alternately, row, seconds_of, with_bytecode
from made_up_digits import made_up_digits, on_made_up_digits, unscored

USUAL = "usual loop (DataLoader, float32, Adam)"
TUNED = "hand-tuned loop (data on the device, fused Adam)"
HALF_TABLE = "Table I, MNIST half (30 cells, 3 seeds), one GPU"
# Mixtures that a network learns from within a few epochs; how long a step takes does not depend on them.
LEARNABLE = ("mixing.power=max", "mixing.alpha=2", "radio.scheduled=8")


def rows(device: str, quick: bool) -> Iterator[Row]:
    if device == "cpu":
        yield from image_step_rows(quick)
        yield iris_row(quick)
        yield demo_row(quick)
        yield stack_row("paper-iris", 36, 20 if quick else 200, device, quick)
        yield stack_row("paper-mnist", 2, 4 if quick else 20, device, quick)
    else:
        yield from one_cell_rows(device, quick)
        yield stack_row("paper-mnist", 30, 20 if quick else 200, device, quick)


def image_mixtures(slots: int, device: str) -> tuple[Scenario, DataSet, torch.Tensor, torch.Tensor]:
    """Return a scenario of the image network, its data, and mixtures to learn from: inputs and labels."""
    dataset = made_up_digits(10_000)
    scenario = Scenario.preset("paper-mnist").with_overrides(
        f"radio.slots={slots}", "workers.count=10000", "workers.train_samples=10000", *LEARNABLE
    )
    mixtures = simulate(scenario, dataset=dataset, speed=Speed(device=device))
    return scenario, dataset, mixtures.inputs, mixtures.labels


def image_step_rows(quick: bool) -> list[Row]:
    """A step of the image network without scoring; what is done once is left out by taking differences."""
    epochs, slots = (1, 2), 640 if quick else 3200
    scenario, dataset, inputs, labels = image_mixtures(slots, "cpu")
    learner, speed, last = scenario.learner, Speed(), {}

    def ours(count: int) -> None:
        short = replace(learner, epochs=count)
        last["ours"] = train_model(short, unscored(dataset), inputs, labels, seed=0, speed=speed).model

    def theirs(loop: Any, count: int) -> None:
        network = usual_loop.start(usual_loop.image_network(), seed=0)
        last[loop.__name__] = loop(network, inputs, labels, epochs=count, batch_size=learner.batch_size, device="cpu")

    works = {f"ours {count}": partial(ours, count) for count in epochs}
    for loop in (usual_loop.usual_loop, usual_loop.tuned_loop):
        works |= {f"{loop.__name__} {count}": partial(theirs, loop, count) for count in epochs}
    works["ours 1"]()
    works["usual_loop 1"]()
    best = alternately(works, repeats=2 if quick else 3)
    steps = slots / learner.batch_size
    step = {name: (best[f"{name} 2"] - best[f"{name} 1"]) / steps for name in ("ours", "usual_loop", "tuned_loop")}
    learned_epochs = 2 if quick else 12  # not timed: enough to see that all learn alike
    ours(learned_epochs)
    for loop in (usual_loop.usual_loop, usual_loop.tuned_loop):
        theirs(loop, learned_epochs)
    accuracy = {
        name: usual_loop.accuracy_of(network, dataset.test_inputs, dataset.test_labels)
        for name, network in last.items()
    }
    work = "a step of the image network"
    same = {"ours_accuracy": accuracy["ours"], "set_up_seconds": best["ours 1"] - steps * step["ours"]}
    shown = [f"{100 * accuracy[name]:.1f}" for name in ("ours", "usual_loop", "tuned_loop")]
    return [
        row(
            work,
            USUAL,
            step["ours"],
            step["usual_loop"],
            target={"faster": 2.0},
            note=f"accuracy after {learned_epochs * steps:.0f} steps {shown[0]} and {shown[1]} %",
            theirs_accuracy=accuracy["usual_loop"],
            **same,
        ),
        row(
            work,
            TUNED,
            step["ours"],
            step["tuned_loop"],
            note=f"accuracy {shown[0]} and {shown[2]} %",
            theirs_accuracy=accuracy["tuned_loop"],
            **same,
        ),
    ]


def iris_row(quick: bool) -> Row:
    """All 500 epochs of ``paper-iris``, both with the test set scored after every epoch."""
    epochs = 20 if quick else 500
    mixtures = simulate(Scenario.preset("paper-iris").with_overrides(f"learner.epochs={epochs}"))
    dataset, learner = mixtures.dataset, mixtures.scenario.learner
    scored = (dataset.test_inputs, dataset.test_labels)
    last: dict[str, Any] = {}

    def theirs() -> None:
        network = usual_loop.start(usual_loop.iris_network(), seed=0)
        torch.set_num_threads(1)  # faster than two for a network as small as this
        sizes = {"epochs": epochs, "batch_size": learner.batch_size, "device": "cpu"}
        last["theirs"] = usual_loop.usual_loop(network, mixtures.inputs, mixtures.labels, scored=scored, **sizes)
        torch.set_num_threads(2)

    def ours() -> None:
        last["ours"] = train(mixtures).model

    best = alternately({"ours": ours, "theirs": theirs}, repeats=1 if quick else 2)
    accuracy = {name: usual_loop.accuracy_of(network, *scored) for name, network in last.items()}
    return row(
        "`paper-iris`, training of 500 epochs",
        USUAL,
        best["ours"] * 500 / epochs,
        best["theirs"] * 500 / epochs,
        target={"faster": 5.0},
        note=f"accuracy {100 * accuracy['ours']:.0f} and {100 * accuracy['theirs']:.0f} % of 50 test samples",
        ours_accuracy=accuracy["ours"],
        theirs_accuracy=accuracy["theirs"],
    )


def demo_row(quick: bool) -> Row:
    """The whole command ``airmix demo``: two experiments of five seeds, their folders and the picture."""
    sizes = ["--epochs", "2", "--seeds", "2"] if quick else []
    command = [sys.executable, "-m", "airmixml", "demo", "--json", *sizes]
    with tempfile.TemporaryDirectory() as folder:
        environment = with_bytecode(folder)
        run = partial(subprocess.run, command, cwd=folder, env=environment, capture_output=True, check=True)
        seconds = min(seconds_of(run) for _ in range(1 if quick else 4))  # the first one compiles
    return row("`airmix demo`, from start to picture", "", seconds, target={"seconds": 4.0})


def stack_row(preset: str, networks: int, steps: int, device: str, quick: bool) -> Row:
    """A step of many stacked networks against as many steps of single ones, on one core or one GPU."""
    learner = Scenario.preset(preset).learner
    image = (28, 28) if learner.model == "cnn" else None
    sizes = (784, 10) if image else (4, 3)
    rng = np.random.default_rng(0)
    dataset = replace(
        unscored(made_up_digits(10, 10, sizes[0])),
        train_labels=np.arange(10) % sizes[1],
        class_names=tuple(map(str, range(sizes[1]))),
        image_shape=image,
    )
    slots = steps * learner.batch_size
    inputs, labels = (torch.from_numpy(rng.random((networks, slots, size), dtype=np.float32)) for size in sizes)
    common = {"seed": 0, "speed": Speed(device=device, threads=1 if device == "cpu" else 0)}

    def single(short: Learner) -> TrainedModel:
        return train_model(short, dataset, inputs[0], labels[0], **common)

    def stacked(short: Learner) -> object:
        return train_stack(short, dataset, inputs, labels, **common)

    works = {
        f"{work.__name__} {epochs}": partial(work, replace(learner, epochs=epochs))
        for epochs in (1, 3)
        for work in (single, stacked)
    }
    best = alternately(works, repeats=1 if quick else 2, device=device)
    per_step = {name: (best[f"{name} 3"] - best[f"{name} 1"]) / (2 * steps) for name in ("single", "stacked")}
    kind = "image networks" if image else "Iris networks"
    place = "one core" if device == "cpu" else "one GPU"
    return row(
        f"a step of {networks} stacked {kind}, {place}",
        "one after the other",
        per_step["stacked"],
        networks * per_step["single"],
    )


def one_cell_rows(device: str, quick: bool) -> list[Row]:
    """The image network of one cell, all its epochs, and half of Table I, against the usual loop on the same GPU."""
    slots, loop_epochs = (6400, 1) if quick else (100_000, 2)
    scenario, dataset, inputs, labels = image_mixtures(slots, device)
    learner = scenario.learner
    on_cpu = (inputs.cpu(), labels.cpu())
    last: dict[str, Any] = {}

    def ours(epochs: int) -> None:
        short = replace(learner, epochs=epochs)
        speed = Speed(device=device)
        last["ours"] = train_model(short, unscored(dataset), inputs, labels, seed=0, speed=speed).model

    def theirs(loop: Any) -> None:
        network = usual_loop.start(usual_loop.image_network(), seed=0)
        sizes = {"epochs": loop_epochs, "batch_size": learner.batch_size, "device": device}
        last[loop.__name__] = loop(network, *on_cpu, **sizes)

    usual, tuned = (partial(theirs, loop) for loop in (usual_loop.usual_loop, usual_loop.tuned_loop))
    ours(1)
    best = alternately(
        {"ours": partial(ours, learner.epochs), "usual": usual, "tuned": tuned}, repeats=2, device=device
    )
    cell = {name: seconds * learner.epochs / loop_epochs for name, seconds in best.items() if name != "ours"}
    ours(loop_epochs)  # as many as the loops have had
    accuracy = {
        name: usual_loop.accuracy_of(network, dataset.test_inputs, dataset.test_labels)
        for name, network in last.items()
    }
    note = f"accuracy after {loop_epochs} epochs {{}} and {{}} %; loop measured on them and scaled to {learner.epochs}"
    work = "image network of one cell (10 epochs, no scoring), one GPU"
    shown = {name: f"{100 * value:.1f}" for name, value in accuracy.items()}
    found = [
        row(
            *(work, USUAL, best["ours"], cell["usual"]),
            target={"faster": 10.0},
            note=note.format(shown["ours"], shown["usual_loop"]),
            ours_accuracy=accuracy["ours"],
            theirs_accuracy=accuracy["usual_loop"],
        ),
        row(
            *(work, TUNED, best["ours"], cell["tuned"]),
            note=note.format(shown["ours"], shown["tuned_loop"]),
            ours_accuracy=accuracy["ours"],
            theirs_accuracy=accuracy["tuned_loop"],
        ),
    ]
    return [*found, *half_table_rows(device, quick, cell["usual"] * 100_000 / slots)]


def half_table_rows(device: str, quick: bool, usual_seconds_a_cell: float) -> list[Row]:
    """All that ``airmix reproduce table1 --dataset mnist`` does but drawing, against the loops' training alone."""
    from airmixml.reproduction.paper_cells import Request  # noqa: PLC0415 - only on a GPU
    from airmixml.reproduction.reproduce import reproduce  # noqa: PLC0415

    base = on_made_up_digits(Scenario.preset("paper-mnist"))
    if quick:
        base = base.with_overrides("radio.slots=6400", "learner.epochs=2")
    request = Request(
        targets=("table1",),
        dataset="mnist",
        seeds=1 if quick else 3,
        as_printed=True,
        device=device,
        bases={"mnist": base},
    )
    cells = sum(map(len, request.cell_groups())) * request.seeds
    with tempfile.TemporaryDirectory() as folder:
        seconds = seconds_of(lambda: reproduce(request, Path(folder), draw=False), device)
    scale = 90 / cells * 5 * 100_000 / 6400 if quick else 1.0
    loops = f"{USUAL}, training alone"
    note = f"{cells} cells; the loop measured on one cell and scaled"
    return [
        row(HALF_TABLE, loops, seconds * scale, 90 * usual_seconds_a_cell, target={"faster": 25.0}, note=note),
        row(HALF_TABLE, "", seconds * scale, target={"seconds": 120.0}),
    ]
