"""What a worker has agreed to, and never to another: the slots of a run and the round in which it sends them, the
announcements and the list of absent workers of a round.

With a folder, the agreement is on the disk before the worker acts on it, so that a restart cannot make it forget. A
file that a crash left half-written names nothing: the worker then agrees to nothing.
"""

import os
from dataclasses import dataclass, field
from pathlib import Path

from airmixml.errors import ProtocolError
from airmixml.reading import read_regular


@dataclass
class EitherOr:
    """The agreements of one worker, by what they are about; one object, or one folder, for all rounds of a run.

    Without a folder they are lost with the process: a crash then means that this worker must not be started again in
    this run.
    """

    folder: Path | None = None
    _agreed: dict[bytes, bytes] = field(default_factory=dict, init=False, repr=False)

    def agree(self, what: str, about: bytes, digest: bytes, mend: str = "send that one, or start a new round") -> None:
        """Agree to what has this digest, or refuse because there is another already; ``about`` has 32 bytes."""
        earlier = self._agreed.get(about)
        if earlier is None and self.folder is not None:
            earlier = self._written_first(self.folder / f"{about.hex()}.agreed", digest)
        earlier = self._agreed.setdefault(about, digest if earlier is None else earlier)
        if earlier != digest:
            raise ProtocolError(
                f"{what} {digest.hex()[:16]} is refused: this worker agreed to "
                f"{earlier.hex()[:16] or 'an unknown one'}; {mend}"
            )

    def _written_first(self, place: Path, digest: bytes) -> bytes:
        """Write the digest unless the file is there already; return the one in the file."""
        place.parent.mkdir(parents=True, exist_ok=True)
        try:
            file = os.open(place, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600)
        except FileExistsError:
            return read_regular(place)
        with os.fdopen(file, "wb") as opened:
            opened.write(digest)
            opened.flush()
            os.fsync(opened.fileno())
        folder = os.open(place.parent, os.O_RDONLY)
        try:
            os.fsync(folder)
        finally:
            os.close(folder)
        return digest
