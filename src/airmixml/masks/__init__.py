"""Masks that cancel in a sum: who shares them with whom, what they hide, and how they are drawn and recovered."""
