"""Received sums as SigMF recordings, which GNU Radio, inspectrum and other radio tools read.

A recording is two files: NAME.sigmf-data has the samples, little-endian complex64 (cf32_le), NAME.sigmf-meta says in
JSON what they are. Each slot is one annotation that names the workers in its sum.
"""

import hashlib
import json
from collections.abc import Sequence
from itertools import accumulate
from pathlib import Path
from typing import Final

from airmixml.deploy.air import AnalogKind, SumOnAir, as_bytes, as_samples
from airmixml.deploy.contract import Contract
from airmixml.deploy.rounds import Sum
from airmixml.files import read_regular, write_bytes, write_text, writing_to
from airmixml.messages import DataError, ProtocolError
from airmixml.scenario.air import SYMBOLS_PER_SECOND
from airmixml.version import __version__

_DATATYPE: Final = "cf32_le"
_VERSION: Final = "1.2.0"
_PRESENT: Final = "airmixml:present"
_LARGEST_META: Final = 64 << 20


def paths_of(name: Path) -> tuple[Path, Path]:
    """Return the files of a recording, samples and metadata, whichever of the two or of neither is named."""
    base = name.with_suffix("") if name.suffix in (".sigmf-data", ".sigmf-meta", ".sigmf") else name
    return base.with_name(f"{base.name}.sigmf-data"), base.with_name(f"{base.name}.sigmf-meta")


def write_recording(name: Path, sums: Sequence[SumOnAir], description: str) -> tuple[Path, Path]:
    """Write both files and return their places; the metadata last, with a digest of the samples."""
    data_path, meta_path = paths_of(name)
    content = b"".join(as_bytes(each.samples) for each in sums)
    starts = accumulate((len(each.samples) for each in sums), initial=0)
    meta = {
        "global": {
            "core:datatype": _DATATYPE,
            "core:version": _VERSION,
            "core:sample_rate": SYMBOLS_PER_SECOND,
            "core:recorder": f"airmixml {__version__}",
            "core:description": description,
            "core:sha512": hashlib.sha512(content).hexdigest(),
            "core:extensions": [{"name": "airmixml", "version": "1.0.0", "optional": True}],
        },
        "captures": [{"core:sample_start": 0}],
        "annotations": [
            {
                "core:sample_start": start,
                "core:sample_count": len(each.samples),
                "core:label": f"slot {number}",
                _PRESENT: list(each.present),
            }
            for number, (start, each) in enumerate(zip(starts, sums, strict=False))
        ],
    }
    with writing_to(data_path, option="--record"):
        data_path.parent.mkdir(parents=True, exist_ok=True)
        write_bytes(data_path, content)
        write_text(meta_path, json.dumps(meta, indent=1) + "\n")
    return data_path, meta_path


def read_recording(name: Path) -> list[SumOnAir]:
    """Return the sums of consecutive slots; refuse a recording that is broken, or not of complex64, in one line."""
    data_path, meta_path = paths_of(name)
    try:
        told, content = read_regular(meta_path, _LARGEST_META), read_regular(data_path)
    except OSError as problem:
        raise DataError(f"{problem.filename}: cannot be read ({problem.strerror}); a recording has two files") from None
    try:
        meta = json.loads(told)
        about, _, annotations = meta["global"], meta["captures"], meta["annotations"]
        datatype, stated = about["core:datatype"], about.get("core:sha512")
        spans = [(int(each["core:sample_start"]), int(each["core:sample_count"])) for each in annotations]
        present = [tuple(int(one) for one in each.get(_PRESENT, ())) for each in annotations]
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        raise DataError(f"{meta_path}: is no SigMF metadata (JSON with global, captures, annotations)") from None
    if datatype != _DATATYPE:
        raise DataError(f"{meta_path}: core:datatype = {datatype!r} must be {_DATATYPE!r}; convert the recording")
    try:
        samples = as_samples(content)
    except ProtocolError as problem:
        raise DataError(f"{data_path}: {problem}; record it again") from None
    if stated not in (None, hashlib.sha512(content).hexdigest()):
        raise DataError(f"{data_path}: is not what {meta_path.name} describes (core:sha512); record it again")
    for start, count in spans:
        if not 0 <= start <= start + count <= len(samples):
            raise DataError(
                f"{meta_path}: an annotation spans samples {start} to {start + count}, and there are {len(samples):,}"
            )
    return [SumOnAir(who, samples[start : start + count]) for who, (start, count) in zip(present, spans, strict=True)]


def replayed(contract: Contract, recorded: Sequence[SumOnAir]) -> list[Sum]:
    """Return the sums of a recording, in order; refuse one of another scenario."""
    if len(recorded) < len(contract.schedule):
        raise ProtocolError(f"recording: has no sum of slot {len(recorded)}; record all slots of the scenario")
    sums = []
    for number, (place, total) in enumerate(zip(contract.schedule, recorded, strict=False)):
        kind, known = contract.kinds[place], contract.directory.keys() & set(total.present)
        of_members = known and len(known) == len(total.present)
        if not isinstance(kind, AnalogKind) or len(total.samples) != kind.numbers or not of_members:
            raise ProtocolError(
                f"recording: slot {number} has {len(total.samples)} samples of {len(total.present)} workers: must have "
                f"{kind.numbers}, of workers of the scenario; replay it with the scenario that was recorded"
            )
        sums.append(Sum(number, place, tuple(sorted(total.present)), *kind.mean(total), total))
    return sums
