"""Models: what a network needs from hardware."""
