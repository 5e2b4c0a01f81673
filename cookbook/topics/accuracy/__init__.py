"""Accuracy: how far predictions were off, and what was measured."""
