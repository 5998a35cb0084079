"""Before anything is sent: what a design certifies, what it costs, and which design serves it best."""
