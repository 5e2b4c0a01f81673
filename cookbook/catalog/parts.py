"""Parts of a step: their names, colours, titles and explanations, one row of the table ``parts`` each."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from types import MappingProxyType

from cookbook.catalog.tables import table


@dataclass(frozen=True)
class PartGroup:
    """One part of a step.

    Attributes
    ----------
    name : str
        As charts and tables name it.
    parts : tuple of str
        Parts of a prediction that it is the sum of.
    colour, title, explanation : str
        Colour in every chart; name in a sentence about what holds a step back; how it is computed.
    one_device, scaling : str
        How it is computed of a pass on one device; what it is where it keeps devices from scaling. Blank: not told.
    term : str
        Term of a recorded step that it is compared with.
    """

    name: str
    parts: tuple[str, ...]
    colour: str
    title: str
    explanation: str
    one_device: str
    scaling: str
    term: str


@lru_cache(maxsize=1)
def part_groups() -> Mapping[str, PartGroup]:
    """Return the parts of a step by name, in the order of charts.

    Examples
    --------
    >>> part_groups()["optimiser"].title, [*part_groups()][:3]
    ('the optimiser', ['compute', 'memory traffic', 'launch'])
    """
    rows = table("parts").drop(columns=["how", "source"]).to_dict("records")
    return MappingProxyType(
        {row["name"]: PartGroup(**{**row, "parts": tuple(filter(None, row["parts"].split(";")))}) for row in rows}
    )
