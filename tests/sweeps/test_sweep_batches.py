"""How a sweep is cut into batches, and how finished ones are kept."""

from __future__ import annotations

import itertools
import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from airmixml import AirMixError, RunFolderError, Scenario, simulate
from airmixml.files import ResultStore
from airmixml.sweeps import Energies, Part, Trainings, cut_into_batches
from airmixml.sweeps.batches import Place
from airmixml.sweeps.grid_sweep import BatchedTask, Finished

IRIS = Scenario.preset("paper-iris").with_overrides("radio.slots=200", "learner.epochs=3")
MNIST = Scenario.preset("paper-mnist")


def many(base: Scenario, count: int) -> list[Scenario]:
    """Scenarios of one seed, data set and learner."""
    return [base.with_overrides(f"privacy.epsilon={10 + number}") for number in range(count)]


def test_a_batch_has_one_seed_one_data_set_and_one_learner() -> None:
    scenarios = [
        IRIS.with_overrides(f"seed={seed}", *changes)
        for changes in itertools.product(
            ("mixing.alpha=1", "mixing.alpha=10"),
            ("learner.epochs=3", "learner.epochs=4"),
            ("workers.count=2000", "workers.count=1000", "workers.dataset=digits"),
            ("radio.slots=200", "radio.scheduled=4"),
        )
        for seed in (0, 1)
    ]
    for kind in (Trainings(), Energies()):
        batches = cut_into_batches(scenarios, kind)
        assert len(batches) == 2 * 2 * 3
        for (batch,) in batches:
            assert len({(each.seed, each.workers, each.learner) for each in batch.scenarios}) == 1
            assert batch.seed == batch.scenarios[0].seed
            assert (batch.kind, batch.device) == (kind, "cpu")
        cut = [each for (batch,) in batches for each in batch.scenarios]
        assert len(cut) == len(scenarios)
        assert set(cut) == set(scenarios)


def test_scenarios_keep_their_order_and_equal_ones_run_once() -> None:
    first, second, third = many(IRIS, 3)
    ((batch,),) = cut_into_batches([second, first, second, third, first], Trainings())
    assert batch.scenarios == (second, first, third)
    assert cut_into_batches([], Trainings()) == []


def test_a_batch_of_mnist_fits_into_memory() -> None:
    """Float32 mixtures of 784 + 10 values in 100 000 slots, held twice, in 1.5 GB of a PC or 26 GB of a GPU."""
    each = 2 * 4 * 100_000 * (784 + 10)
    sizes = {}
    for device, room in (("cpu", 1.5e9), ("cuda", 26e9)):
        batches = cut_into_batches(many(MNIST, 50), Trainings(), device=device)
        sizes[device] = [len(part.scenarios) for (part,) in batches]
        assert sum(sizes[device]) == 50
        assert max(sizes[device]) * each <= room < (max(sizes[device]) + 1) * each
        assert {part.device for (part,) in batches} == {device}
        assert [part.bytes_needed for (part,) in batches] == [size * each for size in sizes[device]]
    assert sizes["cpu"] == [2] * 25
    assert sizes["cuda"] == [40, 10]
    assert sizes["cuda"] == [
        len(part.scenarios) for (part,) in cut_into_batches(many(MNIST, 50), Trainings(), device="cuda:1")
    ]


def test_small_scenarios_come_in_batches_of_64_and_too_large_ones_alone() -> None:
    assert [len(part.scenarios) for (part,) in cut_into_batches(many(IRIS, 70), Trainings())] == [64, 6]
    huge = MNIST.with_overrides("radio.slots=100000000")
    assert [len(part.scenarios) for (part,) in cut_into_batches(many(huge, 3), Trainings())] == [1, 1, 1]


def test_energies_need_no_mixtures_and_so_no_memory() -> None:
    ((part,),) = cut_into_batches(many(MNIST, 100), Energies())
    assert (len(part.scenarios), part.bytes_needed) == (100, 0)


@pytest.mark.parametrize("device", ["cpu", "cuda", "cuda:1"])
def test_energies_are_computed_on_the_processor_whatever_trains(device: str) -> None:
    ((batch,),) = cut_into_batches(many(IRIS, 3), Energies(), device=device)
    assert (batch,) == cut_into_batches(many(IRIS, 3), Energies())[0]
    assert batch.device == "cpu"


@pytest.mark.parametrize(
    ("preset", "change", "why"),
    [
        ("paper-iris", "learner.model=ridge", "a sweep trains networks"),
        ("private-mnist", "workers.centre=private", "each target has data of its own"),
        ("paper-iris", "workers.dataset=own.csv", "must be one of iris, "),
    ],
)
def test_what_no_stack_can_be_trained_on_is_refused_in_one_line(preset: str, change: str, why: str) -> None:
    network = () if preset == "paper-iris" else ("learner.model=mlp", "workers.sends=samples")
    scenario = Scenario.preset(preset).with_overrides(*network, change)
    key, _, value = change.partition("=")
    with pytest.raises(AirMixError, match=f"^{key} = '{value}': {why}.*$"):
        cut_into_batches([scenario], Trainings())


def batch_of(*changes: str, **options: Any) -> Part:
    return Part(**{"kind": Trainings(), "scenarios": (IRIS.with_overrides(*changes),), **options})


def test_equal_work_has_equal_names() -> None:
    assert batch_of().digest == batch_of().digest
    assert batch_of("radio.slots=2e2").digest == batch_of().digest
    assert batch_of(device="cuda:1").digest == batch_of(device="cuda").digest == batch_of(device="cuda:0").digest
    assert replace(batch_of()) == batch_of()
    assert batch_of().digest.isalnum()


