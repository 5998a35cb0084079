"""What an adversary learns: reconstruction, linkage, inference, audits."""
