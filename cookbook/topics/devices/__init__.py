"""Devices: accelerators side by side, and how they grew."""
