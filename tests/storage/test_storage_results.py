"""The one store of results: whole, unchanged and of the same work, or not there; odd content is told in one line."""

from __future__ import annotations

import json
import math
import os
import shutil
import zipfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from airmixml import RunFolderError, Scenario
from airmixml.audit.trials import Keeper
from airmixml.compare import compare_methods, load_methods
from airmixml.files import Arrays, ResultStore, _checksum, from_plain, to_plain, write_arrays

VALUES = {"text": "ε", "none": None, "list": [1, 2.5, -1e-300], "nested": {"inf": math.inf}}
ARRAYS = {"a": np.arange(6.0).reshape(2, 3), "b": np.array([True, False]), "none": np.zeros((0, 3), np.float32)}
NAMES = ("result.json", "result.npz")


def both(values: Any, arrays: Arrays) -> tuple[Any, Arrays]:
    return values, arrays


def saved(folder: Path, name: str, identity: str = "") -> Path:
    ResultStore(folder, identity).save(name, VALUES, ARRAYS if name.endswith("npz") else None)
    return folder / name


@pytest.mark.parametrize("name", NAMES)
def test_what_was_saved_comes_back(name: str, tmp_path: Path) -> None:
    store = ResultStore(tmp_path / "a" / "b")
    assert store.load(name, both) is None
    saved(tmp_path / "a" / "b", name)
    found = store.load(name, both)
    assert found is not None
    assert found[0] == VALUES
    for key, array in ARRAYS.items() if name.endswith("npz") else ():
        assert found[1][key].dtype == array.dtype
        np.testing.assert_array_equal(found[1][key], array)
    assert set(found[1]) == (set(ARRAYS) if name.endswith("npz") else set())
    assert [path.name for path in (tmp_path / "a" / "b").iterdir()] == [name]


