"""Measurements of pulsarscope and its peers; see compare.py."""
