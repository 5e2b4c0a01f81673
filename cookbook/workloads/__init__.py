"""What networks compute, knowing nothing of hardware.

`ops` is the table of operations, `layers` and `blocks` write networks down, `zoo` names them; the other modules hold
one builder for each family of networks.
"""
