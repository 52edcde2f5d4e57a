"""Rules about subscriptions, and the state of their consumers."""
