"""Physics as pure functions of numbers: NumPy only, every argument broadcasts, constants are arguments."""
