"""Analog: crossbars of resistive memory, and networks that compute with them."""
