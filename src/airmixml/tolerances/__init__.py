"""How bad each impairment of the air may get, alone, before accuracy falls or a privacy target is missed."""
