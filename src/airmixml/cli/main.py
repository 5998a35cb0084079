"""Where ``airmix`` starts: no command is imported before Ctrl-C has an answer and closed streams are replaced."""

import os
import sys

from airmixml.cli.process import (
    INTERRUPTED,
    end_when_interrupted,
    raise_when_interrupted,
    report_interruption,
    take_streams,
)


def main() -> None:
    """Run the command line: 0 when done, 2 and one line for a user's mistake, 130 when interrupted.

    The code says what became of the work. A closed or full stderr does not change it, and a closed stdout is as good
    as /dev/null; a result that cannot be printed is 2, and 1 where its reader went away.
    """
    # Processes that are started import nothing from the working folder, which may hold what a stranger sent.
    os.environ["PYTHONSAFEPATH"] = "1"
    try:
        take_streams()
        end_when_interrupted()
        try:
            from airmixml.cli.light import answer_light

            code = answer_light(sys.argv[1:])
            if code is None:
                from airmixml.cli.app import answer

                code = answer()
        finally:
            raise_when_interrupted()
    except KeyboardInterrupt:
        code = INTERRUPTED
    if code == INTERRUPTED:
        report_interruption()
    sys.exit(code)
