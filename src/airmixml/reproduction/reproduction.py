"""Everything that came of a request: results, claims, files."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from airmixml.reproduction.mixing_ratios import MixingRatios
from airmixml.reproduction.paper_claims import Claim
from airmixml.reproduction.request import Request
from airmixml.reproduction.results import CellResult
from airmixml.version import __version__


@dataclass(frozen=True, kw_only=True)
class Reproduction:
    """Everything that came of a request."""

    request: Request
    results: list[CellResult]
    ratios: list[MixingRatios]
    claims: list[Claim]
    files: list[Path]
    seconds: float
    kept_batches: int
    batches: int
    out: Path = field(default_factory=Path)

    def parts(self) -> dict[tuple[str, str], list[CellResult]]:
        """Return the results by table or figure and half of it."""
        parts: dict[tuple[str, str], list[CellResult]] = {}
        for result in self.results:
            parts.setdefault((result.cell.target, result.cell.dataset), []).append(result)
        return parts

    @property
    def failures(self) -> list[str]:
        """What went wrong, cell by cell."""
        return [
            f"{result.cell.target}, {result.cell.dataset}, {result.cell.row}, {result.cell.column}: {error}"
            for result in self.results
            for error in result.errors
        ]

    def to_dict(self) -> dict[str, Any]:
        """Return plain values for JSON."""
        return {
            "targets": list(self.request.wanted),
            "seeds": self.request.seeds,
            "quick": self.request.quick,
            "device": self.request.device,
            "airmixml": __version__,
            "cells": [drawn.to_dict() for drawn in self.ratios] + [result.to_dict() for result in self.results],
            "claims": [claim.to_dict() for claim in self.claims],
        }
