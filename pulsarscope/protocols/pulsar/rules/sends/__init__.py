"""Rules about SENDs and their receipts."""
