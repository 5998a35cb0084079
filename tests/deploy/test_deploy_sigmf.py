"""SigMF recordings, by the specification."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path

import numpy as np
import pytest

from airmixml.deploy.air import SumOnAir
from airmixml.deploy.sigmf_files import paths_of, write_recording
from airmixml.errors import DataError
from airmixml.scenario.air import SYMBOLS_PER_SECOND


def recording(*lengths: int) -> list[SumOnAir]:
    rng = np.random.default_rng(2)
    return [
        SumOnAir((0, number + 1), (rng.standard_normal(n) + 1j * rng.standard_normal(n)).astype(np.complex64))
        for number, n in enumerate(lengths)
    ]


def test_both_files_are_as_the_specification_says(tmp_path: Path) -> None:
    made = recording(3, 2)
    data, meta = write_recording(tmp_path / "new" / "slots", made, "two slots")
    assert (data.name, meta.name) == ("slots.sigmf-data", "slots.sigmf-meta")
    # Real and imaginary parts in turn, four bytes each, little end first.
    parts = np.frombuffer(data.read_bytes(), dtype="<f4")
    every = np.concatenate([each.samples for each in made])
    assert parts.tolist() == np.stack([every.real, every.imag], axis=1).ravel().tolist()
    told = json.loads(meta.read_text())
    assert set(told) == {"global", "captures", "annotations"}
    assert told["global"]["core:datatype"] == "cf32_le"
    assert told["global"]["core:sample_rate"] == SYMBOLS_PER_SECOND
    assert told["global"]["core:sha512"] == hashlib.sha512(data.read_bytes()).hexdigest()
    assert told["captures"] == [{"core:sample_start": 0}]
    spans = [(each["core:sample_start"], each["core:sample_count"]) for each in told["annotations"]]
    assert spans == [(0, 3), (3, 2)]


@pytest.mark.parametrize("suffix", ["", ".sigmf-data", ".sigmf-meta", ".sigmf"])
def test_whichever_of_the_two_files_is_named_both_are_meant(suffix: str) -> None:
    assert [each.name for each in paths_of(Path(f"a.b{suffix}"))] == ["a.b.sigmf-data", "a.b.sigmf-meta"]


def test_a_place_that_cannot_be_written_gives_one_line(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(DataError, match="cannot be written"):
        write_recording(tmp_path / "file" / "x", recording(1), "")
    assert paths_of(Path("a/b"))[0] == Path("a/b.sigmf-data")
