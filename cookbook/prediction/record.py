"""What a prediction is: a point with its intervals, its bounds, its parts, and what it rests on."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from cookbook import units

if TYPE_CHECKING:
    import pandas as pd

# Parts of both kinds of training under the names that every chart of the cookbook uses.
NAMES = {
    "compute": ("products", "experts", "attention", "head"),
    "memory traffic": ("elementwise",),
    "launch": ("launch", "floor", "overhead", "recurrence"),
    "tensor-parallel communication": ("tensor_exchange", "context_exchange", "expert_exchange"),
    "pipeline-parallel communication": ("pipeline_exchange",),
    "data-parallel communication": ("gradient_exchange", "weight_exchange", "exchange"),
    "optimiser": ("optimiser",),
    "bubble": ("bubble",),
    "waiting": ("waiting", "stragglers"),
}


@dataclass(frozen=True, eq=False)
class Prediction:
    """Predicted training steps or forward passes, one entry a scenario; numbers where there is one scenario.

    Attributes
    ----------
    kind : str
        "training_classic", "training_transformer" or "inference".
    point : numpy.ndarray
        Time of one step, or of one forward pass [s].
    low80, high80, low90, high90 : numpy.ndarray
        Intervals of the time of one step at 80 and 90 per cent [s]; NaN where none has been calibrated.
    parts : dict of str to numpy.ndarray
        Time by part [s].
    rate, unit : numpy.ndarray, numpy.ndarray of str
        The outcome in the unit in which it is usually reported.
    memory : dict of str to numpy.ndarray
        Device memory by part [B]; empty where the kind has none.
    memory_bytes, fits : numpy.ndarray
        Device memory in all [B], and whether it fits.
    tier, remark : numpy.ndarray of str
        How well measurements cover the scenario, and what to mind about its interval.
    neighbours : numpy.ndarray
        Similar measurements that corrected the point.
    similar : list of str
        Rows of the tables of measurements that corrected it, where there is one scenario.
    why : numpy.ndarray of str
        Why there is no prediction; "" where there is one.
    sources : tuple of str
        Keys of the sources that the constants, the device and the similar measurements come from.
    """

    kind: str
    point: Any
    low80: Any
    high80: Any
    low90: Any
    high90: Any
    parts: Mapping[str, Any] = field(repr=False)
    rate: Any
    unit: Any
    tier: Any
    why: Any
    remark: Any = ""
    memory: Mapping[str, Any] = field(default_factory=dict, repr=False)
    memory_bytes: Any = np.nan
    fits: Any = ""
    neighbours: Any = 0
    similar: tuple[str, ...] = ()
    sources: tuple[str, ...] = field(default=(), repr=False)

    def __len__(self) -> int:
        return int(np.size(self.point))

    def __repr__(self) -> str:
        if len(self) != 1:
            known = int(np.isfinite(self.point).sum())
            return f"<{len(self):,} predicted {self._units[1]}, {known:,} of them with a number>"
        one = self.one() if np.ndim(self.point) else self
        if one.why:
            return f"<no prediction: {one.why}>"
        low, high = units.human(one.low80, "s"), units.human(one.high80, "s")
        corrected = f", {one.corrected}" if one.neighbours else ""
        remark = f"; interval: {one.remark}" if one.remark else ""
        found = f"{units.human(one.point, 's')} a {self._units[0]}"
        return f"<{found}, 80 % within {low} to {high} ({one.tier}{corrected}{remark})>"

    @property
    def _units(self) -> tuple[str, str]:
        return ("pass", "passes") if self.kind == "inference" else ("step", "steps")

    @property
    def corrected(self) -> str:
        """What the neighbours did, in words."""
        count = int(np.max(self.neighbours, initial=0))
        return f"corrected by {count} similar measurement{'' if count == 1 else 's'}" if count else "not corrected"

    @property
    def by_part(self) -> dict[str, Any]:
        """The parts, added up under the names that every chart uses [s]."""
        return {
            name: sum(self.parts[part] for part in parts if part in self.parts)
            for name, parts in NAMES.items() if any(part in self.parts for part in parts)
        }  # fmt: skip

    @property
    def bound_low(self) -> Any:
        """The largest part: a step in which all parts overlap [s]."""
        return self._stack().max(axis=0)[()]

    @property
    def bound_high(self) -> Any:
        """The sum of the parts: a step in which none overlaps [s]."""
        return self._stack().sum(axis=0)[()]

    @property
    def bottleneck(self) -> Any:
        """Name of the largest part; "" where there is no prediction."""
        stack = self._stack()
        names = np.array([*self.parts, ""], dtype=object)
        known = np.isfinite(stack).all(axis=0)
        return names[np.where(known, np.argmax(np.nan_to_num(stack), axis=0), len(names) - 1)]

    def _stack(self) -> np.ndarray:
        nothing = np.full((1, *np.shape(self.point)), np.nan)
        return np.array([*self.parts.values()], dtype=float) if self.parts else nothing

    def one(self, at: int = 0) -> Prediction:
        """One scenario, its numbers as plain numbers.

        Parameters
        ----------
        at : int
            Which one.
        """

        def cut(value: Any) -> Any:
            if isinstance(value, Mapping):
                return {name: cut(each) for name, each in value.items()}
            if not isinstance(value, np.ndarray) or not value.ndim:
                return value
            return value[at].item() if hasattr(value[at], "item") else value[at]

        return replace(self, **{item.name: cut(getattr(self, item.name)) for item in fields(self)})

    def frame(self) -> pd.DataFrame:
        """All scenarios as a table: the point, intervals, bounds, rate, parts, tier, remark and why."""
        import pandas as pd

        columns = ("point", "low80", "high80", "low90", "high90", "bound_low", "bound_high", "rate", "unit",
                   "bottleneck", "tier", "remark", "neighbours", "why")  # fmt: skip
        named = {name: np.atleast_1d(getattr(self, name)) for name in columns}
        parts = {f"{name}_seconds": np.atleast_1d(part) for name, part in self.parts.items()}
        return pd.DataFrame({**named, **parts})
