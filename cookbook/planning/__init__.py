"""Many scenarios at once: sweeps over models, accelerators and settings."""
