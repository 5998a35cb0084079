"""Where ``airmix`` starts: nothing is imported before Ctrl-C has an answer."""

import sys

_RESUMABLE = ("run", "attack", "audit", "compare", "reproduce")


def main() -> None:
    """Run the command line: 0 when done, 2 and one line for a user's mistake, 130 when interrupted."""
    try:
        from airmixml.cli.app import answer

        code = answer()
    except KeyboardInterrupt:
        code = 130
    if code == 130:
        import signal

        signal.signal(signal.SIGINT, signal.SIG_DFL)  # a second Ctrl-C ends the process without a word
        resumable = len(sys.argv) > 1 and sys.argv[1] in _RESUMABLE
        sys.stderr.write(f"airmix: interrupted{'; repeat the command to resume' if resumable else ''}\n")
    sys.exit(code)
