"""Things that other packages add: found, used, and refused in one line where they are broken."""

from __future__ import annotations

import importlib.util
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from airmixml.messages import AirMixError, PluginError, ScenarioError
from airmixml.registries import ENCODERS, REGISTRIES
from airmixml.registry import Registry
from airmixml.scenario import Scenario, Workers
from airmixml.streams import Streams
from airmixml.workers import declared_bounds, encode, encoded_dim, load_dataset

EXAMPLE = Path(__file__).parents[1] / "examples" / "plugin"
FAULTY = """
import numpy as np
from airmixml.workers import Encoder, FeatureCost
class Faulty(Encoder):
    about = "does not keep what it declares"
    def __init__(self, values=(0.5,), count=1, **declared):
        self.values, self.count = values, count
        vars(self).update(declared)
    def feature_count(self, workers, input_dim):
        return self.count
    def features(self, workers, unit_inputs, image_shape, rng):
        return np.tile(np.array(self.values, dtype=np.float32), (len(unit_inputs), 1))
    def cost(self, workers, input_dim):
        return FeatureCost(multiply_accumulates=0)
class NoCost(Encoder):
    about = "forgot its cost"
    def feature_count(self, workers, input_dim):
        return 1
    def features(self, workers, unit_inputs, image_shape, rng):
        return unit_inputs[:, :1]
class OnlyAbout:
    about = "nothing else"
"""

Install = Callable[..., None]


def write_package(folder: Path, name: str, points: str, module: str = "", *, group: str = "airmixml.encoders") -> None:
    """Write what pip would: one module and the metadata with its entry points."""
    metadata = folder / f"{name}-1.0.dist-info"
    metadata.mkdir(parents=True)
    (metadata / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n")
    (metadata / "entry_points.txt").write_text(f"[{group}]\n{points}\n")
    (folder / f"{name}.py").write_text(module)


@pytest.fixture
def install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Install]:
    """Install packages for one test."""
    before = set(sys.modules)

    def write(name: str, points: str, module: str = "", **more: Any) -> None:
        write_package(tmp_path / name, name, points, module, **more)
        monkeypatch.syspath_prepend(tmp_path / name)
        look_again()

    yield write
    monkeypatch.undo()
    look_again()
    for name in set(sys.modules) - before:
        if name in ("one", "two"):
            del sys.modules[name]


def look_again() -> None:
    """Forget what other packages bring: some have been installed or removed since."""
    for registry in REGISTRIES:
        vars(registry).pop("plugins", None)
        registry.loaded.clear()


@pytest.mark.parametrize("registry", REGISTRIES, ids=lambda registry: registry.kind)
def test_all_of_ours_can_be_loaded_and_have_what_they_need(registry: Registry) -> None:
    for name in registry.own:
        thing = registry.load(name)
        assert [needed for needed in registry.needs if not hasattr(thing, needed)] == []
        assert "\n" not in thing.about


def test_an_encoder_of_another_package_is_used_like_ours(install: Install) -> None:
    install("one", "half = one:Faulty", FAULTY)
    assert "half" in ENCODERS
    assert ENCODERS.names == (*ENCODERS.own, "half")
    scenario = Scenario().with_overrides("workers.encoder=half", "privacy.sensitivity=encoder")
    assert Scenario.from_toml(scenario.to_toml()) == scenario
    assert "| half | onnx:FILE)" in scenario.to_toml(comments=True)
    sent, shortened = encode(scenario.workers, np.ones((3, 4), dtype=np.float32))
    assert (sent.tolist(), shortened) == ([[0.5]] * 3, 0)
    assert encoded_dim(scenario.workers, 4) == 1
    assert declared_bounds(scenario.workers, 1) == (1.0, 4.0)  # it does not declare that none is negative


