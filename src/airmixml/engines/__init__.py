"""Where independent parts of one command run: in this process, in several, or on a Ray cluster."""

from airmixml.engines.engine import Engine

__all__ = ["Engine"]