def test_other_work_has_other_names() -> None:
    one, other = many(IRIS, 2)
    batches = [
        batch_of(),
        batch_of(kind=Energies()),
        batch_of(device="cuda"),
        batch_of("seed=1"),
        batch_of("name=other"),
        batch_of("privacy.epsilon=5.000000000000001"),
        batch_of("learner.epochs=4"),
        batch_of(scenarios=(one,)),
        batch_of(scenarios=(one, other)),
        batch_of(scenarios=(other, one)),
    ]
    assert len({batch.digest for batch in batches}) == len(batches)


def test_another_version_has_other_names(monkeypatch: pytest.MonkeyPatch) -> None:
    before = batch_of().digest
    monkeypatch.setattr("airmixml.sweeps.batches.__version__", "999")
    assert batch_of().digest != before


TWO = Part(kind=Trainings(), scenarios=tuple(many(IRIS, 2)))
OUTCOMES: list[Any] = [
    {"curve": [1 / 3, 2 / 3, 1.0], "energy_joules": 1e-300},
    {"curve": [0.0, 1.0, 0.1 + 0.2], "energy_joules": 0.0},
]


class BatchStore:
    """The files of finished parts."""

    def __init__(self, folder: Path) -> None:
        place = Place(folder=folder)
        self.checkpoints = place.beginnings
        self._task = BatchedTask(batches=[], place=place, folder=folder)

    def load(self, part: Part) -> list[Any] | None:
        found = self._task.load(part)
        return None if found is None else found.outcomes

    def save(self, part: Part, outcomes: list[Any]) -> None:
        self._task.save(part, Finished(part=part, outcomes=outcomes))
        self._task.save(part, Finished.failed(part, "lost"))


@pytest.fixture
def store(tmp_path: Path) -> BatchStore:
    return BatchStore(tmp_path / "kept")


@pytest.fixture
def file(store: BatchStore, tmp_path: Path) -> Path:
    """The file of a finished batch."""
    store.save(TWO, OUTCOMES)
    (file,) = (tmp_path / "kept").iterdir()
    return file


def test_what_was_saved_is_loaded_to_the_last_bit(store: BatchStore, tmp_path: Path) -> None:
    assert store.load(TWO) is None
    store.save(TWO, OUTCOMES)
    assert store.load(TWO) == OUTCOMES
    assert BatchStore(tmp_path / "kept").load(TWO) == OUTCOMES
    assert store.load(batch_of()) is None
    assert BatchStore(tmp_path / "elsewhere").load(TWO) is None
    assert [path.name for path in (tmp_path / "kept").iterdir()] == [f"{TWO.digest}.json"]


@pytest.mark.parametrize("odd", [None, 7, {}, {"outcomes": 7}], ids=str)
def test_corrupt_file_with_a_right_checksum_is_told_in_one_line(odd: Any, store: BatchStore, file: Path) -> None:
    ResultStore(file.parent).save(file.name, odd)
    with pytest.raises(RunFolderError) as refusal:
        store.load(TWO)
    line = str(refusal.value)
    assert line.startswith(f"{file}: does not hold what airmix wrote (")
    assert line.endswith("; delete it and give the same command again")
    assert "\n" not in line


@pytest.mark.parametrize("first", [OUTCOMES[0], {"error": "no power"}], ids=["some", "all"])
def test_a_batch_with_refused_scenarios_is_kept_with_their_errors(first: Any, store: BatchStore) -> None:
    outcomes: list[Any] = [first, {"error": "no power"}]
    store.save(TWO, outcomes)
    assert store.load(TWO) == outcomes


@pytest.mark.parametrize("outcomes", [OUTCOMES, [{"error": "no power"}] * 2], ids=["finished", "refused"])
def test_the_beginnings_of_a_batch_are_removed_when_it_ends(
    outcomes: list[Any], store: BatchStore, tmp_path: Path
) -> None:
    beginnings, others = store.checkpoints(TWO), store.checkpoints(batch_of())
    assert beginnings != others
    assert beginnings is not None
    assert others is not None
    for folder in (beginnings, others):
        assert folder.is_relative_to(tmp_path / "kept")
        folder.mkdir(parents=True)
        (folder / "checkpoint.pt").write_bytes(b"half")
    store.save(TWO, outcomes)
    assert not beginnings.exists()
    assert (others / "checkpoint.pt").exists()


def test_a_file_gets_its_name_when_it_is_whole(
    store: BatchStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whoever is killed before that leaves nothing that counts."""
    written = []

    def killed(path: Path, _target: Path) -> Path:
        written.append(len(json.loads(path.read_text())["values"]["outcomes"]))
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(Path, "replace", killed)
        with pytest.raises(KeyboardInterrupt):
            store.save(TWO, OUTCOMES)
    assert written == [len(OUTCOMES)]
    assert not list(tmp_path.rglob("*.json"))
    assert store.load(TWO) is None
    store.save(TWO, OUTCOMES)
    assert store.load(TWO) == OUTCOMES


def test_energies_of_a_sweep_are_those_of_the_encoded_samples() -> None:
    """A constant makes five numbers of Iris's four, so that d_X + d_Y is 8 and the power 7/8 of what it was."""
    with_constant = IRIS.with_overrides("workers.encoder=clip", "workers.constant=0.5")
    (batch,) = cut_into_batches([with_constant], Energies())
    ((_, (outcome,)),) = Energies().run(batch, Place())
    assert outcome["energy_joules"] == pytest.approx(simulate(with_constant).report.energy_joules, rel=1e-9)
    assert outcome["energy_joules"] == pytest.approx(7 / 8 * simulate(IRIS).report.energy_joules, rel=1e-6)
