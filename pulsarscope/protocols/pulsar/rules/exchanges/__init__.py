"""Rules about requests and their answers: lookups, places of producers and consumers, schemas, transactions, unloads."""
