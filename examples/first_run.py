"""
A first run
===========

2,000 workers hold one Iris flower each. All of them send at the same time, the radio channel adds them up, and the
server learns from the sum alone.
"""

from airmixml import Scenario, simulate, train

scenario = Scenario.preset("private-iris")
mixtures = simulate(scenario)
mixtures.inputs.shape, mixtures.labels.shape

# %%
# The server received one vector of 30 numbers: products of the inputs with each other and with the labels, summed over
# all workers, with noise. That is enough for a linear classifier:

trained = train(mixtures)
trained

# %%
# What was sent and received, how well each class is told, and what accountants certify:

from airmixml.runs import run_figure

figure = run_figure(mixtures, trained.history)
figure

# %%
# An epsilon is never a bare number. The statement says against whom it holds and what it assumes:

mixtures.report.privacy

# %%
# Other adversaries learn more or less from the same run:

from airmixml.runs import draw_statements

figure = draw_statements(mixtures.report.statements)
figure

# %%
# Beside it the paper's own way: 1,000 slots of eight workers each, and a small network. Its epsilon holds against
# readers of the mixtures, who do not know the schedule; against the server it is several times as large.

paper = simulate(Scenario.preset("paper-iris").with_overrides("learner.epochs=20"))
figure = run_figure(paper, train(paper).history)
figure

# %%
# Both are *simulations*: their noise follows from the seed, so anyone can remove it. ``your_own_table.py`` protects
# real rows.
