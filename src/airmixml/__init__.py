"""AirMixML: over-the-air mixup machine learning."""

from airmixml.version import __version__

__all__ = ["__version__"]
