"""``python -m airmixml``."""

from airmixml.cli.main import main

main()
