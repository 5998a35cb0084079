"""Random numbers of the slots: words from a counter or a secret, and what is made of them."""
