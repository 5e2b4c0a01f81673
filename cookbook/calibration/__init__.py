"""Offline: fits the few free constants to measurements, and judges predictions by measurements that were left out."""
