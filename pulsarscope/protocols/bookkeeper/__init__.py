"""BookKeeper: the protocol between a broker and the bookies that store its entries, versions 0 to 3."""
