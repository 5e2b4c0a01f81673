"""Sweeps: many scenarios at once, as a table or reduced on the way."""
