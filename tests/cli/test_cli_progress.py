"""Long work without a terminal: a line now and then on stderr."""

import pytest

from airmixml.cli import terminal


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


@pytest.mark.parametrize(("seconds", "lines"), [("0", 0), ("60", 1), ("nonsense", 3)])
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


def estimates(seconds_per_unit: float, total: int, stage: str, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Return what is said of a stage of so many units, of which each takes so long."""
    said: list[str] = []
    monkeypatch.delenv("AIRMIX_PROGRESS_SECONDS", raising=False)
    monkeypatch.setattr(terminal, "print_error_line", said.append)
    now = 50.0
    report = terminal.with_estimate(lambda *_: None, lambda: now)
    report(stage, 0, total)
    for done in range(total // 100, total + 1, total // 100):
        now = 50.0 + done * seconds_per_unit
        report(stage, done, total)
    return said


def test_long_work_says_once_how_long_it_will_take(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.argv", ["airmix", "run"])
    assert estimates(1e-4, 100_000_000, "over the air", monkeypatch) == [
        "airmix: 100,000,000 slots: about 2.75 h for this stage; Ctrl-C stops"  # of 10,000 s, of which 1 % has passed
    ]
    assert estimates(2.0, 500, "training", monkeypatch) == [
        "airmix: 500 epochs: about 16.5 min for this stage; Ctrl-C stops, repeat the command to resume"
    ]


def test_a_stage_that_goes_on_from_the_middle_is_measured_from_there(monkeypatch: pytest.MonkeyPatch) -> None:
    said: list[str] = []
    monkeypatch.delenv("AIRMIX_PROGRESS_SECONDS", raising=False)
    monkeypatch.setattr(terminal, "print_error_line", said.append)
    monkeypatch.setattr("sys.argv", ["airmix", "account"])
    now = 0.0
    report = terminal.with_estimate(lambda *_: None, lambda: now)
    report("training", 400, 1000)
    now = 10.0
    report("training", 410, 1000)
    assert said == ["airmix: 1,000 epochs: about 9.83 min for this stage; Ctrl-C stops"]


def test_processes_that_start_do_not_count(monkeypatch: pytest.MonkeyPatch) -> None:
    """The first of 1,000 steps comes after 10 s, all others in 20 s together: that is no work of hours."""
    said: list[str] = []
    monkeypatch.delenv("AIRMIX_PROGRESS_SECONDS", raising=False)
    monkeypatch.setattr(terminal, "print_error_line", said.append)
    now = 0.0
    report = terminal.with_estimate(lambda *_: None, lambda: now)
    for done in range(1001):
        now = 10.0 + 0.02 * done if done else 0.0
        report("sweep", done, 1000)
    assert said == []


def test_short_work_says_nothing_of_its_length(monkeypatch: pytest.MonkeyPatch) -> None:
    assert estimates(5e-7, 100_000_000, "over the air", monkeypatch) == []
    assert estimates(0.001, 500, "training", monkeypatch) == []


def test_no_estimates_where_no_lines_are_wanted(monkeypatch: pytest.MonkeyPatch) -> None:
    def silent(*_: object) -> None:
        """Report nothing."""

    monkeypatch.setenv("AIRMIX_PROGRESS_SECONDS", "0")
    assert terminal.with_estimate(silent) is silent
