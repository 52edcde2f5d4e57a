"""Measures pulsarscope against its peers; see compare.py."""