@pytest.mark.parametrize(
    ("options", "complaint"),
    [
        ("values=(0.5, 0.5)", "gives (2,) features, not as many as feature_count says"),
        ("values=(float('nan'),)", "gives features that are not finite"),
        ("values=(-0.25,), never_negative=True", "gives the feature -0.25, but declares that none is negative"),
        ("values=(-0.25,), bounds_norm=False", "gives the feature -0.25, but declares that none is negative"),
        ("values=(1.5,), bounds_norm=False", "gives the feature 1.5: must be at most 1"),
    ],
)
def test_an_encoder_that_breaks_its_declaration_is_refused(install: Install, options: str, complaint: str) -> None:
    install("one", "faulty = one:FAULTY", f"{FAULTY}\nFAULTY = Faulty({options})")
    with pytest.raises(PluginError) as caught:
        encode(Workers(encoder="faulty"), np.ones((3, 4), dtype=np.float32))
    assert str(caught.value).startswith(f'workers.encoder = "faulty": {complaint}')


def test_what_an_encoder_does_not_take_is_refused(install: Install) -> None:
    install("one", "fixed = one:FIXED", f"{FAULTY}\nFIXED = Faulty(takes_features=False, bounds_norm=False)")
    plain = ("workers.encoder=fixed", "privacy.sensitivity=encoder")
    Scenario().with_overrides(*plain)
    for change in ("workers.features=3", "workers.centre=own", "workers.bits=3", "workers.norm=unit"):
        with pytest.raises(ScenarioError, match=rf"^{change.partition('=')[0]} = "):
            Scenario().with_overrides(*plain, change)


@pytest.mark.parametrize(
    ("point", "module", "complaint"),
    [
        ("bad = nowhere:X", "", "cannot be loaded (ModuleNotFoundError: No module named 'nowhere')"),
        ("bad = one:X", "", "cannot be loaded (AttributeError:"),
        ("bad = one:X", "1 / 0", "cannot be loaded (ZeroDivisionError: division by zero)"),
        ("bad = one:X", "import sys\nsys.exit(7)", "cannot be loaded (SystemExit: 7)"),
        ("bad = one:NoCost", FAULTY, "cannot be loaded (TypeError: Can't instantiate abstract class NoCost"),
        ("bad = one:OnlyAbout", FAULTY, "has no feature_count, features, cost,"),
    ],
)
def test_a_broken_package_is_told_in_one_line(install: Install, point: str, module: str, complaint: str) -> None:
    install("one", point, module)
    Scenario()  # it harms nobody who does not use it
    with pytest.raises(AirMixError) as caught:
        Scenario().with_overrides("workers.encoder=bad")
    assert str(caught.value).startswith(f"encoder 'bad' of one 1.0: {complaint}")
    assert "\n" not in str(caught.value)


def test_two_packages_with_one_name_are_told(install: Install) -> None:
    install("one", "same = one:Faulty", FAULTY)
    install("two", "same = two:Faulty", FAULTY)
    Scenario()
    with pytest.raises(PluginError, match=r"^encoder 'same': both one 1\.0 and two 1\.0 bring one of that name"):
        Scenario().with_overrides("workers.encoder=same")


def test_a_name_of_ours_stays_ours(install: Install) -> None:
    install("one", "clip = one:Faulty\nother = one:Faulty", FAULTY)
    Scenario().with_overrides("workers.encoder=clip")
    assert ENCODERS.load("other").about
    assert ENCODERS.names.count("clip") == 1
    assert Scenario().with_overrides("workers.encoder=clip").to_toml(comments=True)


def test_an_unknown_name_is_told_with_all_names_and_the_nearest(install: Install) -> None:
    install("one", "spiral = one:Faulty", FAULTY)
    with pytest.raises(ScenarioError) as caught:
        Scenario().with_overrides("workers.encoder=Spirl")
    own = ", ".join(f'"{name}"' for name in ENCODERS.own)
    assert str(caught.value) == (
        f'workers.encoder = \'Spirl\': must be one of {own}, "spiral", "onnx:FILE"; did you mean "spiral"?'
    )
    with pytest.raises(PluginError, match=r"^workers.encoder = 'spirl': must be one of .*; did you mean spiral\?"):
        ENCODERS.load("spirl")


