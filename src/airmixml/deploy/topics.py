"""Topics of the broker: airmix/RUN/up/NAME from an endpoint, airmix/RUN/down/NAME to it, airmix/RUN/all to each."""

from typing import Final

from airmixml.deploy.wire import HEADER, LARGEST_BODY, SIGNATURE_BYTES

UP: Final = "up"
DOWN: Final = "down"
ALL: Final = "all"
LARGEST_PAYLOAD: Final = 4 + HEADER.size + LARGEST_BODY + SIGNATURE_BYTES  # a batch of the largest message


def run_topic(run: bytes) -> str:
    """Return what all topics of a run begin with."""
    return f"airmix/{run.hex()[:32]}"