def test_arrays_are_stored_whatever_keywords_this_numpy_has(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Before 2.2 ``savez`` had none but ``file``: any other was taken for an array, also ``allow_pickle``."""

    def before_2_2(real: Any) -> Any:
        return lambda file, **arrays: real(file, **{name: np.asanyarray(each) for name, each in arrays.items()})

    # What 2.0 did with that keyword, in a file: the model of a protected run would be lost with it.
    about = {"made_by": ["", "old.npz"], "values": 1, "checksum": _checksum(["", "old.npz"], 1, ARRAYS)}
    with zipfile.ZipFile(tmp_path / "old.npz", "w") as archive:
        named = {**ARRAYS, "about": np.array(json.dumps(about)), "allow_pickle": np.array(False)}
        for name, array in named.items():
            with archive.open(f"{name}.npy", "w") as file:
                np.lib.format.write_array(file, array)
    assert ResultStore(tmp_path).load("old.npz", lambda values, arrays: (values, set(arrays))) == (1, set(ARRAYS))
    for name in ("savez", "savez_compressed"):
        monkeypatch.setattr(np, name, before_2_2(getattr(np, name)))
    saved(tmp_path, "result.npz")
    found = ResultStore(tmp_path).load("result.npz", both)
    assert found is not None
    assert set(found[1]) == set(ARRAYS)
    write_arrays(tmp_path / "plain.npz", ARRAYS)
    with np.load(tmp_path / "plain.npz") as plain:
        assert set(plain) == set(ARRAYS)
    with pytest.raises(ValueError, match="is an array of objects"):
        write_arrays(tmp_path / "odd.npz", {"odd": np.array([{}])})
    assert not (tmp_path / "odd.npz").exists()


@pytest.mark.parametrize("name", NAMES)
def test_other_work_does_not_find_it(name: str, tmp_path: Path) -> None:
    path = saved(tmp_path, name, "cpu")
    assert ResultStore(tmp_path, "cpu").load(name, both) is not None
    assert ResultStore(tmp_path, "cuda").load(name, both) is None
    shutil.copy(path, tmp_path / f"other-{name}")  # a result of another name is one of other work
    assert ResultStore(tmp_path, "cpu").load(f"other-{name}", both) is None


@pytest.mark.parametrize("name", NAMES)
def test_damage_anywhere_means_not_there_or_no_change(name: str, tmp_path: Path) -> None:
    path = saved(tmp_path, name)
    good = path.read_bytes()
    for place in range(0, len(good) - 1, 23):
        for damaged in (good[:place], good[:place] + bytes([good[place] ^ 0x04]) + good[place + 1 :]):
            path.write_bytes(damaged)
            found = ResultStore(tmp_path).load(name, both)
            if found is not None:
                assert found[0] == VALUES
                assert all(np.array_equal(found[1][key], ARRAYS[key]) for key in found[1])


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize(
    "content", [b"", b"null", b"[]", b"{}", b"[" * 100_000, b"\xff\xfe", b"PK\x03\x04", b'{"a": 1}}']
)
def test_other_files_are_not_there(name: str, content: bytes, tmp_path: Path) -> None:
    (tmp_path / name).write_bytes(content)
    assert ResultStore(tmp_path).load(name, both) is None


@pytest.mark.parametrize("name", NAMES)
def test_a_folder_or_a_pipe_in_its_place_is_not_there(name: str, tmp_path: Path) -> None:
    (tmp_path / name).mkdir()
    assert ResultStore(tmp_path).load(name, both) is None
    (tmp_path / name).rmdir()
    if hasattr(os, "mkfifo"):
        os.mkfifo(tmp_path / name)
        assert ResultStore(tmp_path).load(name, both) is None


@dataclass(frozen=True, kw_only=True)
class Inner:
    share: float
    count: int

    def __post_init__(self) -> None:
        if self.share > 1.0:
            raise ValueError(f"share = {self.share}: above one")


@dataclass(frozen=True, kw_only=True)
class Outer:
    name: str
    inner: Inner
    curve: tuple[float, ...] = ()
    rows: tuple[Inner, ...] = ()
    by_name: dict[str, int] | None = None
    limit: float | None = None


OUTER = Outer(
    name="x", inner=Inner(share=0.5, count=3), curve=(1.0, math.inf), rows=(Inner(share=0.0, count=1),), limit=2.0
)


@pytest.mark.parametrize("whole", [OUTER, Outer(name="", inner=OUTER.inner, by_name={"a": 1})])
def test_a_dataclass_goes_through_json_and_back(whole: Outer) -> None:
    plain = json.loads(json.dumps(to_plain(whole)))
    assert plain == to_plain(whole)
    assert from_plain(Outer, plain) == whole


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"name": 7}, "name = 7: must be str"),
        ({"name": None}, "name = None: must be str"),
        ({"more": 1}, "the content has too many or too few keys: more"),
        ({"inner": [0.5, 3]}, "inner has too many or too few keys: count, share"),
        ({"inner": {"share": "0.5", "count": 3}}, "share = '0.5': must be float"),
        ({"inner": {"share": math.nan, "count": 3}}, "share = nan: must be float"),
        ({"inner": {"share": True, "count": 3}}, "share = True: must be float"),
        ({"inner": {"share": 10**400, "count": 3}}, "share = 1000.*: must be float"),
        ({"inner": {"share": 0.5, "count": 3.0}}, "count = 3.0: must be int"),
        ({"inner": {"share": 0.5, "count": True}}, "count = True: must be int"),
        ({"inner": {"share": 1.5, "count": 3}}, "share = 1.5: above one"),
        ({"curve": 1.0}, "curve = 1.0: must be tuple"),
        ({"curve": {"a": 1.0}}, "curve = .*: must be tuple"),
        ({"curve": [1.0, [2.0]]}, r"curve = \[2.0\]: must be float"),
        ({"rows": [{}]}, "rows has too many or too few keys: count, share"),
        ({"by_name": {"a": "b"}}, "by_name.a = 'b': must be int"),
        ({"limit": "none"}, "limit = 'none': must be float"),
    ],
)
def test_what_does_not_fit_is_named(change: dict[str, Any], words: str) -> None:
    with pytest.raises(ValueError, match=words):
        from_plain(Outer, {**to_plain(OUTER), **change})


def told(path: Path) -> Any:
    """Expect the one line that says which file to delete."""
    return pytest.raises(RunFolderError, match=rf"^{path}: does not hold what airmix wrote \(.*\); delete it and give")


IRIS = Scenario.preset("private-iris")


@pytest.mark.parametrize(
    "change",
    [
        {"accuracy": math.nan},
        {"accuracy": 1.5},
        {"accuracy": [0.5]},
        {"privacy": []},
        {"privacy": {}},
        {"privacy": [{"epsilon": 1.0}]},
        {"energy_joules": "1"},
        {"seconds": None},
        {"more": 1},
    ],
    ids=str,
)
def test_an_odd_result_of_a_comparison(change: dict[str, Any], tmp_path: Path) -> None:
    compare_methods(IRIS, load_methods("raw"), out=tmp_path)
    store = ResultStore(tmp_path / "results")
    values = store.load("raw-seed0.json", lambda values, _: values)
    assert values is not None
    store.save("raw-seed0.json", {**values, **change})
    with told(tmp_path / "results" / "raw-seed0.json"):
        compare_methods(IRIS, load_methods("raw"), out=tmp_path)


GOOD = np.arange(8.0).reshape(2, 4)


@pytest.mark.parametrize(
    ("counts", "arrays"),
    [
        (None, {}),
        ([1], {"a/0": GOOD}),
        ({"a": 2}, {"a/0": GOOD}),
        ({"a": "1"}, {"a/0": GOOD}),
    ],
)
def test_odd_trials_of_an_audit(counts: Any, arrays: Arrays, tmp_path: Path) -> None:
    ResultStore(tmp_path).save("trials.npz", counts, arrays)
    with told(tmp_path / "trials.npz"):
        Keeper(tmp_path)


def test_trials_of_an_audit_come_back(tmp_path: Path) -> None:
    keeper = Keeper(tmp_path, every_seconds=0.0)
    keeper.save("known", [GOOD])
    keeper.save("known", [GOOD, 2 * GOOD[:, :3]])  # the last block may have fewer trials
    keeper.save("a/b", [3 * GOOD])
    again = Keeper(tmp_path)
    assert again.resumed_blocks == 3
    first, last = again.load("known")
    np.testing.assert_array_equal(first, GOOD)
    np.testing.assert_array_equal(last, 2 * GOOD[:, :3])
    np.testing.assert_array_equal(again.load("a/b"), [3 * GOOD])
    assert again.load("other") == []
    np.savez(tmp_path / "trials.npz", **{"known/0": GOOD})  # as it was before: not there
    assert Keeper(tmp_path).resumed_blocks == 0


@pytest.mark.parametrize("name", NAMES)
def test_infinite_numbers_are_kept(name: str, tmp_path: Path) -> None:
    values = {**VALUES, "list": [math.inf, -math.inf, 1.0], "text": "inf", "other": {"number": "seven"}}
    ResultStore(tmp_path).save(name, values)
    assert ResultStore(tmp_path).load(name, lambda found, _: found) == values
    ResultStore(tmp_path).save(name, {"share": math.nan})
    assert math.isnan(ResultStore(tmp_path).load(name, lambda found, _: found["share"]))


def test_results_of_a_comparison_are_kept(tmp_path: Path) -> None:
    scenario, methods = Scenario.preset("private-iris"), load_methods("logistic")
    first = compare_methods(scenario, methods, out=tmp_path)
    again = compare_methods(scenario, methods, out=tmp_path)
    assert (again.kept, again.rows) == (1, first.rows)
    assert math.isinf(again.rows[0].privacy[0].epsilon)
