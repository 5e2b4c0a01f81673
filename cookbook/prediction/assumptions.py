"""Values that were assumed where a question states none, as data that reads as its sentence."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType


class Assumptions(str):
    """Values taken for fields that a question leaves out, in words: "software = vllm (tuned); devices = 1".

    Attributes
    ----------
    taken : mapping of str to str
        The same by field, in the order of the sentences; "" of a sentence without a field.

    Examples
    --------
    >>> some = Assumptions({"software": "vllm (tuned)", "devices": "1"})
    >>> some, some.taken["devices"]
    ('software = vllm (tuned); devices = 1', '1')
    """

    taken: Mapping[str, str]

    def __new__(cls, taken: Mapping[str, str] = MappingProxyType({})) -> Assumptions:
        self = super().__new__(cls, "; ".join(_sentences(taken)))
        self.taken = dict(taken)
        return self

    def __reduce__(self) -> tuple[type[Assumptions], tuple[dict[str, str]]]:
        return Assumptions, (dict(self.taken),)

    def told(self) -> list[str]:
        """Return one sentence for each field."""
        return _sentences(self.taken)


def _sentences(assumed: Mapping[str, str]) -> list[str]:
    """Return one sentence for each field."""
    return [f"{name} = {value}" if value else name for name, value in assumed.items()]
