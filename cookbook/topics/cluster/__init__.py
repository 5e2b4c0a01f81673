"""Cluster: GPUs that teams share, scheduled by policies and simulated for weeks."""
