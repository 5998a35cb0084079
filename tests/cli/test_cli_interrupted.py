"""Ctrl-C at any moment after the interpreter has started: one line, exit code 130, never a traceback."""

from __future__ import annotations

import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

# The entry point of the console script, which prints a line when it begins to import a module. Whatever a shell starts
# in the background ignores SIGINT, and so would its children: this one does not.
ENTRY = """
import signal, sys
signal.signal(signal.SIGINT, signal.default_int_handler)
awaited = sys.argv.pop(1)
class Imports:
    def find_spec(self, name, path=None, target=None):
        if name == awaited:
            sys.meta_path.remove(self)
            print("started", flush=True)
from airmixml.cli.main import main
sys.meta_path.insert(0, Imports())
main()
"""
FIRST = "airmixml.cli.options"


def start(*arguments: str, cwd: Path, awaited: str = FIRST) -> subprocess.Popen[str]:
    """Start ``airmix`` and return when it begins to import the awaited module."""
    child = subprocess.Popen(
        [sys.executable, "-c", ENTRY, awaited, *arguments],
        cwd=cwd,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert child.stdout is not None
    assert child.stdout.readline() == "started\n"
    return child


LONG_RUN = ("run", "--preset", "paper-iris", "--set", "learner.epochs=100000")
INTERRUPTED = (130, "", "airmix: interrupted; repeat the command to resume\n")
SHORT_RUN = (*LONG_RUN[:-1], "learner.epochs=1")  # it ends where the awaited module is never imported


@pytest.mark.parametrize("awaited", [FIRST, "typer", "rich.console", "airmixml.runs", "numpy", "torch.nn"])
def test_control_c_while_starting(awaited: str, tmp_path: Path) -> None:
    child = start(*SHORT_RUN, cwd=tmp_path, awaited=awaited)
    child.send_signal(signal.SIGINT)
    out, err = child.communicate()
    assert (child.returncode, out, err) == INTERRUPTED


def test_control_c_while_working(tmp_path: Path) -> None:
    child = start(*LONG_RUN, cwd=tmp_path)
    while not (tmp_path / "runs" / "paper-iris-seed0.partial").exists():
        assert child.poll() is None
        time.sleep(0.01)
    child.send_signal(signal.SIGINT)
    out, err = child.communicate()
    assert (child.returncode, out, err) == INTERRUPTED


def test_what_cannot_be_resumed_does_not_say_so(tmp_path: Path) -> None:
    child = start("presets", cwd=tmp_path)
    child.send_signal(signal.SIGINT)
    _, err = child.communicate()
    assert (child.returncode, err) == (130, "airmix: interrupted\n")


def test_the_entry_point_imports_nothing_heavy() -> None:
    code = "import sys; import airmixml.cli.main; print([name for name in ('typer', 'numpy') if name in sys.modules])"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout == "[]\n"
