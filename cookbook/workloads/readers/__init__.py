"""Readers of users' models: configurations, checkpoints' headers, graphs and modules, each read into a `Workload`.

`door.model` is ``cb.model``: a name of the zoo, or any of these, distinguished by content. Files are read and
never run: no pickle, no code that came with them, and limits of size, depth and number on everything.
"""
