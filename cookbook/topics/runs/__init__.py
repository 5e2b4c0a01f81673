"""Runs: training from one step to a whole run, with the configuration that is best for it."""
