"""A running system: workers, server and air as processes of their own, over standard transports."""
