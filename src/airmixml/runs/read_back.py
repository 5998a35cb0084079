"""Whether what a run writes can be read again: asked before anything is sent or charged, and before it is whole.

A release that nobody can read is paid for all the same. So a stand-in for all that a reader will need (scenario,
results, a model of the same shape, the page) is written and read back while that costs nothing.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import numpy as np

from airmixml.data import DataSet
from airmixml.edge import build_model
from airmixml.files import temporary_folder
from airmixml.messages import AirMixError, RunFolderError, in_plain_words, private
from airmixml.privacy import PrivacyStatement
from airmixml.radio.draws import AirSetting
from airmixml.radio.learnable import check_learnable
from airmixml.radio.tally import placed_distances
from airmixml.runs.model_files import read_model, save_model
from airmixml.runs.results import AnyResult, DataSummary, ProtectedResult, load_result
from airmixml.runs.run_page import run_page
from airmixml.scenario import Scenario, keys_in_force
from airmixml.scenario.scenario import PROTECTION
from airmixml.storage.folders import SCENARIO, write_result
from airmixml.streams import Streams
from airmixml.workers import worker_cost
from airmixml.workers.encoding import encode_centred


def check_before(scenario: Scenario, dataset: DataSet, folder: Path) -> None:
    """Write what stands in for the files of a run into a folder for a while, read it back and make its page.

    Raise what the air or the learner refuse, or a design that nothing can be learned from, and a RunFolderError where
    something does not come back.
    """
    setting = AirSetting.of(scenario, dataset.input_dim, dataset.label_dim, placed_distances(scenario))
    check_learnable(setting)
    shape = _without_rows(scenario, dataset)
    network = build_model(scenario.learner, shape.input_dim, shape.label_dim, shape.image_shape)
    result = _stand_in(scenario, dataset, setting)
    with temporary_folder(folder) as work, _told("nothing was sent or charged; please report this"):
        save_model(network, shape, work, scenario)
        write_result(work, scenario, result.to_dict())
        _check(work, scenario, result, with_model=True)
        run_page(result.to_dict(), Scenario.load(work / SCENARIO)).to_html()


def check_after(folder: Path, scenario: Scenario, result: AnyResult, *, with_model: bool) -> None:
    """Read the files of a run back; raise a RunFolderError where they are not what came out."""
    with _told("free space and check the disk"):
        _check(folder, scenario, result, with_model=with_model)


def _check(folder: Path, scenario: Scenario, result: AnyResult, *, with_model: bool) -> None:
    if Scenario.load(folder / SCENARIO) != scenario:
        raise RunFolderError(f"{SCENARIO} is another scenario")
    if load_result(folder, whole=False).to_dict() != result.to_dict():
        raise RunFolderError("the results are others")
    if with_model:
        read_model(folder)  # its checksum says that it is what was saved


@contextmanager
def _told(then: str) -> Iterator[None]:
    """Say in one line that something does not come back; what the machine refuses stays as it is."""
    try:
        yield
    except (OSError, MemoryError):
        raise
    except Exception as problem:
        said = in_plain_words(problem).partition(";")[0]  # without advice: there is no run yet
        why = said if isinstance(problem, AirMixError) else private(f"{type(problem).__name__}: {said}", "an error")
        raise RunFolderError(f"what this run writes cannot be read again ({why}); {then}") from problem


def _without_rows(scenario: Scenario, dataset: DataSet) -> DataSet:
    """Return the data as the learner gets them, one row of zeros: an estimated mean may change how long they are."""
    inputs = np.zeros((1, dataset.input_dim), dtype=np.float32)
    labels = np.zeros_like(dataset.train_labels[:1])
    shape = replace(dataset, train_inputs=inputs, train_labels=labels, holders=None)
    if not scenario.workers.centre_on_air:
        return shape
    encoded, _ = encode_centred(scenario.workers, inputs, Streams(scenario.seed))
    return replace(shape, train_inputs=encoded, private_mean=inputs[0])


def _stand_in(scenario: Scenario, dataset: DataSet, setting: AirSetting) -> ProtectedResult:
    """Return a result with the parts that one of this design has; what it states is the target."""
    privacy, workers, integers = scenario.privacy, scenario.workers, setting.integers
    pool, tested = dataset.public_counts
    target = PrivacyStatement(
        epsilon=privacy.epsilon,
        delta=privacy.delta,
        adversary=privacy.adversary,
        accountant=privacy.accountant,
        adjacency=privacy.adjacency,
        sensitivity=1.0,
        sampling="none",
        sampling_rate=1.0,
        compositions=scenario.slots_on_air,
        noise_watts_per_symbol=1.0,
    )
    return ProtectedResult(
        mode=PROTECTION,
        name=scenario.name,
        seed=scenario.seed,
        task=workers.task,
        accuracy=None,
        scores={},
        slots=scenario.slots_on_air,
        symbols_per_slot=setting.symbols_on_air,
        air_seconds=0.0,
        privacy=(target,),
        unstated={},
        row_copies=1,
        row_privacy=target,
        row_statements=(target,),
        worker_cost=worker_cost(workers, dataset.held_dim or dataset.input_dim, setting.signal),
        dataset=DataSummary(
            name=dataset.name,
            train_samples=pool,
            test_samples=tested,
            input_dim=dataset.input_dim,
            label_dim=dataset.label_dim,
        ),
        seconds=0.0,
        device="cpu",
        versions={},
        run_dir="",
        air=keys_in_force(scenario.air),
        integers=None if integers is None else integers.to_dict(),
        link=setting.link.to_dict(setting),
        rounds=setting.about_rounds or None,
        releases=1,
        public_test=False,
    )