def test_a_data_set_must_be_what_it_declares(install: Install) -> None:
    module = (
        "from dataclasses import replace\nfrom airmixml.data.embedded import IRIS\nGOOD = replace(IRIS, name='good')\n"
        "BAD = replace(IRIS, name='bad', label_dim=7)"
    )
    install("one", "good = one:GOOD\nbad = one:BAD", module, group="airmixml.datasets")
    good, iris = (load_dataset(Workers(dataset=name), Streams(0)) for name in ("good", "iris"))
    np.testing.assert_array_equal(good.train_inputs, iris.train_inputs)
    with pytest.raises(PluginError, match=r"^data set 'bad': gives 4 inputs and 3 classes, but declares 4 and 7"):
        load_dataset(Workers(dataset="bad"), Streams(0))
    with pytest.raises(ScenarioError, match=r"must be iris, .*, bad, good, or the path .* did you mean good"):
        load_dataset(Workers(dataset="gud"), Streams(0))


def test_a_users_own_file_needs_no_look_at_packages(install: Install, tmp_path: Path) -> None:
    install("one", "iris = one:X", group="airmixml.datasets")  # a look would end in an error
    (tmp_path / "mine.csv").write_text("a,label\n1,x\n2,y\n3,x\n")
    mine = Workers(dataset=str(tmp_path / "mine.csv"), train_samples=2, input_lower=(0.0,), input_upper=(3.0,))
    assert load_dataset(mine, Streams(0)).train_samples == 2


