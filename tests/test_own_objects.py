"""Objects given in Python where a scenario has the name of a built-in one."""

import json
import math
import pickle
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest
import torch
from sklearn.datasets import load_iris
from torch import nn

import airmixml
from airmixml import AirMixClassifier, Scenario, ScenarioError, load_model, simulate, train
from airmixml.budgets import LedgerFile, People
from airmixml.edge import ClosedForm, LearnerModel
from airmixml.messages import PluginError, PrivacyError, RunFolderError
from airmixml.planning.account import account_scenario
from airmixml.planning.account_page import account_page
from airmixml.privacy import Server
from airmixml.privacy.gaussian import gaussian_epsilon, gaussian_mu
from airmixml.radio.mixing import PowerPolicy
from airmixml.radio.privacy_target import private_received_watts
from airmixml.radio.system import sensitivity_of
from airmixml.registries import ACCOUNTANTS, POWER_POLICIES, REGISTRIES
from airmixml.registry import Registry, naming_objects
from airmixml.reports import write_report
from airmixml.scenario import Air, Learner, Mixing, Privacy, Radio, Workers
from airmixml.workers import Encoder

EXAMPLE = Path(__file__).parents[1] / "examples" / "plugin"
PRIVATE = Scenario.preset("private-iris")


@dataclass
class Quieter(PowerPolicy):
    """A share of the power that the target allows."""

    share: float = 0.5
    about = "a share of what the target allows"
    keeps_target = True

    def received_watts(self, scenario: Scenario, private_watts: Callable[[], float]) -> float:
        return self.share * private_watts()


