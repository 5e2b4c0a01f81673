"""What an answer is: a point with its intervals, its bounds, its parts, what was assumed, and what it rests on."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from html import escape
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

import numpy as np

from cookbook import units

if TYPE_CHECKING:
    import pandas as pd

# Parts of all kinds under the names that every chart of the cookbook uses.
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
COLUMNS = ("point", "low80", "high80", "low90", "high90", "bound_low", "bound_high", "rate", "unit", "tokens_per_s",
           "bottleneck", "memory_bytes", "fits", "tier", "remark", "neighbours", "assumed", "why")  # fmt: skip
STYLE = (
    "border:1px solid var(--jp-border-color2,#8888);border-radius:4px;padding:8px 12px;display:inline-block;"
    "color:var(--jp-ui-font-color1,inherit);background:var(--jp-layout-color1,transparent);"
    "font-family:var(--jp-ui-font-family,system-ui,sans-serif)"
)


@dataclass(frozen=True, eq=False)
class Estimate:
    """Estimated training steps or forward passes, one entry a scenario; numbers where there is one scenario.

    Attributes
    ----------
    kind : str
        "training_classic", "training_transformer" or "inference".
    point : numpy.ndarray
        Time of one step, or of one forward pass [s].
    low80, high80, low90, high90 : numpy.ndarray
        Intervals of the time of one step at 80 and 90 per cent [s]; NaN where none has been calibrated.
    parts : mapping of str to numpy.ndarray
        Time by part [s].
    rate, unit : numpy.ndarray, str
        The outcome in the unit in which it is usually reported.
    tokens : numpy.ndarray
        Tokens of one step or pass of all devices, of language models; NaN of other networks.
    memory : mapping of str to numpy.ndarray
        Device memory by part [B]; empty where the kind has none.
    memory_bytes, fits : numpy.ndarray
        Device memory in all [B], and whether it fits: "yes", "no", or "" where that cannot be said.
    tier, remark : numpy.ndarray of str
        How well measurements cover the scenario, and what to mind about its interval.
    assumed : numpy.ndarray of str
        Fields that were not given, with the value taken.
    neighbours : numpy.ndarray
        Similar measurements that corrected the point.
    similar : tuple of str
        Rows of the tables of measurements that corrected it, where there is one scenario.
    why : numpy.ndarray of str
        Why there is no estimate; "" where there is one.
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
    unit: str
    tier: Any
    why: Any
    remark: Any = ""
    memory: Mapping[str, Any] = field(default_factory=dict, repr=False)
    memory_bytes: Any = np.nan
    fits: Any = ""
    tokens: Any = np.nan
    neighbours: Any = 0
    similar: tuple[str, ...] = ()
    sources: tuple[str, ...] = field(default=(), repr=False)
    told: Any = field(default=None, repr=False)
    rows: Any = field(default=None, repr=False)

    def __post_init__(self) -> None:
        for name in ("parts", "memory"):
            object.__setattr__(self, name, MappingProxyType(dict(getattr(self, name))))

    def __len__(self) -> int:
        return int(np.size(self.point))

    def __repr__(self) -> str:
        if len(self) != 1:
            known = int(np.isfinite(self.point).sum())
            return f"<{len(self):,} estimated {self._units[1]}, {known:,} of them with a number>"
        one = self.one() if np.ndim(self.point) else self
        if one.why:
            return f"<no estimate: {one.why}>"
        low, high = units.human(one.low80, "s"), units.human(one.high80, "s")
        corrected = f", {one.corrected}" if one.neighbours else ""
        remark = f"; interval: {one.remark}" if one.remark else ""
        fits = "; DOES NOT FIT in device memory" if one.fits == "no" else ""
        found = f"{units.human(one.point, 's')} a {self._units[0]}"
        return f"<{found}, 80 % within {low} to {high} ({one.tier}{corrected}{remark}){fits}>"

    def _repr_html_(self) -> str:
        if len(self) != 1:
            return f"<div style='{STYLE}'>{escape(repr(self)[1:-1])}; .frame() shows them as a table.</div>"
        one = self.one() if np.ndim(self.point) else self
        if one.why:
            return f"<div style='{STYLE}'><b>No estimate</b><br>{escape(one.why)}</div>"
        facts = {
            "80 % interval": f"{units.human(one.low80, 's')} to {units.human(one.high80, 's')}",
            "bottleneck": one.bottleneck.replace("_", " "), "evidence": one.tier,
            "throughput": f"{one.tokens_per_s:,.4g} tokens/s" if np.isfinite(one.tokens_per_s) else "",
            "fits": f"{one.fits} ({units.human(one.memory_bytes, 'iB')} of a device)" if one.fits else "",
            "assumed": one.assumed,
        }  # fmt: skip
        rows = "".join(
            f"<tr><td style='opacity:.75;text-align:left'>{escape(name)}</td>"
            f"<td style='text-align:left'>{escape(str(fact))}</td></tr>"
            for name, fact in facts.items() if fact
        )  # fmt: skip
        head = f"<b style='font-size:1.4em'>{units.human(one.point, 's')}</b> a {self._units[0]}"
        return f"<div style='{STYLE}'>{head}<table>{rows}</table></div>"

    @property
    def _units(self) -> tuple[str, str]:
        return ("pass", "passes") if self.kind == "inference" else ("step", "steps")

    @property
    def corrected(self) -> str:
        """What the neighbours did, in words."""
        count = int(np.max(self.neighbours, initial=0))
        return f"corrected by {count} similar measurement{'' if count == 1 else 's'}" if count else "not corrected"

    @property
    def assumed(self) -> Any:
        """Fields that were not given, with the value taken: "software = megatron-core; zero = 1"."""
        if self.told is not None:
            return self.told
        told = self.rows.assumptions() if self.rows is not None else np.full(len(self), "", dtype=object)
        return told if np.ndim(self.point) else str(told[0])

    @property
    def tokens_per_s(self) -> Any:
        """Throughput of all devices, of language models [tokens/s]; NaN of other networks."""
        return self.tokens / self.point

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
        """Name of the largest part; "" where there is no estimate."""
        stack = self._stack()
        names = np.array([*self.parts, ""], dtype=object)
        known = np.isfinite(stack).all(axis=0)
        return names[np.where(known, np.argmax(np.nan_to_num(stack), axis=0), len(names) - 1)]

    def _stack(self) -> np.ndarray:
        nothing = np.full((1, *np.shape(self.point)), np.nan)
        return np.array([*self.parts.values()], dtype=float) if self.parts else nothing

    def one(self, at: int = 0, **changes: Any) -> Estimate:
        """One scenario, its numbers as plain numbers.

        Parameters
        ----------
        at : int
            Which one.
        **changes
            Attributes to set besides.
        """
        found = {name: _entry(getattr(self, name), at) for name in _NAMES}
        rows = self.rows.take(slice(at, at + 1)) if self.rows is not None and len(self.rows) > 1 else self.rows
        return Estimate(**{**found, "rows": rows, **changes})

    def frame(self) -> pd.DataFrame:
        """All scenarios as a table: the point, intervals, bounds, rate, parts, memory, tier, remark, why ..."""
        import pandas as pd

        named = {name: np.broadcast_to(np.atleast_1d(getattr(self, name)), (len(self),)) for name in COLUMNS}
        parts = {f"{name}_seconds": np.atleast_1d(part) for name, part in self.parts.items()}
        return pd.DataFrame({**named, **parts})

    def to_dict(self) -> dict[str, Any]:
        """Everything as plain Python values: numbers for one scenario, lists for several."""
        plain = {name: getattr(self, name) for name in ("kind", *COLUMNS, "similar", "sources")}
        plain |= {"parts": dict(self.parts), "memory": dict(self.memory)}
        return {name: _plain(value) for name, value in plain.items()}

    @classmethod
    def joined(cls, parts: Sequence[Estimate]) -> Estimate:
        """Several estimates of one kind, one after the other."""
        sizes = [len(part) for part in parts]

        def join(columns: Sequence[Any]) -> Any:
            first = columns[0]
            if isinstance(first, Mapping):
                names = dict.fromkeys(name for column in columns for name in column)
                nothing = [np.full(size, np.nan) for size in sizes]
                pairs = list(zip(columns, nothing, strict=True))
                return {name: join([column.get(name, blank) for column, blank in pairs]) for name in names}
            if isinstance(first, (str, tuple)) and not isinstance(first, np.ndarray):
                return first
            return np.concatenate([np.broadcast_to(c, (n,)) for c, n in zip(columns, sizes, strict=True)])

        names = [item.name for item in fields(cls) if item.name not in ("told", "rows")]
        changed = {name: join([getattr(part, name) for part in parts]) for name in names}
        return replace(
            parts[0], **changed, told=join([np.asarray(part.assumed, dtype=object) for part in parts]), rows=None
        )


_NAMES = tuple(item.name for item in fields(Estimate) if item.name != "rows")


def _entry(value: Any, at: int) -> Any:
    """One entry of a column, or of each column of a mapping; what is no column as it is."""
    if isinstance(value, Mapping):
        return {name: _entry(each, at) for name, each in value.items()}
    if not isinstance(value, np.ndarray) or not value.ndim:
        return value
    return value[at].item() if value.dtype != object else value[at]


def _plain(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {name: _plain(each) for name, each in value.items()}
    return value.tolist() if isinstance(value, (np.ndarray, np.generic)) else value
