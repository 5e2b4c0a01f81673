"""The one front door: names become records, and formulas turn their numbers into parts and bounds."""
