"""Simulate, train, look: the paper's Iris experiment from Python, with fewer epochs."""

from airmixml import Scenario, simulate, train

scenario = Scenario.preset("paper-iris").with_overrides("learner.epochs=50")
mixtures = simulate(scenario)
result = train(mixtures)

print(mixtures.report.privacy)
print(f"energy {mixtures.report.energy_joules:.3g} J, accuracy {result.history.final_accuracy:.2f}")
