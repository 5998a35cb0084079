"""The command ``airmix``: a thin layer over the library."""
