"""
A training loop of your own
===========================

What the server received is a ``torch.utils.data.Dataset`` of pairs: an input mixture and a label mixture, in noise.
"""

import matplotlib.pyplot as plt
import torch

from airmixml import Scenario, simulate

mixtures = simulate(Scenario.preset("paper-iris").with_overrides("mixing.power=max", "mixing.alpha=0.1"))
loader = torch.utils.data.DataLoader(mixtures.as_dataset(), batch_size=32, shuffle=True)

# %%
# Labels are shares: the loss is the cross-entropy with them, which is linear, so that their noise averages out.

torch.manual_seed(0)
model = torch.nn.Sequential(torch.nn.Linear(4, 16), torch.nn.ReLU(), torch.nn.Linear(16, 3))
optimizer, accuracies = torch.optim.Adam(model.parameters(), lr=0.01), []
rows, truth = mixtures.dataset.test_inputs, mixtures.dataset.test_labels
for _ in range(8):
    for inputs, labels in loader:
        loss = -(labels * model(inputs).log_softmax(dim=1)).sum(dim=1).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    guesses = model(torch.as_tensor(rows)).argmax(dim=1)
    accuracies.append(float((guesses == torch.as_tensor(truth)).float().mean()))

figure, axis = plt.subplots(figsize=(6, 3.2), layout="constrained")
axis.plot(accuracies, color="#3b6ea8")
axis.set(xlabel="epoch", ylabel="test accuracy", ylim=(0, 1))
plt.show()
