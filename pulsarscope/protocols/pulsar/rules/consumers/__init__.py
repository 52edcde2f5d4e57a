"""Rules about the handling of messages by consumers: permits, acknowledgments, redelivery."""
