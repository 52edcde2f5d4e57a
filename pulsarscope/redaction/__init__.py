"""Captures that can be shared: redacted frames in newly built packets."""
