"""How results look: tables as text, figures, one style."""
