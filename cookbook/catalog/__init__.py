"""Facts as data: the tables under `data/`, checked by schema, converted to SI, with their sources.

>>> table("accelerators").set_index("key").loc["h100-sxm", "mem_bandwidth"]
np.float64(3350000000000.0)
"""

from cookbook.catalog.provenance import (
    Provenance,
    Statement,
    cite,
    count_rows,
    describe_tables,
    provenance,
    validate_all,
)

from .names import lookup, row
from .reading import CatalogError, UnknownName, data_directory
from .refusals import Refused
from .tables import constant, table, table_names

__all__ = [
    "CatalogError",
    "Provenance",
    "Refused",
    "Statement",
    "UnknownName",
    "cite",
    "constant",
    "count_rows",
    "data_directory",
    "describe_tables",
    "lookup",
    "provenance",
    "row",
    "table",
    "table_names",
    "validate_all",
]
