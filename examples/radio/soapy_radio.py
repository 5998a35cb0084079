"""Frames of complex64 through a software radio, by SoapySDR (Debian's python3-soapysdr).

Written against the binding of SoapySDR 0.8 and tested with a module of the same signatures and with its null driver.
**Not seen on hardware yet.** Frames of several workers add up on the air only if their radios share a clock and a time,
and each makes up for its own channel; nothing here does that.
"""

import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, Final, Self

import numpy as np

from airmixml.deploy.air import Samples
from airmixml.messages import ProtocolError

_WAIT_MICROSECONDS: Final = 100_000
_SLACK_SECONDS: Final = 5.0  # beyond what the samples last
_NOT_SUPPORTED: Final = -5


@dataclass(frozen=True, kw_only=True)
class Tuning:
    """What a radio is set to."""

    sample_rate: float
    frequency_hz: float
    gain_db: float
    channel: int = 0
    antenna: str = ""  # empty: as the driver has it


@dataclass(eq=False)
class SoapyRadio:
    """One channel of one radio."""

    device: Any  # of SoapySDR
    tuning: Tuning
    binding: Any = field(repr=False)  # the module SoapySDR

    @classmethod
    def open(cls, arguments: Mapping[str, str], tuning: Tuning) -> Self:
        """Open the radio that these arguments name, such as ``{"driver": "lime"}``."""
        binding = _binding()
        try:
            return cls(binding.Device(dict(arguments)), tuning, binding)
        except RuntimeError as problem:  # what the binding makes of a C++ exception
            named = ", ".join(f"{key}={value}" for key, value in arguments.items()) or "any"
            raise ProtocolError(f"radio {named}: cannot be opened ({problem}); see `SoapySDRUtil --find`") from None

    def transmit(self, frame: Samples, *, full_scale: float, at_nanoseconds: int | None = None) -> None:
        """Send a frame as one burst, at a time of the radio's clock if one is given.

        ``full_scale`` is the amplitude that the radio's largest stands for; a larger sample is refused, since a clipped
        frame would spoil the sum.
        """
        scaled = np.ascontiguousarray(frame / np.float32(full_scale), dtype=np.complex64)
        largest = float(max(np.abs(scaled.real).max(initial=0.0), np.abs(scaled.imag).max(initial=0.0)))
        if not largest <= 1.0:
            raise ProtocolError(
                f"frame: its largest part is {largest:.3g} of the radio's full scale and must be at most 1; use a "
                "larger full_scale"
            )
        soapy, sent, until = self.binding, 0, self._until(len(scaled))
        flags = soapy.SOAPY_SDR_END_BURST | (0 if at_nanoseconds is None else soapy.SOAPY_SDR_HAS_TIME)
        with self._stream(soapy.SOAPY_SDR_TX) as stream:
            self._check(self.device.activateStream(stream), "started")
            while sent < len(scaled):
                part = scaled[sent:]
                result = self.device.writeStream(
                    stream, [part], len(part), flags, at_nanoseconds or 0, timeoutUs=_WAIT_MICROSECONDS
                )
                if result.ret > 0:
                    sent += result.ret
                    flags = soapy.SOAPY_SDR_END_BURST  # the time is that of the first sample
                    continue
                self._check_wait(result.ret, "transmit", until)
            self._check_status(stream)

    def receive(self, count: int, *, full_scale: float = 1.0, at_nanoseconds: int | None = None) -> Samples:
        """Return so many samples, from a time of the radio's clock on if one is given; refuse to lose some."""
        soapy, got, until = self.binding, 0, self._until(count)
        found, flags = np.zeros(count, dtype=np.complex64), soapy.SOAPY_SDR_END_BURST
        if at_nanoseconds is not None:
            flags |= soapy.SOAPY_SDR_HAS_TIME
        with self._stream(soapy.SOAPY_SDR_RX) as stream:
            started = self.device.activateStream(stream, flags, at_nanoseconds or 0, count)
            if started == _NOT_SUPPORTED and at_nanoseconds is None:  # a driver without bursts goes on until its end
                started = self.device.activateStream(stream)
            self._check(started, "started")
            while got < count:
                part = found[got:]
                result = self.device.readStream(stream, [part], len(part), timeoutUs=_WAIT_MICROSECONDS)
                if result.ret > 0:
                    got += result.ret
                    continue
                self._check_wait(result.ret, "receive", until)
        return found * np.float32(full_scale)

    @contextmanager
    def _stream(self, direction: int) -> Iterator[Any]:
        """Tune and set up a stream of complex64; it is closed in any case."""
        tuning, device = self.tuning, self.device
        try:
            device.setSampleRate(direction, tuning.channel, tuning.sample_rate)
            device.setFrequency(direction, tuning.channel, tuning.frequency_hz)
            device.setGain(direction, tuning.channel, tuning.gain_db)
            if tuning.antenna:
                device.setAntenna(direction, tuning.channel, tuning.antenna)
            stream = device.setupStream(direction, self.binding.SOAPY_SDR_CF32, [tuning.channel])
        except RuntimeError as problem:
            raise ProtocolError(f"radio: refuses its settings ({problem}); see `SoapySDRUtil --probe`") from None
        try:
            yield stream
        finally:
            device.deactivateStream(stream)
            device.closeStream(stream)

    def _until(self, samples: int) -> float:
        return time.monotonic() + _SLACK_SECONDS + 2.0 * samples / self.tuning.sample_rate

    def _check(self, code: int, what: str) -> None:
        if code < 0:
            raise ProtocolError(f"radio: its stream could not be {what} ({self.binding.errToStr(code)})")

    def _check_wait(self, code: int, what: str, until: float) -> None:
        """Go on after a time-out until the samples should be through; anything else has lost some."""
        if code not in (0, self.binding.SOAPY_SDR_TIMEOUT):
            raise ProtocolError(f"radio: could not {what} ({self.binding.errToStr(code)}); repeat the slot")
        if time.monotonic() > until:
            raise ProtocolError(f"radio: did not {what} in time; repeat the slot")

    def _check_status(self, stream: Any) -> None:
        """Ask whether the burst was late or starved, of drivers that can tell."""
        code = self.device.readStreamStatus(stream, _WAIT_MICROSECONDS).ret
        if code < 0 and code not in (_NOT_SUPPORTED, self.binding.SOAPY_SDR_TIMEOUT):
            raise ProtocolError(f"radio: the burst was not sent whole ({self.binding.errToStr(code)}); repeat the slot")


def _binding() -> Any:
    try:
        import SoapySDR
    except ImportError:
        raise ProtocolError(
            "radios need SoapySDR's Python binding, which the system's Python has: apt-get install python3-soapysdr"
        ) from None
    return SoapySDR
