"""What an adversary learns: audits of the privacy that is claimed."""