def airmix(folders: list[Path], *arguments: str, cwd: Path) -> Any:
    """Run a command in a process that finds packages in the folders; return its JSON."""
    package = importlib.util.find_spec("airmixml")
    assert package is not None
    assert package.origin is not None
    path = os.pathsep.join(str(folder) for folder in (*folders, Path(package.origin).parents[1]))
    done = subprocess.run(
        [sys.executable, "-m", "airmixml", *arguments, "--json"],
        cwd=cwd,
        env={**os.environ, "PYTHONPATH": path},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


@pytest.mark.long
def test_the_example_is_listed_and_accounted_for(tmp_path: Path) -> None:
    """Its metadata written by hand, so that it need not be built; without torch, so that it is quick."""
    write_package(tmp_path / "a", "example", "thermometer = airmixml_example.encoder:Thermometer")
    write_package(tmp_path / "b", "sets", "wines = airmixml_example.dataset:WINE", group="airmixml.datasets")
    folders = [EXAMPLE, tmp_path / "a", tmp_path / "b"]
    wine = airmix(folders, "data", "list", cwd=tmp_path)["data_sets"][-1]
    assert (wine["name"], wine["state"], wine["input_dim"]) == ("wines", "plugin", 13)
    account = airmix(folders, "account", str(EXAMPLE / "wine.toml"), "--no-picture", cwd=tmp_path)
    assert {each["sensitivity"] for each in account["statements"]} >= {2.0}


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder that pip installed the example package into, without a network."""
    source, target = tmp_path_factory.mktemp("source") / "plugin", tmp_path_factory.mktemp("site")
    shutil.copytree(EXAMPLE, source, ignore=shutil.ignore_patterns("build", "*.egg-info", "__pycache__"))
    pip = [sys.executable, "-m", "pip", "install", "--quiet", "--no-index", "--no-deps", "--no-build-isolation"]
    subprocess.run([*pip, "--target", str(target), str(source)], check=True)
    return target


@pytest.mark.long
def test_the_installed_example_runs(site: Path, tmp_path: Path) -> None:
    metrics = airmix([site], "run", str(EXAMPLE / "wine.toml"), "--out", "wine", cwd=tmp_path)
    assert metrics["dataset"] == {"name": "wines", "input_dim": 13 * 4 + 1, "label_dim": 3} | metrics["dataset"]
    assert metrics["accuracy"]["final"] > 0.8
    assert metrics["privacy"][0]["epsilon"] == pytest.approx(5.0, rel=1e-6)
    stated = {
        (each["adversary"], each["accountant"], each["adjacency"]): each["epsilon"] for each in metrics["privacy"]
    }
    assert stated["server", "zcdp", "remove-one"] > stated["server", "gdp", "remove-one"]


@pytest.mark.long
def test_a_run_by_the_learner_accountant_and_adversary_of_the_installed_example(site: Path, tmp_path: Path) -> None:
    chosen = {
        "privacy.adversary": "two-antennas",
        "privacy.accountant": "zcdp",
        "learner.model": "linear",
        "learner.epochs": "5",
        "workers.sends": "samples",
        "radio.slots": "50",
        "radio.scheduled": "100",
    }
    changes = [word for key, value in chosen.items() for word in ("--set", f"{key}={value}")]
    metrics = airmix([site], "run", str(EXAMPLE / "wine.toml"), *changes, "--out", "wine", cwd=tmp_path)
    stated = metrics["privacy"][0]
    assert (stated["adversary"], stated["accountant"]) == ("two-antennas", "zcdp")
    assert 0.0 < stated["epsilon"] <= 5.0


@pytest.mark.long
def test_the_impairment_of_the_installed_example(site: Path, tmp_path: Path) -> None:
    """One worker in ten arrives 10 dB weaker, and nobody stronger: no margin is needed, and the target is used up."""
    chosen = ("--set", "air.also=blockage", "--out", "blocked")
    metrics = airmix([site], "run", "--preset", "private-iris", *chosen, cwd=tmp_path)
    assert metrics["air"] == {"preset": "ideal", "also": ["blockage"]}
    assert metrics["privacy"][0]["epsilon"] == pytest.approx(5.0, rel=1e-6)
    server = next(each for each in metrics["privacy"] if each["adversary"] == "server")
    assert metrics["ledger"]["mean_epsilon"] < metrics["ledger"]["median_epsilon"] <= server["epsilon"] * (1 + 1e-9)


@pytest.mark.long
def test_the_noise_and_the_power_policy_of_the_installed_example(site: Path, tmp_path: Path) -> None:
    """Eleven times the noise lets workers send eleven times as loud; half of that takes half the energy."""
    plain, jammed, half = (
        airmix([site], "run", "--preset", "private-iris", *chosen, "--out", f"run-{number}", cwd=tmp_path)
        for number, chosen in enumerate(
            [(), ("--set", "privacy.noise=friendly-jammer"), ("--set", "mixing.power=half-power")]
        )
    )
    assert jammed["energy_joules"] == pytest.approx(11.0 * plain["energy_joules"], rel=1e-6)
    assert jammed["privacy"][0]["epsilon"] == pytest.approx(5.0, rel=1e-6)
    assert half["energy_joules"] == pytest.approx(0.5 * plain["energy_joules"], rel=1e-6)
    assert half["privacy"][0]["epsilon"] < 4.0


@pytest.mark.long
def test_the_schedule_path_loss_and_assignment_of_the_installed_example(site: Path, tmp_path: Path) -> None:
    """Of 2,000 workers 8 send in each of 500 slots: twice each, in turn."""
    chosen = {
        "radio.schedule": "in-turn",
        "radio.path_loss": "two-slopes",
        "mixing.assignment": "to-the-weakest",
        "radio.slots": "500",
        "radio.scheduled": "8",
        "learner.epochs": "2",
    }
    changes = [word for key, value in chosen.items() for word in ("--set", f"{key}={value}")]
    metrics = airmix([site], "run", "--preset", "paper-iris", *changes, "--out", "run", cwd=tmp_path)
    assert metrics["ledger"]["worst_worker_slots"] == 2
    assert metrics["ledger"]["slots_per_worker"]["least"] == 2


@pytest.mark.long
def test_the_attack_of_the_installed_example(site: Path, tmp_path: Path) -> None:
    strong = ("--set", "mixing.power=max", "--set", "mixing.alpha=0.01", "--set", "radio.slots=100")
    chosen = ("--attacks", "loudest-label", "--out", "attacked")
    found = airmix([site], "attack", "--preset", "paper-iris", *strong, *chosen, cwd=tmp_path)
    assert "names the class of the loudest worker in" in json.dumps(found)


@pytest.mark.long
def test_the_method_of_the_installed_example(site: Path, tmp_path: Path) -> None:
    chosen = ("--methods", "airmix,one-byte", "--out", "compared")
    compared = airmix([site], "compare", "--preset", "private-iris", *chosen, cwd=tmp_path)
    assert "one-byte" in json.dumps(compared)


def test_a_broken_data_set_is_left_out_of_the_list(install: Install, airmix: Callable[..., Any]) -> None:
    install("one", "bad = nowhere:X", "", group="airmixml.datasets")
    done = airmix("data", "list")
    assert (done.returncode, done.stderr) == (0, "")
    assert "iris" in done.stdout
    assert "bad" not in done.stdout
