"""``airmix explore``."""

import webbrowser
from pathlib import Path
from threading import Thread
from typing import Annotated

from typer import Option

from airmixml.cli.interrupt import raise_when_interrupted
from airmixml.errors import ScenarioError


def explore_command(
    port: Annotated[
        int | None, Option(help="Port of the page [default: the next free one from 8750 on].", show_default=False)
    ] = None,
    runs: Annotated[Path, Option(help="Folder of runs to show and to start runs in.")] = Path("runs"),
    no_browser: Annotated[bool, Option("--no-browser", help="Print the address without opening a browser.")] = False,
) -> None:
    """Design a system, watch a slot, and start and compare runs in the browser.

    The page is served to this machine alone; its address holds a token. Ctrl-C ends it and interrupts the runs that it
    started, which can be resumed.
    """
    if port is not None and not 0 <= port <= 65535:
        raise ScenarioError(f"--port = {port}: must be from 0 to 65535 (0: any free one)")
    if runs.exists() and not runs.is_dir():
        raise ScenarioError(f"--runs {runs}: is not a folder; choose another")
    from airmixml.explore.server import serve  # here: it needs the extra `explore`

    def announce(address: str) -> None:
        print(f"airmix explore: {address} (Ctrl-C ends it)", flush=True)
        if not no_browser:
            Thread(target=webbrowser.open, args=(address,), daemon=True).start()

    raise_when_interrupted()
    interrupted = serve(runs, port, announce)
    told = f"; {interrupted} interrupted, resume with `airmix explore`" if interrupted else ""
    print(f"airmix explore: ended{told}", flush=True)
