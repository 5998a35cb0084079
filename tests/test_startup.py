"""What a fresh interpreter loads: whoever asks for a number, a list or a class does not wait for what fits networks."""

from __future__ import annotations

import subprocess
import sys

import pytest
import typer

from airmixml.cli import options as application
from airmixml.cli.options import load

HEAVY = ("torch", "matplotlib", "pandas", "scipy.stats", "scipy.optimize", "sklearn", "dp_accounting", "ray")
COMMAND = "import sys; from airmixml.cli.options import app; app(sys.argv[1:], standalone_mode=False)"


def loaded(code: str, *arguments: str) -> list[str]:
    """Return which heavy libraries are loaded after that code."""
    ends = f"{code}; import sys; sys.stderr.write(' '.join(name for name in {HEAVY} if name in sys.modules))"
    done = subprocess.run([sys.executable, "-c", ends, *arguments], capture_output=True, text=True, check=True)
    return done.stderr.split()


def test_the_package_loads_not_even_numpy() -> None:
    assert loaded("import airmixml, sys; assert 'numpy' not in sys.modules") == []


def test_help_loads_no_command() -> None:
    assert loaded(f"{COMMAND}; assert not [name for name in ('numpy', 'rich') if name in sys.modules]", "--help") == []


def test_accounts_load_only_numpy_and_special_functions() -> None:
    numbers = "account --workers 60 --scheduled 6 --slots 9 --epsilon 1 --accountant pld --no-picture --json"
    preset = "account --preset paper-iris --no-picture"
    code = f"{COMMAND}; app('{numbers}'.split(), standalone_mode=False)"
    assert loaded(code, *preset.split()) == []


def test_a_deployment_in_one_process_loads_no_torch() -> None:
    assert loaded("from airmixml.deploy.server import Server; from airmixml.deploy.worker import Device") == []


@pytest.mark.long
def test_slots_load_only_the_stages_that_a_scenario_has() -> None:
    """Receiver noise on the ideal air needs no impairment but the law of fading, no masks and no integers."""
    absent = ("airmixml.impairments.", "airmixml.masks.", "airmixml.integers.", "airmixml.radio.impaired")
    code = (
        "import sys; from airmixml import Scenario, simulate; simulate(Scenario.preset('private-iris')); "
        f"assert {{name for name in sys.modules if name.startswith({absent})}} == {{'airmixml.impairments.fading'}}"
    )
    assert "torch" in loaded(code)


def test_pages_of_finished_attacks_load_no_statistics() -> None:
    assert loaded("import airmixml.attacks.attack_page") == []


@pytest.mark.long
def test_an_estimator_loads_no_torch_before_it_is_fitted() -> None:
    """scikit-learn's base classes load scipy.stats, and pandas where it is installed."""
    found = loaded("from airmixml import AirMixClassifier, AirMixRegressor; AirMixClassifier()")
    assert set(found) <= {"sklearn", "scipy.stats", "scipy.optimize", "pandas"}


def test_the_list_of_commands_says_what_their_help_says() -> None:
    for name in application.COMMANDS:
        help_text = load(name).help
        assert help_text.split("\n\n")[0].split() == application.about(name).split(), name


def test_every_command_is_listed_once_and_can_be_loaded() -> None:
    group = typer.main.get_command(application.app)
    assert list(group.commands) == list(application.COMMANDS)
