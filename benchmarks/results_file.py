"""How every benchmark ends: its figures on the terminal, and in a file if asked."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any


def show_and_write(result: dict[str, Any], out: Path | None) -> None:
    text = json.dumps(result, indent=2) + "\n"
    print(text, end="")
    if out is not None:
        out.parent.mkdir(parents=True, exist_ok=True)
        out.write_text(text, encoding="utf-8")
