"""``airmix explore``."""

import shutil
from contextlib import nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from typer import Option

from airmixml.cli.main import raise_when_interrupted
from airmixml.messages import ScenarioError
from airmixml.scenario.rules import Whole

if TYPE_CHECKING:
    from airmixml.explore.server import NewLink


def explore_command(
    port: Annotated[int, Option(help="Port of the page (0: any free one).")] = 0,
    runs: Annotated[Path, Option(help="Folder of runs to show and to start runs in.")] = Path("runs"),
    no_browser: Annotated[bool, Option("--no-browser", help="Print the link without opening a browser.")] = False,
) -> None:
    """Design a system, watch a slot, and start and compare runs in the browser.

    The page is served to this machine alone, and to the browser that used the printed link, which works once: press
    Enter for another. Ctrl-C ends it and interrupts the runs that it started, which can be resumed.
    """
    Whole(high=65535).check("--port", port)
    if runs.exists() and not runs.is_dir():
        raise ScenarioError(f"--runs {runs}: is not a folder; choose another")
    from airmixml.explore.server import (
        has_terminal,
        open_link,
        private_folder,
        serve,  # here: it needs the extra `explore`
        when_enter_is_pressed,
    )

    def announce(new_link: "NewLink") -> None:
        link = new_link(lambda: None if folder is None else shutil.rmtree(folder, ignore_errors=True))
        another = "; Enter prints another" if has_terminal() else ""
        print(f"airmix explore: {link} (works once{another}; Ctrl-C ends it)", flush=True)
        if another:
            when_enter_is_pressed(lambda: print(f"airmix explore: {new_link(lambda: None)}", flush=True))
        if folder is not None:
            open_link(link, folder)

    raise_when_interrupted()
    with nullcontext() if no_browser else private_folder() as folder:
        interrupted = serve(runs, port, announce)
    told = f"; {interrupted} interrupted, resume with `airmix explore`" if interrupted else ""
    print(f"airmix explore: ended{told}", flush=True)
