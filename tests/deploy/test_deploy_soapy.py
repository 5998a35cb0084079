"""SoapySDR: what is asked of a radio, with a module of the binding's signatures; not seen on hardware."""

from __future__ import annotations

import inspect
import json
import os
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from soapy_radio import SoapyRadio, Tuning

from airmixml.deploy.processes import SYSTEM_PYTHON
from airmixml.messages import ProtocolError

TUNING = Tuning(sample_rate=1e6, frequency_hz=868e6, gain_db=10.0, channel=0, antenna="A")


class FakeDevice:
    """A radio that hears itself. Signatures are those of the binding, which a test below compares."""

    def __init__(self, *args, **kwargs):
        self.calls: list[tuple] = []
        self.air = np.zeros(0, dtype=np.complex64)
        self.most, self.answers, self.status, self.bursts = 100, [], -1, True
        self.flags: list[tuple[int, int]] = []
        if args and args[0].get("driver") == "none":
            raise RuntimeError("SoapySDR::Device::make() no match")

    def setSampleRate(self, direction, channel, rate):
        self.calls.append(("rate", direction, channel, rate))

    def setFrequency(self, *args):
        self.calls.append(("frequency", *args))

    def setGain(self, *args):
        self.calls.append(("gain", *args))

    def setAntenna(self, direction, channel, name):
        if name == "wrong":
            raise RuntimeError("setAntenna() unknown antenna")
        self.calls.append(("antenna", direction, channel, name))

    def setupStream(self, *args):
        self.calls.append(("setup", *args))
        return "stream"

    def activateStream(self, stream, flags=0, timeNs=0, numElems=0):
        self.calls.append(("activate", flags, timeNs, numElems))
        return -5 if flags and not self.bursts else 0

    def deactivateStream(self, stream, flags=0, timeNs=0):
        self.calls.append(("deactivate",))
        return 0

    def closeStream(self, stream):
        self.calls.append(("close",))

    def writeStream(self, stream, buffs, numElems, flags=0, timeNs=0, timeoutUs=100000):
        if self.answers:
            return SimpleNamespace(ret=self.answers.pop(0))
        taken = min(numElems, self.most)
        self.air = np.concatenate([self.air, buffs[0][:taken]])
        self.flags.append((flags, timeNs))
        return SimpleNamespace(ret=taken)

    def readStream(self, stream, buffs, numElems, flags=0, timeoutUs=100000):
        if self.answers:
            return SimpleNamespace(ret=self.answers.pop(0))
        taken = min(numElems, self.most)
        buffs[0][:taken], self.air = self.air[:taken], self.air[taken:]
        return SimpleNamespace(ret=taken)

    def readStreamStatus(self, stream, timeoutUs=100000):
        return SimpleNamespace(ret=self.status)


NAMES = {
    "SOAPY_SDR_TX": 0,
    "SOAPY_SDR_RX": 1,
    "SOAPY_SDR_CF32": "CF32",
    "SOAPY_SDR_END_BURST": 2,
    "SOAPY_SDR_HAS_TIME": 4,
    "SOAPY_SDR_TIMEOUT": -1,
}


@pytest.fixture
def radio(monkeypatch: pytest.MonkeyPatch) -> SoapyRadio:
    fake = SimpleNamespace(Device=FakeDevice, errToStr=lambda code: f"error {code}", **NAMES)
    monkeypatch.setitem(sys.modules, "SoapySDR", fake)
    return SoapyRadio.open({"driver": "fake"}, TUNING)


def frame(samples: int) -> np.ndarray:
    rng = np.random.default_rng(0)
    return (rng.uniform(-1, 1, samples) + 1j * rng.uniform(-1, 1, samples)).astype(np.complex64)


def test_a_frame_goes_out_as_one_burst_in_the_pieces_that_the_radio_takes(radio: SoapyRadio) -> None:
    sent = frame(250)
    radio.transmit(sent * np.float32(4.0), full_scale=4.0, at_nanoseconds=77)
    assert np.array_equal(radio.device.air, sent)
    assert radio.device.flags == [(6, 77), (2, 77), (2, 77)]  # the time counts for the first piece alone
    assert radio.device.calls == [
        ("rate", 0, 0, 1e6),
        ("frequency", 0, 0, 868e6),
        ("gain", 0, 0, 10.0),
        ("antenna", 0, 0, "A"),
        ("setup", 0, "CF32", [0]),
        ("activate", 0, 0, 0),
        ("deactivate",),
        ("close",),
    ]


