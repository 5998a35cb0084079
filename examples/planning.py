"""
Plan before you send
====================

What does a privacy target cost, and which design serves it best? A plan answers from numbers alone: no data are read
and nothing is sent.
"""

from airmixml import Scenario
from airmixml.planning import InputMoments, account_scenario, draw_account, draw_plan, epsilon_curves, make_plan

INPUTS, CLASSES = 5, 3
scenario = Scenario.preset("private-iris").with_overrides("radio.scheduled=20", "radio.slots=200")
plan = make_plan(scenario, INPUTS, CLASSES, InputMoments(mean=0.5, deviation=0.2), held_dim=4)
print(plan.verdict)

# %%
# What it recommends instead, as changes of the scenario:

print(*plan.recommended.overrides, sep="\n")

# %%
# Every option that was tried, at the same privacy:

figure = draw_plan(plan, scenario)
figure

# %%
# An account goes the other way: given the design, what does each accountant state against each adversary?

account = account_scenario(scenario, INPUTS, CLASSES)
figure = draw_account(account, *epsilon_curves(account))
figure
