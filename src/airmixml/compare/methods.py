"""The methods that can be compared: what each is, how it is run, and why it may be left out."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from importlib import import_module
from importlib.util import find_spec
from typing import TYPE_CHECKING, Final

from airmixml.errors import ScenarioError
from airmixml.scenario import Scenario, Speed
from airmixml.wording import nearest, shown_name

if TYPE_CHECKING:
    from airmixml.compare.work import Outcome, Work

_MOST_WORKERS_ON_A_CPU: Final = 20_000


def opacus_is_installed() -> bool:
    """Whether the library for central DP-SGD is there."""
    return find_spec("opacus") is not None


def _late(place: str) -> Callable[[Work], Outcome]:
    """Return a function that is imported when it is first called: a mistake is refused before torch is loaded."""
    module, _, name = place.rpartition(".")

    def run(work: Work) -> Outcome:
        outcome: Outcome = getattr(import_module(f"airmixml.compare.{module}"), name)(work)
        return outcome

    return run


def _never(_scenario: Scenario, _speed: Speed) -> str:
    return ""


def _slow_on_a_cpu(scenario: Scenario, speed: Speed) -> str:
    large = scenario.workers.dataset == "mnist" or scenario.workers.count > _MOST_WORKERS_ON_A_CPU
    return "takes long on a CPU: name it in --methods or use --device cuda" if large and speed.device == "cpu" else ""


def _needs_opacus(_scenario: Scenario, _speed: Speed) -> str:
    return "" if opacus_is_installed() else "needs Opacus: pip install airmixml[dp-sgd]"


@dataclass(frozen=True, kw_only=True)
class Method:
    """One way to learn from the workers.

    Attributes:
        about: what it is, in a few words.
        run: does the work.
        left_out: why it is not run unless named; empty where it is.
        needs: why it cannot be run at all; empty where it can.
    """

    about: str
    run: Callable[[Work], Outcome]
    left_out: Callable[[Scenario, Speed], str] = _never
    needs: Callable[[Scenario, Speed], str] = _never


METHODS: Final[dict[str, Method]] = {
    "airmix": Method(about="the scenario itself", run=_late("ours.run_airmix")),
    "mixup-features": Method(
        about="its features as samples, mixed over the air in many slots, learnt in closed form",
        run=_late("ours.run_mixup_features"),
    ),
    "paper": Method(
        about="the paper's way: raw samples mixed over the air, its network",
        run=_late("ours.run_paper"),
        left_out=_slow_on_a_cpu,
    ),
    "federated": Method(
        about="clipped gradients of a linear softmax on the same features, added up over the air every round",
        run=_late("baselines.others.run_federated"),
    ),
    "federated-network": Method(
        about="the same with the paper's network on raw samples",
        run=_late("baselines.others.run_federated_network"),
        left_out=_slow_on_a_cpu,
    ),
    "dp-sgd": Method(
        about="central DP-SGD (Opacus) of that linear softmax; a trusted curator holds all samples",
        run=_late("baselines.others.run_dp_sgd"),
        needs=_needs_opacus,
    ),
    "local-dp": Method(
        about="every worker adds its own noise and sends alone", run=_late("baselines.others.run_local_dp")
    ),
    "raw": Method(about="every worker sends its features alone, in the clear", run=_late("baselines.others.run_raw")),
}


def choose_methods(asked: str | None, scenario: Scenario, speed: Speed) -> tuple[list[str], dict[str, str]]:
    """Return the methods to run, and why the others are left out.

    Args:
        asked: names with commas between them; None for all that can run.
        scenario: what is compared at.
        speed: where it runs.
    """
    if scenario.mixing.power != "dp":
        raise ScenarioError(
            f'mixing.power = "{scenario.mixing.power}": must be "dp" for a comparison, whose methods all keep one '
            "privacy target; use --set mixing.power=dp"
        )
    if asked is not None:
        names = list(dict.fromkeys(name.strip() for name in asked.split(",")))
        for name in names:
            if name not in METHODS:
                raise ScenarioError(
                    f"--methods {shown_name(name)}: must be among {', '.join(METHODS)}; did you mean "
                    f"{nearest(name, list(METHODS))}?"
                )
            problem = METHODS[name].needs(scenario, speed)
            if problem:
                raise ScenarioError(f"--methods {name}: {problem}")
        return names, {}
    reasons = {
        name: method.needs(scenario, speed) or method.left_out(scenario, speed) for name, method in METHODS.items()
    }
    return [name for name, why in reasons.items() if not why], {name: why for name, why in reasons.items() if why}
