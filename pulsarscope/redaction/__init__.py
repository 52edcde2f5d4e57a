"""Captures that can be shared: their frames redacted, in packets made anew."""
