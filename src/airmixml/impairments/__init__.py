"""What keeps a signal from arriving as planned: phases, clocks, amplitudes, absent workers. One file per cause.

All of them together give every worker a complex gain, 1 on the ideal air, for each piece of a slot.
"""
