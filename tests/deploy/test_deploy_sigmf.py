"""SigMF recordings: by the specification, out and in again, broken ones in one line."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from deploy_histories import analog_contract

from airmixml.deploy.air import SumOnAir
from airmixml.deploy.sigmf_files import paths_of, read_recording, replayed, write_recording
from airmixml.messages import DataError, ProtocolError, RunFolderError
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
def test_what_was_written_is_read_again(tmp_path: Path, suffix: str) -> None:
    made = recording(7, 1, 4)
    write_recording(tmp_path / "a.b", made, "")
    found = read_recording(tmp_path / f"a.b{suffix}")
    assert [each.present for each in found] == [(0, 1), (0, 2), (0, 3)]
    for one, other in zip(found, made, strict=True):
        assert np.array_equal(one.samples, other.samples)


def change(path: Path, edit: Callable[[dict], object]) -> None:
    meta = json.loads(path.read_text())
    edit(meta)
    path.write_text(json.dumps(meta))


OTHER, LONG, BEFORE = {"core:datatype": "ci16_le"}, {"core:sample_count": 9}, {"core:sample_start": -1}


@pytest.mark.parametrize(
    ("spoil", "reason"),
    [
        (lambda data, meta: data.unlink(), "sigmf-data: cannot be read"),
        (lambda data, meta: meta.unlink(), "sigmf-meta: cannot be read"),
        (lambda data, meta: meta.write_text("{"), "is no SigMF metadata"),
        (lambda data, meta: meta.write_text("[" * 100_000), "is no SigMF metadata"),
        (lambda data, meta: meta.write_bytes(b"\xff\x00"), "is no SigMF metadata"),
        (lambda data, meta: change(meta, lambda m: m.pop("captures")), "is no SigMF metadata"),
        (lambda data, meta: change(meta, lambda m: m.update(annotations=[{}])), "is no SigMF metadata"),
        (lambda data, meta: change(meta, lambda m: m["global"].update(OTHER)), "'ci16_le' must be"),
        (lambda data, meta: change(meta, lambda m: m["annotations"][1].update(LONG)), "spans samples"),
        (lambda data, meta: change(meta, lambda m: m["annotations"][0].update(BEFORE)), "spans samples"),
        (lambda data, meta: data.write_bytes(data.read_bytes()[:-3]), "ends within a sample"),
        (lambda data, meta: data.write_bytes(bytes(40)), "is not what x.sigmf-meta describes"),
        (lambda data, meta: data.write_bytes(np.full(10, np.nan, dtype="<f4").tobytes()), "not finite"),
    ],
)  # fmt: skip
def test_a_broken_recording_gives_one_line(tmp_path: Path, spoil: Callable[[Path, Path], None], reason: str) -> None:
    spoil(*write_recording(tmp_path / "x", recording(3, 2), ""))
    with pytest.raises(DataError, match=reason) as found:
        read_recording(tmp_path / "x")
    assert "\n" not in str(found.value)


def test_a_place_that_cannot_be_written_gives_one_line(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(RunFolderError, match="cannot be written"):
        write_recording(tmp_path / "file" / "x", recording(1), "")
    assert paths_of(Path("a/b"))[0] == Path("a/b.sigmf-data")


def test_a_recording_of_another_scenario_is_not_replayed() -> None:
    contract = analog_contract()
    sums = [SumOnAir((0, 2), np.ones(each.numbers, dtype=np.complex64)) for each in contract.kinds]
    assert [(each.number, each.kind, each.present) for each in replayed(contract, sums)] == [
        (0, 0, (0, 2)),
        (1, 1, (0, 2)),
    ]
    with pytest.raises(ProtocolError, match="recording: has no sum of slot 1"):
        replayed(contract, sums[:1])
    for wrong in (
        SumOnAir((0, 99), sums[0].samples),
        SumOnAir((), sums[0].samples),
        SumOnAir((0,), sums[0].samples[1:]),
    ):
        with pytest.raises(ProtocolError, match="recording: slot 0 has"):
            replayed(contract, [wrong, sums[1]])