@pytest.fixture
def example(monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """The classes of the example package, which is not installed."""
    monkeypatch.syspath_prepend(EXAMPLE)
    from airmixml_example import accountant, adversary, descent, impairment, learner, link, noise, payload

    class Example:
        Zcdp, TwoAntennas, Sign = accountant.Zcdp, adversary.TwoAntennas, descent.SignDescent
        Blockage, Linear, Satellite = impairment.Blockage, learner.Linear, link.Satellite
        Jammer, Clipped = noise.FriendlyJammer, payload.ClippedSamples

    yield Example
    for name in [name for name in sys.modules if name.startswith("airmixml_example")]:
        del sys.modules[name]


def with_power(power: Any) -> Scenario:
    return replace(PRIVATE, mixing=replace(PRIVATE.mixing, power=power))


def energy_of(scenario: Scenario) -> float:
    return float(simulate(scenario).report.energy_joules)


def test_a_power_policy_is_given_to_a_simulation_and_a_run(tmp_path: Path) -> None:
    """Half of the power takes half of the energy; a run stores the name, and is loaded with the object alone."""
    plain = energy_of(PRIVATE)
    assert energy_of(with_power(Quieter())) == pytest.approx(0.5 * plain, rel=1e-6)
    assert energy_of(with_power(Quieter(0.25))) == pytest.approx(0.25 * plain, rel=1e-6)
    scenario = with_power(Quieter(0.125))
    result = airmixml.run(scenario, out=tmp_path / "run", pictures=False)
    assert result.energy_joules == pytest.approx(0.125 * plain, rel=1e-6)
    assert f'power = "{scenario.mixing.power}"' in (tmp_path / "run" / "scenario.toml").read_text()
    assert load_model(tmp_path / "run").predict([[5.0, 3.0, 2.0, 1.0]]).shape == (1,)
    POWER_POLICIES.loaded.pop(scenario.mixing.power)  # as in another process
    with pytest.raises(
        RunFolderError, match=r"scenario\.toml: mixing\.power = 'object:Quieter-.*give it again"
    ) as told:
        write_report(tmp_path / "run")
    assert "delete" not in str(told.value)
    for others in ((), (Quieter(0.25),)):
        with pytest.raises(
            ScenarioError, match=r"scenario\.toml: mixing\.power = 'object:Quieter-.*give it again.*objects="
        ):
            load_model(tmp_path / "run", objects=others)
    assert load_model(tmp_path / "run", objects=[Quieter(0.125)]).predict([[5.0, 3.0, 2.0, 1.0]]).shape == (1,)
    with pytest.raises(PluginError, match=r"^objects = 3: "):
        load_model(tmp_path / "run", objects=[3])


@dataclass
class Louder(PowerPolicy):
    """Always so much, whatever the target."""

    watts: float
    about = "the same power for every target"
    keeps_target = True

    def received_watts(self, scenario: Scenario, private_watts: Callable[[], float]) -> float:
        return self.watts


def test_power_that_misses_the_target_is_flagged_in_a_simulation_and_refused_in_protection(tmp_path: Path) -> None:
    """Twice the power is sqrt(2) mu. Nothing is sent, charged or written; the least target that would do is told."""
    twice, delta = with_power(Quieter(2.0)), PRIVATE.privacy.delta
    report = simulate(twice).report
    mu = math.sqrt(2.0) * gaussian_mu(5.0, delta)
    assert report.privacy.epsilon == pytest.approx(gaussian_epsilon(mu, delta), rel=1e-9)
    told = f"what would be sent has epsilon {report.privacy.epsilon:.4g} by gdp against server"
    ledger = tmp_path / "budgets.sqlite"
    LedgerFile.create(ledger, epsilon=100.0, delta=0.1, people=People(label="flower"))
    before = ledger.read_bytes()
    dealt = twice.with_overrides("workers.holding=dealt", "workers.count=100", "radio.scheduled=100")
    for scenario, charged in ((twice, None), (dealt, ledger)):
        with pytest.raises(PrivacyError, match=rf"^privacy\.epsilon = 5: .*{told}; let it plan less power$"):
            airmixml.run(scenario, out=tmp_path / "run", private=True, pictures=False, ledger=charged)
        assert list(tmp_path.iterdir()) == [ledger]
        assert ledger.read_bytes() == before
    inputs, classes = load_iris(return_X_y=True)
    with pytest.raises(PrivacyError, match=r"^epsilon = 5: with power = .*; let it plan less power$"):
        AirMixClassifier(power=Quieter(2.0), input_bounds=(0, 8), epsilon=5.0, classes=[0, 1, 2]).fit(inputs, classes)
    result = airmixml.run(twice, out=tmp_path / "run", pictures=False)
    assert "Target missed." in write_report(tmp_path / "run").read_text()
    assert result.privacy[0].target_epsilon == 5.0
    account = account_scenario(twice, 5, 3, accountants=("gdp",))
    assert "Target missed." in account_page(account).notices
    watts = 2.0 * private_received_watts(PRIVATE, sensitivity_of(PRIVATE, 5, 3))
    with pytest.raises(PrivacyError, match=r"must be at least [0-9.]+, or let it plan less power$") as refused:
        airmixml.run(with_power(Louder(watts)), out=tmp_path / "loud", private=True, pictures=False)
    least = float(str(refused.value).split("must be at least ")[1].split(",")[0])
    assert least == pytest.approx(gaussian_epsilon(mu, delta), rel=2e-5)
    enough = with_power(Louder(watts)).with_overrides(f"privacy.epsilon={least}")
    assert airmixml.run(enough, out=tmp_path / "loud", private=True, pictures=False).privacy[0].epsilon <= least


def test_an_error_of_an_object_is_one_line_that_names_it(example: Any, tmp_path: Path) -> None:
    """Whatever is called with it, and in each cell of a sweep; an error of the package's own code stays as it is."""
    broken = with_power(Quieter("half"))  # type: ignore[arg-type]
    told = r"^mixing\.power = Quieter: its received_watts fails \(TypeError: .+\); correct it, or its values$"
    inputs, classes = load_iris(return_X_y=True)
    for call in (
        lambda: simulate(broken),
        lambda: airmixml.run(broken, out=tmp_path / "run", pictures=False),
        lambda: account_scenario(broken, 4, 3),
        lambda: AirMixClassifier(power=Quieter("half"), input_bounds=(0, 8), epsilon=5.0, mode="simulation").fit(  # type: ignore[arg-type]
            inputs, classes
        ),
    ):
        with pytest.raises(PluginError, match=told.replace(r"mixing\.", r"(mixing\.)?")) as problem:
            call()
        assert isinstance(problem.value.__cause__, TypeError)
    assert not (tmp_path / "run").exists()
    frame = airmixml.sweep(broken, {"privacy.delta": [0.01]}, jobs=1, out=tmp_path / "swept")
    assert frame["error"].str.match(told).all()

    class Blocked(example.Blockage):  # type: ignore[misc]
        @classmethod
        def of(cls, scenario: Scenario) -> Any:
            raise KeyError(scenario.name)

    with pytest.raises(PluginError, match=r"^air\.also = Blocked: its of fails \(KeyError: 'private-iris'\)"):
        simulate(replace(PRIVATE, air=Air(also=[Blocked])))
    with pytest.raises(ZeroDivisionError), naming_objects():
        Quieter(1 / 0)


def test_impairments_are_given_in_a_list_or_a_tuple(example: Any) -> None:
    assert Air(also=[example.Blockage]) == Air(also=(example.Blockage,))
    with pytest.raises(ScenarioError, match=r"^air\.also = .*: must be a list, each one of"):
        Air(also=example.Blockage)


def test_an_encoder_counts_its_features_in_numbers() -> None:
    class Words(Encoder):
        about = "words"

        def feature_count(self, workers: Workers, input_dim: int) -> Any:
            return "four"

        def features(self, *_: Any) -> Any:
            return None

        def cost(self, *_: Any) -> Any:
            return None

    with pytest.raises(PluginError, match=r"gives feature_count = 'four', which is no number; correct that encoder$"):
        simulate(replace(PRIVATE, workers=replace(PRIVATE.workers, encoder=Words())))


def test_a_power_policy_in_the_estimator() -> None:
    inputs, classes = load_iris(return_X_y=True)
    settings: dict[str, Any] = {
        "epsilon": 50.0,
        "input_bounds": (0, 10),
        "mode": "simulation",
        "random_state": 0,
        "centre": "own",
    }
    plain, quieter = (AirMixClassifier(power=power, **settings).fit(inputs, classes) for power in (None, Quieter(0.25)))
    assert quieter.energy_joules_ == pytest.approx(0.25 * plain.energy_joules_, rel=1e-6)
    assert quieter.privacy_.epsilon < 0.75 * plain.privacy_.epsilon


@pytest.mark.long
def test_a_sweep_over_objects(tmp_path: Path) -> None:
    grid = {"mixing.power": ["dp", Quieter(0.5), Quieter(0.25)]}
    energies = airmixml.sweep(PRIVATE, grid, out=tmp_path / "sweep", seeds=1, jobs=2)["energy_joules"]
    assert [each / energies[0] for each in energies] == pytest.approx([1.0, 0.5, 0.25], rel=1e-6)


def test_an_object_goes_to_another_process_with_its_scenario() -> None:
    scenario = with_power(Quieter(0.375))
    sent = pickle.dumps(scenario)
    POWER_POLICIES.loaded.pop(scenario.mixing.power)
    received = pickle.loads(sent)
    assert received == scenario
    assert received.mixing.power_policy.share == 0.375


def test_an_object_that_cannot_be_sent_is_said_to_be_missing() -> None:
    class Local(Quieter):
        pass

    scenario = with_power(Local())
    sent = pickle.dumps(scenario)
    assert scenario.mixing.power_policy.share == 0.5
    POWER_POLICIES.loaded.pop(scenario.mixing.power)
    with pytest.raises(PluginError, match=r"^mixing\.power = 'object:Local-.*: is an object that was given in Python"):
        _ = pickle.loads(sent).mixing.power_policy


CLASS = """
from airmixml.radio.mixing import PowerPolicy
from airmixml.registries import POWER_POLICIES
FACTOR = {factor}
class Policy(PowerPolicy):
    about = "{about}"
    def received_watts(self, scenario, private_watts):
        if scenario.mixing.power in {{"b", "a", "c"}}:
            return 0.0
        return {code}
name = POWER_POLICIES.add(Policy)
"""


def name_of(**changes: Any) -> str:
    """Return the name of the policy, in a namespace of its own as in a notebook whose cell is run again."""
    space: dict[str, Any] = {"__name__": "__main__"}
    exec(CLASS.format(**{"factor": 0.5, "about": "mine", "code": "FACTOR * private_watts()"} | changes), space)
    return str(space["name"])


def test_a_class_that_is_written_anew_has_another_name() -> None:
    """By code, constants, globals and attributes: else stored results of the old one would count for the new one."""
    name = name_of()
    assert name == name_of()
    changed = [{"factor": 0.25}, {"about": "yours"}, {"code": "FACTOR * private_watts() / 2.0"}]
    assert len({name, *(name_of(**change) for change in changed)}) == 4


def test_the_name_is_the_same_in_every_process(tmp_path: Path) -> None:
    """Whatever the seed of its hashes, so that a sweep can be resumed."""
    script = tmp_path / "script.py"
    script.write_text(CLASS.format(factor=0.5, about="mine", code="FACTOR * private_watts()") + "print(name)")
    names = {
        subprocess.run(
            [sys.executable, str(script)],
            env={"PYTHONHASHSEED": seed, "PYTHONPATH": ":".join(sys.path)},
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        for seed in ("1", "2", "3")
    }
    assert names == {f"{name_of()}\n"}


@pytest.mark.parametrize(
    ("table", "key"),
    [
        (Mixing, "power"),
        (Learner, "model"),
        (Learner, "descent"),
        (Privacy, "noise"),
        (Privacy, "adversary"),
        (Privacy, "accountant"),
        (Workers, "sends"),
        (Workers, "encoder"),
        (Radio, "link"),
    ],
)
def test_a_wrong_type_is_refused_in_one_line(table: Any, key: str) -> None:
    named = f"{table.__name__.lower()}.{key}"

    class Half:
        about = "has nothing else"

    for wrong in (3, None, ["x"], object(), int):
        with pytest.raises(ScenarioError) as caught:
            table(**{key: wrong})
        assert str(caught.value).startswith(f"{named} = ")
        assert ", or an object of your own class that inherits from airmixml." in str(caught.value)
    with pytest.raises(PluginError) as half:
        table(**{key: Half})
    assert str(half.value).startswith(f"{named} = ")
    assert "has no " in str(half.value)
    assert "\n" not in str(half.value)


@pytest.mark.parametrize("registry", REGISTRIES, ids=lambda each: each.kind)
def test_the_base_class_that_messages_name_is_that_of_the_built_in_ones(registry: Registry) -> None:
    module, _, name = registry.base.rpartition(".")
    base = getattr(import_module(module), name)
    kinds = [each if isinstance(each, type) else type(each) for each in map(registry.load, registry.own)]
    assert base.__mro__[-1] is object
    if registry.kind != "attack":  # a protocol that ours follow without inheriting
        assert all(base in kind.__mro__ for kind in kinds)


def fails_to_run(scenario: Scenario, folder: Path) -> str:
    with pytest.raises(PluginError) as caught:
        airmixml.run(scenario, out=folder / "run", pictures=False)
    assert "\n" not in str(caught.value)
    return str(caught.value)


class Silent(PowerPolicy):
    """Plans nothing, and scales nothing."""

    about = "says nothing"


class Wordy(Quieter):
    """Plans a word."""

    def received_watts(self, scenario: Scenario, private_watts: Callable[[], float]) -> Any:
        return "much"


class Endless(Quieter):
    """Plans a power that is no number."""

    def received_watts(self, scenario: Scenario, private_watts: Callable[[], float]) -> float:
        return float("nan")


class Scaled(Quieter):
    """Gives a beta that is no tensor."""

    def power_scale(self, scenario: Any, received_watts: Any, ratios: Any, largest: Any) -> Any:
        return "more"


class LongScale(Quieter):
    """Gives a beta for other slots than there are."""

    def power_scale(self, scenario: Any, received_watts: Any, ratios: Any, largest: Any) -> Any:
        return largest.new_ones(len(largest) + 1)


@pytest.mark.parametrize(
    ("policy", "said"),
    [
        (Silent, "plans no power; give received_watts that returns watts, or power_scale that returns beta"),
        (Wordy, "its received_watts returns 'much'; must return watts, a number of at least 0"),
        (Endless, "its received_watts returns nan; must return watts, a number of at least 0"),
        (Scaled, "its power_scale returns 'more'; must return a tensor of one beta for each slot"),
        (LongScale, "its power_scale returns a tensor of shape (2,); must return a tensor of one beta for each slot"),
    ],
)
def test_what_a_power_policy_returns_is_checked(policy: type[PowerPolicy], said: str, tmp_path: Path) -> None:
    told = fails_to_run(with_power(policy), tmp_path)
    assert told.startswith(f"mixing.power = 'object:{policy.__name__}-")
    assert said in told


class Broken(LearnerModel):
    """Builds what it is told to."""

    about = "wrong"

    def __init__(self, made: Any) -> None:
        self.made = made

    def build(self, learner: Any, input_dim: int, label_dim: int, image_shape: Any) -> Any:
        return self.made(input_dim, label_dim)


def number(_inputs: int, _labels: int) -> int:
    return 5


def narrow(inputs: int, labels: int) -> nn.Module:
    return nn.Sequential(nn.Linear(inputs + 1, labels))


def wide(inputs: int, labels: int) -> nn.Module:
    return nn.Sequential(nn.Linear(inputs, labels + 1))


@pytest.mark.parametrize(
    ("made", "said"),
    [
        (number, "its build returns 5; must return a network, torch.nn.Sequential"),
        (narrow, "its network takes no inputs of shape (2, 4)"),
        (wide, "its network makes scores of shape (2, 4) of inputs of shape (2, 4); must make (2, 3)"),
    ],
)
def test_what_a_learner_builds_is_checked(made: Any, said: str, tmp_path: Path) -> None:
    scenario = Scenario.preset("paper-iris").with_overrides("radio.slots=20", "learner.epochs=1")
    learner = replace(scenario.learner, model=Broken(made))
    told = fails_to_run(replace(scenario, learner=learner), tmp_path)
    assert told.startswith("learner.model = 'object:Broken-")
    assert said in told


class Stateful(nn.Linear):
    """Keeps something beside its values."""

    def get_extra_state(self) -> dict[str, int]:
        return {"calls": 1}

    def set_extra_state(self, state: dict[str, int]) -> None: ...


class Rescaled(nn.Linear):
    """Has a value that nothing sets."""

    def __init__(self, inputs: int, outputs: int) -> None:
        super().__init__(inputs, outputs)
        self.register_buffer("scale", torch.ones(()), persistent=False)


def learner_of(layer: type[nn.Linear]) -> Scenario:
    scenario = Scenario.preset("paper-iris").with_overrides("radio.slots=60", "learner.epochs=1")
    model = Broken(lambda inputs, labels: nn.Sequential(layer(inputs, labels)))
    return replace(scenario, learner=replace(scenario.learner, model=model))


def test_a_layer_may_keep_extra_state_but_no_value_that_nothing_sets() -> None:
    assert train(simulate(learner_of(Stateful))).history.test_accuracy
    with pytest.raises(ScenarioError, match="a layer Rescaled, for which no initial values are defined"):
        train(simulate(learner_of(Rescaled)))


class FiveSolved(ClosedForm):
    """Solves for a number."""

    about = "wrong"

    def solve(self, learner: Any, moments: Any) -> Any:
        return 5


def test_what_a_closed_form_solves_is_checked(tmp_path: Path) -> None:
    told = fails_to_run(replace(PRIVATE, learner=replace(PRIVATE.learner, model=FiveSolved)), tmp_path)
    assert told.startswith("learner.model = 'object:FiveSolved-")
    assert "its solve returns 5; must return weights" in told


def test_impairments_of_your_own(example: Any) -> None:
    """A class, or an object whose ``of`` returns it; an object of a class that makes another one would be ignored."""
    blocked = replace(PRIVATE, air=Air(also=(example.Blockage,)))
    assert blocked.air.also[0].startswith("object:Blockage-")
    assert energy_of(blocked) > 0.0

    class Weaker(example.Blockage):  # type: ignore[misc]
        def __init__(self, loss: float) -> None:
            self.loss = loss

        def of(self, scenario: Scenario) -> Any:
            return self

        def gains(self, draws: Any) -> Any:
            return self.loss * super().gains(draws).new_ones(draws.workers.shape)[:, :, None]

    received = [simulate(replace(PRIVATE, air=Air(also=(Weaker(loss),)))).inputs for loss in (1.0, 0.5)]
    assert received[0].abs().mean() != received[1].abs().mean()
    with pytest.raises(PluginError, match=r"^air\.also\[0\] = .*; give the class Blockage, or an object whose of"):
        Air(also=(example.Blockage(),))
    with pytest.raises(ScenarioError, match=r"^air\.also\[0\] = 3: must be one of"):
        Air(also=(3,))


def test_what_is_made_of_a_class_is_given_as_one(example: Any) -> None:
    assert Workers(sends=example.Clipped).sends.startswith("object:ClippedSamples-")
    assert Learner(descent=example.Sign).descent.startswith("object:SignDescent-")
    start = object.__new__(example.Sign)
    with pytest.raises(PluginError, match=r"^learner\.descent = .*; give the class SignDescent$"):
        Learner(descent=start)


def test_an_adversary_and_an_accountant_are_stated_and_accounted(example: Any, tmp_path: Path) -> None:
    privacy = replace(PRIVATE.privacy, adversary=example.TwoAntennas, accountant=example.Zcdp())
    scenario = replace(PRIVATE, privacy=privacy)
    result = airmixml.run(scenario, out=tmp_path / "run")
    stated = result.privacy[0]
    assert (stated.adversary, stated.accountant) == ("two-antennas", privacy.accountant)
    assert 0.0 < stated.epsilon <= privacy.epsilon
    account = account_scenario(scenario, 4, 3)
    said = {(each.adversary, each.accountant): each.epsilon for each in account.statements}
    assert said["two-antennas", privacy.accountant] > said["server", privacy.accountant]
    assert privacy.accountant in json.dumps(account.cells())
    assert privacy.accountant not in ACCOUNTANTS.names

    class Mine(Server):
        """Results would call it the server."""

    with pytest.raises(PluginError, match="its name 'server' is that of a built-in adversary"):
        Privacy(adversary=Mine)


def test_learner_noise_and_link(example: Any) -> None:
    """Eleven times the noise lets workers send eleven times as loud."""
    jammed = replace(PRIVATE, privacy=replace(PRIVATE.privacy, noise=example.Jammer()))
    assert energy_of(jammed) == pytest.approx(11.0 * energy_of(PRIVATE), rel=1e-6)
    digital = Scenario.preset("trustless-digits-digital")
    assert replace(digital, radio=replace(digital.radio, link=example.Satellite)).radio.link_kind.about.endswith(
        "half a second"
    )
    paper = Scenario.preset("paper-iris")
    model = replace(paper.learner, model=example.Linear(), epochs=1)
    trained = airmixml.train(simulate(replace(paper, learner=model)))
    assert sum(each.numel() for each in trained.model.parameters()) == 4 * 3 + 3


def test_what_is_no_scenario_is_refused_in_one_line() -> None:
    for call in (airmixml.run, simulate):
        with pytest.raises(ScenarioError, match="must be a Scenario"):
            call("private-iris")  # type: ignore[arg-type]


def test_an_estimator_takes_a_power_policy_without_more() -> None:
    """The centre that the private recipe has otherwise is measured at the target's own power."""
    inputs, labels = load_iris(return_X_y=True)
    common: dict[str, Any] = {"input_bounds": (0.0, 8.0), "classes": (0, 1, 2), "random_state": 0, "mode": "simulation"}
    model = AirMixClassifier(power=Quieter(0.25), **common).fit(inputs, labels)
    assert model.encoder_.centre == "public"
    assert model.privacy_.epsilon < 0.75
    assert AirMixClassifier(**common).fit(inputs, labels).encoder_.centre == "refined"
