"""Offline fits of the few free constants to measurements, and evaluation of predictions by held-out measurements."""
