"""Long work without a terminal: a line now and then on stderr."""

import pytest

from airmixml.cli import terminal
from airmixml.messages import ScenarioError


def test_a_line_every_half_minute(monkeypatch: pytest.MonkeyPatch) -> None:
    said: list[str] = []
    monkeypatch.delenv("AIRMIX_PROGRESS_SECONDS")
    monkeypatch.setattr(terminal, "print_error_line", said.append)
    now = 100.0
    report = terminal.occasional_lines(lambda: now)
    for seconds in range(96):  # one call a second
        now = 100.0 + seconds
        report("over the air", seconds, 1000)
    assert said == [
        "airmix: over the air: 30 of 1,000 (3 %) after 30 s",
        "airmix: over the air: 60 of 1,000 (6 %) after 60 s",
        "airmix: over the air: 90 of 1,000 (9 %) after 90 s",
    ]
    now += 30.0
    report("training", 0, 0)  # nobody knows how much there is
    assert said[-1] == "airmix: training: 0 of 0 after 125 s"


@pytest.mark.parametrize(("seconds", "lines"), [("0", 0), ("60", 1), ("", 3)])
def test_another_time_between_lines(seconds: str, lines: int, monkeypatch: pytest.MonkeyPatch) -> None:
    said: list[str] = []
    monkeypatch.setattr(terminal, "print_error_line", said.append)
    monkeypatch.setenv("AIRMIX_PROGRESS_SECONDS", seconds)
    now = 0.0
    report = terminal.occasional_lines(lambda: now)
    for _ in range(100):
        now += 1.0
        report("training", 1, 2)
    assert len(said) == lines


@pytest.mark.parametrize("seconds", ["abc", "-1", "nan"])
def test_a_time_that_is_none_is_refused(seconds: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AIRMIX_PROGRESS_SECONDS", seconds)
    with pytest.raises(ScenarioError, match=f"^AIRMIX_PROGRESS_SECONDS = '{seconds}': must be a number of seconds"):
        terminal.occasional_lines()
