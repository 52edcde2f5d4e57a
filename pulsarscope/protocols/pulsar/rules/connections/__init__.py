"""Rules about connections: handshakes, addresses, paths, breaches, churn, and ends."""
