"""Files that are not scenarios: whatever is in them, the answer is a ScenarioError of one line."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from airmixml import Scenario, ScenarioError
from airmixml.scenario import preset_names, preset_text

WITH_FILES = settings(deadline=None, max_examples=25, suppress_health_check=[HealthCheck.function_scoped_fixture])


def complaint(read: Callable[..., Scenario], source: str | Path) -> str:
    """Return the message of the ScenarioError, or nothing where the source is a scenario; let all else through."""
    try:
        assert isinstance(read(source), Scenario)
    except ScenarioError as problem:
        return str(problem)
    return ""


@WITH_FILES
@given(content=st.binary(max_size=300))
def test_random_bytes(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "scenario.toml"
    path.write_bytes(content)
    assert "\n" not in complaint(Scenario.load, path)


@settings(deadline=None, max_examples=50)
@given(text=st.text(st.characters() | st.sampled_from("[]{}=\"'.,#\n0159eEx_-+:TZ \\")))
def test_random_text(text: str) -> None:
    assert "\n" not in complaint(Scenario.from_toml, text)


@WITH_FILES
@given(data=st.data(), name=st.sampled_from(preset_names()))
def test_mutated_presets(tmp_path: Path, data: st.DataObject, name: str) -> None:
    content = bytearray(preset_text(name), "utf-8")
    for _ in range(data.draw(st.integers(1, 4))):
        first = data.draw(st.integers(0, len(content)))
        cut = data.draw(st.integers(0, 20))
        content[first : first + cut] = data.draw(
            st.binary(max_size=5) | st.sampled_from([b"\n", b"=", b"[", b"]", b'"', b"-", b"e999", b"nan", b"9" * 30])
        )
    path = tmp_path / "scenario.toml"
    path.write_bytes(content)
    assert "\n" not in complaint(Scenario.load, path)


VALUES = st.recursive(
    st.sampled_from(
        ["1", "-1", "0", "1.5", "nan", "inf", "true", '""', '"x"', "[]", "{}", "1979-05-27", "07:32:00", "0xff"]
    ),
    lambda inner: (
        st.lists(inner, max_size=3).map(lambda parts: "[" + ", ".join(parts) + "]") | inner.map("{{a = {}}}".format)
    ),
    max_leaves=4,
)
KEYS = [
    "slots",
    "alpha",
    "epsilon",
    "hidden_units",
    "dataset",
    "feature_columns",
    "prior",
    "model",
    "slot",
    '"a b"',
    '""',
]


@settings(deadline=None, max_examples=30)
@given(
    table=st.sampled_from(["workers", "radio", "mixing", "privacy", "learner", "nothing", '"\\n"', '""']),
    key=st.sampled_from(KEYS),
    value=VALUES,
)
def test_valid_toml_of_any_shape(table: str, key: str, value: str) -> None:
    for text in (
        f"[{table}]\n{key} = {value}\n",
        f"{table} = {value}\n",
        f"{key} = {value}",
        f"[[{table}]]\n{key} = 1",
    ):
        assert complaint(Scenario.from_toml, text).isprintable()


@pytest.mark.parametrize(
    "text",
    [
        "radio.slots = 0x" + "f" * 5000,
        "radio.noise_dbm = 0b" + "1" * 20000,
        "radio = 0x" + "f" * 5000,
        "extends = 0x" + "f" * 5000,
        "radio.slots = " + "9" * 5000,
        "radio.slots" + ".a" * 3000 + " = 1",
        "extends" + ".a" * 3000 + " = 1",
        "radio.slots = " + "[" * 50_000,
        "radio.slots = " + "{a = " * 5000,
        '"a\\nb" = 1',
        '"\\u001b[31mred" = 1',
        '[radio]\n"a\\tb" = 1',
        "x" * 100_000 + " = 1",
        f'radio = "{"x" * 100_000}"',
        f'extends = "{"x" * 100_000}"',
    ],
    ids=lambda text: text[:30].encode("unicode_escape").decode(),
)
def test_monsters_are_answered_in_one_short_line(refused: Any, text: str) -> None:
    refused(Scenario.from_toml, text)


@pytest.mark.parametrize(
    ("text", "parts"),
    [
        ("[radios]\nslots = 1", ("radios: unknown key", "did you mean radio")),
        ("[workrs]\ncount = 3", ("workrs: unknown key", "did you mean workers?")),
        ("[radio]\nslot = 1", ("radio.slot: unknown key", "did you mean radio.slots?")),
        ("slots = 1", ("slots: unknown key", "did you mean radio.slots?")),
        ("[learner]\nepoch = 1", ("learner.epoch: unknown key", "did you mean learner.epochs?")),
        ("radio = 5", ("radio = 5: must be a table", "[radio]")),
        ("[[radio]]\nslots = 1", ("radio = [{'slots': 1}]: must be a table",)),
        ("[name]\na = 1", ("name = {'a': 1}: must be non-empty printable text",)),
        ("a = = 1\n", ("not valid TOML", "line 1")),
        ("\n\na = 1\na = 2\nb = 3", ("not valid TOML", "line 4")),
    ],
)
def test_mistakes_are_named(refused: Any, text: str, parts: tuple[str, ...]) -> None:
    message = refused(Scenario.from_toml, text)
    assert all(part in message for part in parts), message


def test_files_that_cannot_be_read(refused: Any, tmp_path: Path) -> None:
    assert "No such file" in refused(Scenario.load, tmp_path / "missing.toml")
    assert "not a regular file, but a folder" in refused(Scenario.load, tmp_path)
    (tmp_path / "image.png").write_bytes(b"\x89PNG\r\n\x1a\n\xff\xfe")
    assert "not UTF-8 text" in refused(Scenario.load, tmp_path / "image.png")
    (tmp_path / "large.toml").write_text("#" * 1_000_001)
    assert "larger than 1 MB" in refused(Scenario.load, tmp_path / "large.toml")
    (tmp_path / "loop").symlink_to(tmp_path / "loop")
    assert "cannot be read" in refused(Scenario.load, tmp_path / "loop")
    with pytest.raises(ScenarioError):
        Scenario.load("nul\0character")


def test_a_file_is_read_no_further_than_a_scenario_can_be(refused: Any, tmp_path: Path) -> None:
    with (tmp_path / "endless.toml").open("wb") as file:
        file.truncate(1 << 40)  # a hole of a tebibyte
    assert "larger than 1 MB" in refused(Scenario.load, tmp_path / "endless.toml")


def test_line_ends_and_byte_order_marks_of_other_editors(tmp_path: Path) -> None:
    path = tmp_path / "scenario.toml"
    path.write_bytes(b'\xef\xbb\xbfname = "x"\r\n[radio]\r\nslots = 5\r\n')
    assert Scenario.load(path) == Scenario.load(str(path)) == Scenario().with_overrides("name=x", "radio.slots=5")


def test_messages_name_the_file(refused: Any, tmp_path: Path) -> None:
    path = tmp_path / "mine.toml"
    path.write_text("a = = 1")
    assert refused(Scenario.load, path).startswith(f"{path}: not valid TOML")
    path.write_text("[radio]\nslots = 0")
    assert refused(Scenario.load, path).startswith(f"{path}: radio.slots = 0: must be")


def test_a_pipe_is_refused_rather_than_waited_for(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe.toml")
    with pytest.raises(
        ScenarioError, match=r"pipe.toml: cannot be read \(.*pipe\); give a scenario file or --preset NAME"
    ):
        Scenario.load(tmp_path / "pipe.toml")
