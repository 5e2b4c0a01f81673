"""Networks as tables of operations, independent of hardware.

`ops` is the table of operations, `layers` traces networks, `builders` has one function for each family of them,
`zoo` names them, and `readers` read models from files and objects.
"""
