"""What a sample is, in words."""

from airmixml.output.numbers import plural
from airmixml.scenario import Workers
from airmixml.workers.encoder import encoder_of


def inputs_in_words(workers: Workers, encoded_dim: int) -> str:
    """Return how many inputs or features a sample has; the constant that the encoder appends is none of the user's."""
    count = encoded_dim - (1 if workers.constant else 0)
    return plural(count, "input" if encoder_of(workers).keeps_inputs else "feature")
