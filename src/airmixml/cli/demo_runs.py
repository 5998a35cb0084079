"""The two experiments of ``airmix demo``, on two processes: training a small network cannot use more than one core."""

from __future__ import annotations

import multiprocessing
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from multiprocessing.connection import Connection
from typing import TYPE_CHECKING, Any, Final

from airmixml.errors import AirMixError
from airmixml.progress import Progress
from airmixml.scenario import Scenario, Speed

if TYPE_CHECKING:
    from airmixml.radio import Mixtures

ADVERSARIES: Final = ("release", "server", "eavesdropper")
_ONE_THREAD: Final = Speed(threads=1)  # of each process


@dataclass(frozen=True, kw_only=True)
class Side:
    """One of the two experiments.

    Attributes:
        metrics: those of the run folder, which holds the first seed.
        final: accuracy of each seed after the last epoch, as fractions.
        best: accuracy of the best epoch of each seed; empty where the learner has no epochs.
        mixtures: what the server received with the first seed.
    """

    scenario: Scenario
    metrics: dict[str, Any]
    final: list[float]
    best: list[float]
    mixtures: Mixtures

    def epsilon(self, adversary: str) -> float:
        """Return the smallest epsilon that any accountant certifies against the adversary, for the worst worker."""
        stated = [each for each in self.metrics["privacy"] if each["adjacency"] == self.scenario.privacy.adjacency]
        return min(float(each["epsilon"]) for each in stated if each["adversary"] == adversary)

    def to_dict(self) -> dict[str, Any]:
        """Return the run's metrics, the accuracies of all seeds and the smallest epsilons, for JSON."""
        smallest = {adversary: self.epsilon(adversary) for adversary in ADVERSARIES}
        seeds = {"final_accuracies": self.final, "best_accuracies": self.best}
        return {**self.metrics, **seeds, "smallest_epsilons": smallest}


def run_both(seeds: int, epochs: int, progress: Progress) -> tuple[Side, Side]:
    """Run the paper's Iris experiment and the private one at the same target; write a run folder for seed 0 of each."""
    paper = Scenario.preset("paper-iris").with_overrides(f"learner.epochs={epochs}")
    target = (f"privacy.{key}={getattr(paper.privacy, key)}" for key in ("epsilon", "delta", "adjacency"))
    private = Scenario.preset("private-iris").with_overrides(*target)
    with _second_process(paper, private, seeds) as results:
        from airmixml.radio import simulate
        from airmixml.runs import run

        metrics = run(paper, speed=_ONE_THREAD, progress=progress).to_dict()
        other_final, other_best, private_final, private_metrics = _receive(results)
    accuracy = metrics["accuracy"]
    final, best = [accuracy["final"], *other_final], [accuracy["best"], *other_best]
    return (
        Side(scenario=paper, metrics=metrics, final=final, best=best, mixtures=simulate(paper)),
        Side(scenario=private, metrics=private_metrics, final=private_final, best=[], mixtures=simulate(private)),
    )


@contextmanager
def _second_process(paper: Scenario, private: Scenario, seeds: int) -> Iterator[Connection]:
    context = multiprocessing.get_context("spawn")
    ours, theirs = context.Pipe(duplex=False)
    process = context.Process(target=_run_second_half, args=(paper, private, seeds, theirs), daemon=True)
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)  # the child inherits this; Ctrl-C is for the parent to answer
    try:
        process.start()
    finally:
        signal.signal(signal.SIGINT, before)
    theirs.close()
    try:
        yield ours
    finally:
        process.terminate()
        process.join()


def _run_second_half(paper: Scenario, private: Scenario, seeds: int, result: Connection) -> None:
    """Train the paper's other seeds as one stack, then run the private experiment; send what ``_receive`` returns."""
    from airmixml.edge import train, train_seeds
    from airmixml.radio import simulate
    from airmixml.runs import run

    try:
        histories = train_seeds([simulate(paper.with_seed(seed)) for seed in range(1, seeds)], speed=_ONE_THREAD)
        learned = [train(simulate(private.with_seed(seed))).history for seed in range(seeds)]
        result.send(
            (
                [history.final_accuracy for history in histories],
                [history.best_accuracy for history in histories],
                [history.final_accuracy for history in learned],
                run(private, speed=_ONE_THREAD).to_dict(),
            )
        )
    except AirMixError as problem:
        result.send(problem)


def _receive(results: Connection) -> tuple[list[float], list[float], list[float], dict[str, Any]]:
    """Return the paper's final and best accuracies (seeds 1, 2, ...), the private ones (all seeds), private metrics."""
    try:
        received = results.recv()
    except EOFError:
        raise AirMixError("demo: the second process ended early; free some memory and try again") from None
    if isinstance(received, AirMixError):
        raise received
    final, best, private_final, private_metrics = received
    return final, best, private_final, private_metrics
