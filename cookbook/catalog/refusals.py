"""Reasons why there is no answer, as data that reads as a sentence: code, argument at fault, valid values."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np

from cookbook.units import shown

__all__ = ["NOT_ALLOWED", "NOT_READ", "Refusal", "Refused", "as_refusal", "code_of", "refusal_of", "refused"]

NOT_READ, NOT_ALLOWED = "not-read", "value-not-allowed"


class Refusal(str):
    """The reason why there is no answer: a sentence with its parts. An empty refusal means that there is an answer.

    Attributes
    ----------
    code : str
        A row of ``data/schema/reasons.csv``; "" where there is nothing to refuse.
    field : str
        The argument or column at fault; "" where it is not a single one.
    nearest : tuple
        Valid values, the nearest first, where they are known.
    """

    code: str
    field: str
    nearest: tuple[Any, ...]

    def __new__(cls, words: str = "", code: str = NOT_READ, field: str = "", nearest: Iterable[Any] = ()) -> Refusal:
        self = super().__new__(cls, words)
        self.code, self.field, self.nearest = code if words else "", field, tuple(nearest)
        return self

    def filled(self, *figures: Any) -> Refusal:
        """Return the refusal with values inserted in its braces.

        >>> Refusal("ep = {:g} is more than experts = {:g}", "experts-not-divisible", "ep").filled(16, 8)
        'ep = 16 is more than experts = 8'
        """
        return self.reworded(self.format(*figures))

    def reworded(self, words: str) -> Refusal:
        """Return the same refusal in other words."""
        return Refusal(words, self.code, self.field, self.nearest)

    def under(self, header: str) -> Refusal:
        """Return the refusal of a column in the words of a table with another name for the column.

        >>> refused("zero", 7, "is outside its range; give 0 to 3").refusal.under("ZeRO stage")
        'ZeRO stage = 7 is outside its range; give 0 to 3'
        """
        own = f"{self.field} = "
        return self.reworded(f"{header} = {self[len(own) :]}") if self.field and self.startswith(own) else self

    @property
    def cell(self) -> np.ndarray:
        """Return the refusal as an array of one entry for all rows, which can be combined with other arrays
        of refusals.
        """
        return np.array(self, dtype=object)

    @classmethod
    def joined(cls, refusals: Iterable[str]) -> Refusal:
        """Return several refusals of one row as one, with the code of the first; blank ones are left out."""
        reasons = [reason for reason in refusals if reason]
        return as_refusal(reasons[0]).reworded("; ".join(reasons)) if reasons else cls()


class Refused(ValueError):
    """A question without an answer; `refusal` is the reason, as data."""

    __module__ = "cookbook.catalog"  # where it is imported from, as errors are printed

    def __init__(self, refusal: str) -> None:
        self.refusal = as_refusal(refusal)
        super().__init__(str(self.refusal))


def refused(
    field: str, value: Any, what: str, code: str = NOT_READ, nearest: Iterable[Any] = (), name: str = ""
) -> Refused:
    """Return the error for one argument: its name, its value, the fault and valid values.

    Parameters
    ----------
    field : str
        The argument.
    value : object
        The given value, as shown.
    what : str
        The fault and the remedy: "is not whole; give integers", or, after a colon, a sentence.
    code : str
        A row of ``data/schema/reasons.csv``.
    nearest : iterable
        Valid values, the nearest first.
    name : str
        The argument under the name that the caller gave it; `field` by default.

    Examples
    --------
    >>> str(refused("zero", 7, "is outside its range; give 0 to 3"))
    'zero = 7 is outside its range; give 0 to 3'
    """
    gap = "" if what.startswith((":", ",", ";")) else " "
    return Refused(Refusal(f"{name or field} = {shown(value)}{gap}{what}", code, field, nearest))


def as_refusal(why: Any) -> Refusal:
    """Return a sentence as a refusal; one without a code gets that of input not read."""
    return why if isinstance(why, Refusal) else Refusal(str(why))


def refusal_of(problem: Exception) -> Refusal:
    """Return the reason that an error gives why a question has no answer."""
    refusal = getattr(problem, "refusal", None)
    return refusal if isinstance(refusal, Refusal) else Refusal(str(problem))


def code_of(why: Any) -> Any:
    """Return the codes of refusals, of one or of an array; "" where there is an answer.

    Examples
    --------
    >>> code_of(Refusal("ep = 8: the model has no experts", "no-experts", "ep")), code_of("")
    ('no-experts', '')
    """
    if isinstance(why, str):
        return as_refusal(why).code
    return np.array([as_refusal(reason).code for reason in np.ravel(why).tolist()], dtype=object).reshape(np.shape(why))
