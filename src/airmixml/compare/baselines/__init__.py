"""Alternatives to mixing over the air: federated learning, central DP-SGD, local privacy, no privacy."""
