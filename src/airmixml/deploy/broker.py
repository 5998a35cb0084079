"""The broker of a deployment on this machine: mosquitto as a process that ends with the one that started it."""

import os
import shutil
import socket
import subprocess
from pathlib import Path
from types import TracebackType
from typing import Final, Self

from airmixml.deploy.children import end_child, is_ready, start_child
from airmixml.deploy.credentials import HOST, free_ports
from airmixml.deploy.endpoint import DeployError, Endpoint, read_file

_START_SECONDS: Final = 20.0


def free_port() -> int:
    """Return a port of the loopback address that nothing listens on now."""
    return free_ports(1)[0]


def find_mosquitto(places: str | None = None) -> str:
    """Return the path of mosquitto, or say in one line which package has it."""
    found = shutil.which("mosquitto", path=places or f"{os.environ.get('PATH', '')}:/usr/sbin:/usr/local/sbin")
    if found is None:
        raise DeployError("mosquitto, the MQTT broker, is not installed; on Debian: apt-get install mosquitto")
    return found


class Broker:
    """Mosquitto with the configuration of a deployment's folder; ``with`` ends it."""

    def __init__(self, folder: Path) -> None:
        """Start it, and wait until it listens; its log is ``broker/mosquitto.log``."""
        self._folder = folder / "broker"
        self._endpoint = Endpoint.read(folder / "server")
        self._command = (find_mosquitto(), "-c", self._folder / "mosquitto.conf")
        read_file(self._folder / "mosquitto.conf")
        self.start()

    def start(self) -> None:
        """Start it, for the first time or again after ``kill``."""
        if self._answers():
            raise DeployError(f"port {self._endpoint.port} of {HOST} is taken; end what listens there, or init again")
        with (self._folder / "mosquitto.log").open("ab") as log:
            self.process: subprocess.Popen[bytes] = start_child(self._command, log=log)
        if not is_ready(self.process, self._answers, _START_SECONDS):
            end_child(self.process)
            last = read_file(self._folder / "mosquitto.log").decode(errors="replace").splitlines()[-1:]
            raise DeployError(f"mosquitto did not start: {' '.join(last) or 'no reason given'}")

    def kill(self) -> None:
        """End it as a power cut would."""
        self.process.kill()
        self.process.wait()

    def close(self) -> None:
        """End it."""
        end_child(self.process)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, problem: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _answers(self) -> bool:
        try:
            with socket.create_connection((self._endpoint.host, self._endpoint.port), timeout=1.0):
                return True
        except OSError:
            return False
