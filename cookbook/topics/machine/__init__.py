"""Machine: benchmarks of this machine, and constants fitted to them."""
