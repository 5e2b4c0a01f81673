"""Serving: engines of language models under load, analytic and simulated."""
