"""Dissectors of all packages: found, checked, isolated, and asked together."""
