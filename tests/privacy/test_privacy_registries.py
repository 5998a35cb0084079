"""Accountants, adversaries and learners of other packages are in the same registries as ours."""

from __future__ import annotations

import math
import subprocess
import sys
from dataclasses import dataclass, replace
from importlib.metadata import EntryPoint

import pytest

from airmixml import Scenario
from airmixml.messages import PluginError
from airmixml.output.figures import accountant_colour
from airmixml.planning.account import account_scenario
from airmixml.planning.account_page import epsilon_curves
from airmixml.privacy import Accountant, Adversary, Design, GaussianSlots, Server
from airmixml.privacy.gaussian import accountant_named
from airmixml.radio.system import adversary_named
from airmixml.radio.tally import rehearse
from airmixml.registries import ACCOUNTANTS, ADVERSARIES, LEARNERS
from airmixml.registry import Registry

SCENARIO = Scenario().with_overrides(
    "workers.count=100",
    "radio.slots=5",
    "mixing.power=fixed",
    "mixing.policy=equalmix",  # slots of one kind: quick
)


class Zcdp(Accountant):
    about = "zero-concentrated differential privacy, for a known schedule"

    def refusal(self, mechanism: GaussianSlots) -> str:
        return "" if mechanism.sampling == "none" else "no credit for a hidden schedule"

    def epsilon(self, mechanism: GaussianSlots, delta: float) -> float:
        rho = mechanism.total / 2.0
        return rho + 2.0 * math.sqrt(rho * math.log(1.0 / delta))


@dataclass(frozen=True, kw_only=True)
class QuietServer(Adversary):
    name = "quiet-server"
    about = "the server, with half the noise"
    knows_schedule = True
    knows = "all mixtures with half the noise, and the schedule"

    def why(self, design: Design) -> str:
        return Server().why(design)

    def noise_watts(self, design: Design) -> float:
        return design.noise_watts / 2.0

    def mechanism(self, design: Design, adjacency: str) -> GaussianSlots:
        return Server().mechanism(replace(design, noise_watts=self.noise_watts(design)), adjacency)


@pytest.fixture
def installed(monkeypatch: pytest.MonkeyPatch) -> None:
    for registry, name, thing in ((ACCOUNTANTS, "zcdp", Zcdp), (ADVERSARIES, "quiet-server", QuietServer)):
        point = EntryPoint(name=name, value=f"{__name__}:{thing.__name__}", group=registry.group)
        monkeypatch.setitem(vars(registry), "plugins", {name: point})


@pytest.mark.usefixtures("installed")
def test_a_run_states_what_others_accountants_and_adversaries_certify() -> None:
    stated = {(each.adversary, each.accountant): each for each in rehearse(SCENARIO, 4, 3).statements[:-2]}
    assert stated["server", "gdp"].epsilon < stated["server", "zcdp"].epsilon < 2 * stated["server", "gdp"].epsilon
    assert stated["release", "zcdp"].sampling == "none"  # it refuses a hidden schedule, and falls back on a known one
    quiet = stated["quiet-server", "gdp"]
    assert quiet.epsilon > stated["server", "gdp"].epsilon
    assert quiet.noise_watts_per_symbol == stated["server", "gdp"].noise_watts_per_symbol / 2.0


@pytest.mark.usefixtures("installed")
def test_an_account_lists_and_draws_them() -> None:
    account = account_scenario(SCENARIO, 4, 3)
    assert {"gdp", "zcdp"} <= {each.accountant for each in account.statements if each.adversary == "quiet-server"}
    drawn = epsilon_curves(account)[1]
    assert {name for adversary, name in drawn if adversary == "quiet-server"} == {"gdp"}
    colours = [accountant_colour(name) for name in ACCOUNTANTS.names]
    assert len(set(colours[:5])) == 5
    assert colours[5] in colours[:5]


@pytest.mark.parametrize("registry", [ACCOUNTANTS, ADVERSARIES, LEARNERS], ids=lambda each: each.kind)
def test_all_of_ours_have_what_others_need(registry: Registry) -> None:
    for name in registry.own:
        thing = registry.load(name)
        assert all(hasattr(thing, attribute) for attribute in registry.needs), name
        assert thing.about
        assert "\n" not in thing.about


def test_nothing_unknown_falls_through() -> None:
    with pytest.raises(PluginError, match=r"privacy\.adversary = 'servre': must be one of .*did you mean server\?"):
        adversary_named("servre", SCENARIO)
    with pytest.raises(PluginError, match=r"privacy\.accountant = 'plt': must be one of .*did you mean pld\?"):
        accountant_named("plt")
    with pytest.raises(PluginError, match=r"learner\.model = 'rigde': .*did you mean ridge\?"):
        LEARNERS.load("rigde")


@pytest.mark.parametrize("name", ADVERSARIES.own)
def test_an_adversary_is_named_as_it_is_registered(name: str) -> None:
    assert adversary_named(name, SCENARIO).name == name
    assert ADVERSARIES.load(name).knows_schedule is (name in ("server", "everyone"))
    assert ADVERSARIES.load(name).own_receiver is (name == "eavesdropper")


def test_questions_about_learners_do_not_import_torch() -> None:
    code = (
        "import sys; from airmixml import Scenario; Scenario.preset('private-mnist').learner.closed_form; "
        "assert 'torch' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
