"""Costs: what devices, machines, storage and electricity cost, rented or bought."""
