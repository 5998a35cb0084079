"""What a sample is, in words."""

from airmixml.output.numbers import plural
from airmixml.scenario import Workers
from airmixml.workers.encoder import encoder_of


def inputs_in_words(workers: Workers, encoded_dim: int) -> str:
    """Return how many inputs or features a sample has; the constant that the encoder appends is none of the user's."""
    count = encoded_dim - (1 if workers.constant else 0)
    return plural(count, "input" if encoder_of(workers).keeps_inputs else "feature")


def row_name(workers: Workers, copies: int) -> str:
    """Return what is protected otherwise than a worker; empty where each worker holds one row that no other holds."""
    if workers.several_rows:
        return "a person" if copies > 1 else "one of its rows"
    return "a row of the data" if copies > 1 else ""


def held_by(workers: Workers, copies: int) -> str:
    """Return why the epsilon of a row, or of a person, is not that of a worker."""
    if copies == 1:
        return f"where all rows of a worker together count as {workers.rows_bound:g} at most"
    return f"{'with all rows on' if workers.several_rows else 'held by'} up to {copies:,} workers"