def test_as_many_samples_come_in_as_were_asked_for(radio: SoapyRadio) -> None:
    radio.device.air = frame(300)
    expected = radio.device.air[:250] * np.float32(2.0)
    radio.device.answers = [-1, 0]  # nothing yet
    assert np.array_equal(radio.receive(250, full_scale=2.0, at_nanoseconds=5), expected)
    assert ("activate", 6, 5, 250) in radio.device.calls
    assert radio.device.calls[-1] == ("close",)


def test_a_driver_without_bursts_streams_but_cannot_begin_at_a_time(radio: SoapyRadio) -> None:
    radio.device.bursts, radio.device.air = False, frame(20)
    assert np.array_equal(radio.receive(20), frame(20))
    with pytest.raises(ProtocolError, match=r"could not be started \(error -5\)"):
        radio.receive(20, at_nanoseconds=5)


def test_what_would_be_clipped_is_refused(radio: SoapyRadio) -> None:
    for sent in (np.array([0.5 + 1.1j]), np.array([np.nan])):
        with pytest.raises(ProtocolError, match="full scale and must be at most 1"):
            radio.transmit(sent.astype(np.complex64), full_scale=1.0)
    assert not len(radio.device.air)


def test_lost_samples_and_late_bursts_give_one_line_and_the_stream_is_closed(radio: SoapyRadio) -> None:
    radio.device.answers = [-4]
    with pytest.raises(ProtocolError, match=r"could not receive \(error -4\)"):
        radio.receive(10)
    radio.device.answers = [-7]
    with pytest.raises(ProtocolError, match=r"could not transmit \(error -7\)"):
        radio.transmit(frame(10), full_scale=2.0)
    radio.device.status = -7
    with pytest.raises(ProtocolError, match=r"not sent whole \(error -7\)"):
        radio.transmit(frame(10), full_scale=2.0)
    assert radio.device.calls.count(("close",)) == 3


def test_a_radio_that_is_not_there_or_refuses_its_settings_gives_one_line(radio: SoapyRadio) -> None:
    with pytest.raises(ProtocolError, match="radio driver=none: cannot be opened"):
        SoapyRadio.open({"driver": "none"}, TUNING)
    wrong = SoapyRadio(
        radio.device, Tuning(sample_rate=1e6, frequency_hz=1.0, gain_db=0.0, antenna="wrong"), radio.binding
    )
    with pytest.raises(ProtocolError, match="refuses its settings"):
        wrong.receive(1)


def test_without_the_binding_one_line_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "SoapySDR", None)
    with pytest.raises(ProtocolError, match="apt-get install python3-soapysdr"):
        SoapyRadio.open({}, TUNING)


ASK = """
import inspect, json, SoapySDR
names = NAMES
print(json.dumps({name: list(inspect.signature(getattr(SoapySDR.Device, name)).parameters) for name in names}))
"""
NULL = """
from soapy_radio import SoapyRadio, Tuning
import numpy as np
radio = SoapyRadio.open({"driver": "null"}, Tuning(sample_rate=1e6, frequency_hz=1e8, gain_db=0.0))
for call in (lambda: radio.transmit(np.ones(4, dtype=np.complex64), full_scale=1.0), lambda: radio.receive(4)):
    try:
        call()
    except Exception as problem:
        print(f"{type(problem).__name__}: {problem}")
"""


def under_the_systems_python(script: str) -> str:
    root = Path(__file__).parents[2]
    found = subprocess.run(
        [SYSTEM_PYTHON, "-c", script],
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "PYTHONPATH": f"{root / 'src'}:{root / 'examples' / 'radio'}"},
    )
    if "No module named 'SoapySDR'" in found.stderr or "python3-soapysdr" in found.stderr:
        pytest.skip("SoapySDR is not installed: apt-get install python3-soapysdr")
    assert found.returncode == 0, found.stderr
    return found.stdout


@pytest.mark.deploy
def test_the_fake_has_the_signatures_of_the_real_binding() -> None:
    own = {
        name: list(inspect.signature(method).parameters)
        for name, method in vars(FakeDevice).items()
        if not name.startswith("_")
    }
    assert json.loads(under_the_systems_python(ASK.replace("NAMES", repr(list(own))))) == own


@pytest.mark.deploy
def test_the_null_driver_of_the_real_binding_is_asked_and_refuses() -> None:
    lines = under_the_systems_python(NULL).splitlines()
    assert len(lines) == 2
    assert lines[0].startswith("ProtocolError: radio: could not transmit (NOT_SUPPORTED)")
    assert lines[1].startswith("ProtocolError: radio: could not receive (NOT_SUPPORTED)")
