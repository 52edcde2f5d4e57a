"""Rules about what a consumer does with its messages: permits, acknowledgments, redelivery."""
