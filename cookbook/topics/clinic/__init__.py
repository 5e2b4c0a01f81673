"""Clinic: the bottleneck of a training step, from files that people already have; the API is `diagnose`.

`reading` defines what every reader returns; `files` recognises by content which tool wrote a file; `spans`, `counters`
and `logs` read them; `attribution` attributes the time of each step; `diagnosis` finds the largest gap and remedies.
"""
