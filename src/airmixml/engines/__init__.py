"""Where independent parts of one command run: in this process, in several, or on a Ray cluster."""

from airmixml.engines.engine import ENGINES, Engine, Engines

__all__ = ["ENGINES", "Engine", "Engines"]
