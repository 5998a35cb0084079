"""Ctrl-C at any moment after the interpreter has started: one line, exit code 130, never a traceback."""

from __future__ import annotations

import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

# The entry point of the console script, which prints a line at its very first import. Whatever a shell starts in the
# background ignores SIGINT, and so would its children: this one does not.
ENTRY = """
import signal, sys
signal.signal(signal.SIGINT, signal.default_int_handler)
class FirstImport:
    def find_spec(self, name, path=None, target=None):
        if name == "airmixml.cli.app":
            print("started", flush=True)
from airmixml.cli.main import main
sys.meta_path.insert(0, FirstImport())
main()
"""


def start(*arguments: str, cwd: Path) -> subprocess.Popen[str]:
    child = subprocess.Popen(
        [sys.executable, "-c", ENTRY, *arguments],
        cwd=cwd,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert child.stdout is not None
    assert child.stdout.readline() == "started\n"
    return child


@pytest.mark.parametrize("seconds", [0.0, 0.01, 0.03, 0.1, 0.2, 0.4, 0.7, 1.0, 2.0])
def test_control_c_while_starting(seconds: float, tmp_path: Path) -> None:
    child = start("run", "--preset", "paper-iris", "--set", "learner.epochs=100000", cwd=tmp_path)
    time.sleep(seconds)
    child.send_signal(signal.SIGINT)
    out, err = child.communicate()
    assert (child.returncode, out, err) == (130, "", "airmix: interrupted; repeat the command to resume\n")


def test_what_cannot_be_resumed_does_not_say_so(tmp_path: Path) -> None:
    child = start("presets", cwd=tmp_path)
    child.send_signal(signal.SIGINT)
    _, err = child.communicate()
    assert (child.returncode, err) == (130, "airmix: interrupted\n")


def test_the_entry_point_imports_nothing_heavy() -> None:
    code = "import sys; import airmixml.cli.main; print([name for name in ('typer', 'numpy') if name in sys.modules])"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout == "[]\n"
