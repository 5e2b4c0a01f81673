"""Terms: what each part of a prediction adds to it, from figures to seconds, bytes and rates."""
