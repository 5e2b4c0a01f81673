"""What networks compute, knowing nothing of hardware.

`ops` is the table of operations, `layers` writes networks down, `builders` has one function for each family of them,
`zoo` names them, and `readers` take in what people bring.
"""
