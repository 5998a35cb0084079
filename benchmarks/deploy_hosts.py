"""Be several endpoints of a deployment in one process, each in a thread: python deploy_hosts.py FOLDER NAME ..."""

from __future__ import annotations

import sys
import threading
from pathlib import Path

from airmixml.deploy.endpoint import find_folder
from airmixml.deploy.worker_process import run_workers

PATIENCE_SECONDS = 3600.0


def be(folder: Path, name: str) -> None:
    """Be a worker or a gateway with the rows in its folder, until the run is over."""
    own = find_folder(folder, name)
    run_workers(own, name, own / "rows.npz", PATIENCE_SECONDS)


if __name__ == "__main__":
    threads = [threading.Thread(target=be, args=(Path(sys.argv[1]), name)) for name in sys.argv[2:]]
    for each in threads:
        each.start()
    for each in threads:
        each.join()
