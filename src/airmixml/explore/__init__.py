"""A local page in the browser: design a system, watch a slot, start and compare runs (``airmix explore``)."""
