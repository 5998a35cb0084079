"""Masks that cancel in the sum: their keys, their numbers, and how the masks of absent workers are recovered."""
