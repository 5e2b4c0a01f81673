"""Clinic: what holds a training step back, from files that people already have; `diagnose` is the door.

`reading` says what every reader gives; `files` tells by the content which tool wrote a file; `spans`, `counters` and
`logs` read them; `attribution` shares out the time of each step; `diagnosis` finds the largest gap and what to do.
"""
