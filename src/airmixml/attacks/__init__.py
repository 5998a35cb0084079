"""What somebody learns who was not meant to: attacks on what is sent, from whoever receives it."""
