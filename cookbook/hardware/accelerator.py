"""Accelerators as records: rows of the catalogue, a row with some values changed, or the reader's own."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, fields, replace
from functools import cache, cached_property, lru_cache
from types import MappingProxyType
from typing import Any

import numpy as np
import pandas as pd

from cookbook import catalog, units
from cookbook.catalog.calls import as_python, keywords
from cookbook.catalog.fields import Field, checked
from cookbook.catalog.reading import check_names, nearest
from cookbook.catalog.refusals import refused
from cookbook.units import shown

# Fields that may be given, with the unit that text must be in; the last two are counts.
QUANTITIES = {
    "memory_bytes": "B",
    "mem_bandwidth": "B/s",
    "tdp_watts": "W",
    "device_link": "B/s",
    "host_link": "B/s",
    "scale_up_devices": "",
    "process_nm": "",
}
REQUIRED = ("memory_bytes", "mem_bandwidth")
WORDS = ("generation", "kind", "device_link_kind")
PEAK = "peak_"
PEAK_UNIT = "FLOP/s"
# Examples for error messages only.
PLAUSIBLE = {"B": 80e9, "B/s": 3e12, "W": 300.0, "FLOP/s": 300e12}
# Upper bounds of a device's values.
LEAST, MOST = 1e-3, 1e21
MAX_COUNT = 1e6
LONGEST_NAME = 80
OWN = "own: "
COLUMNS = ("key", "name", "vendor", "kind", "memory_bytes", "mem_bandwidth", "tdp_watts", "launch_date")


class ByFigures:
    """A record compared by its values, where two missing values count as equal."""

    @cached_property
    def _identity(self) -> tuple[Any, ...]:
        values = [getattr(self, attribute.name) for attribute in fields(self)]  # type: ignore[arg-type]
        flat = [str(sorted(value.items())) if isinstance(value, Mapping) else value for value in values]
        return tuple("nan" if isinstance(value, float) and math.isnan(value) else value for value in flat)

    def __eq__(self, other: object) -> bool:
        return self is other or (type(self) is type(other) and self._identity == other._identity)

    def __hash__(self) -> int:
        return hash(self._identity)


@dataclass(frozen=True)
class Calibrated:
    """The calibration measured on one device, for predictions of that device alone: factors, and their errors.

    Attributes
    ----------
    factors : tuple of (str, float)
        Factors on the constants of predictions: ``compute`` on peaks, ``convolution`` additionally on the rate of
        convolutions, ``narrow`` on that of products of few rows, ``memory`` on the memory bandwidth, ``elementwise``
        and ``host`` on the time of small operations and of launches; ``compute/inference`` and the like are further
        factors for one kind of prediction.
    spreads : tuple of (int, float)
        Half-width of an interval as a factor, by level in per cent.
    kinds : tuple of str
        Kinds of prediction whose networks were measured; for others the factors are valid, but the intervals are not.
    here : bool
        True if the device's values are those at the time of the measurement.
    """

    factors: tuple[tuple[str, float], ...]
    spreads: tuple[tuple[int, float], ...] = ()
    kinds: tuple[str, ...] = ()
    here: bool = True

    def of(self, what: str, kind: str) -> float:
        """Return the factor on one part in one kind of prediction; 1 where none was measured.

        >>> Calibrated((("compute", 0.5), ("compute/inference", 1.5))).of("compute", "inference")
        0.75
        """
        return math.prod(value for name, value in self.factors if name in (what, f"{what}/{kind}"))


@dataclass(frozen=True, eq=False)
class Accelerator(ByFigures):
    """One accelerator, in SI; read-only, hashable, and equal to another with the same values.

    Attributes
    ----------
    key, name, vendor, kind : str
        As in the catalogue; a changed accelerator has the key of its model followed by ``*``, one of the reader's
        own has ``own:`` and its name, no vendor and, unless stated, no kind.
    memory_bytes, mem_bandwidth, tdp_watts : float
        Device memory [B], its bandwidth [B/s], design power [W]; NaN where unknown.
    peaks : mapping of str to float
        Dense peaks by catalogue column, such as ``peak_fp32`` [FLOP/s]; NaN where it has none.
    launch_date : str
    sources : tuple of str
        Keys of the sources of the row.
    changed : mapping of str to float or str
        Changed values or, for an accelerator of the reader's own, given ones, in SI; empty for a catalogue row.
    generation : str
        Generation of the architecture; blank where not stated.
    device_link, device_link_kind : float, str
        Link to other devices of the node, nominal, all links together, one direction [B/s], and its kind as in the
        table ``accelerators``: fast, bridge, bus or other, blank for none.
    scale_up_devices : float
        Largest number of devices on the link [-]; NaN where not stated.
    host_link : float
        Link to the host, nominal, one direction, its share of a shared one [B/s]; NaN where not known.
    process_nm : float
        Name of the process [nm].
    calibrated : Calibrated, optional
        The measured constants of a device of `cookbook.measure.calibrate`.
    """

    key: str
    name: str
    vendor: str
    kind: str
    memory_bytes: float
    mem_bandwidth: float
    peaks: Mapping[str, float] = field(repr=False)
    tdp_watts: float
    launch_date: str
    sources: tuple[str, ...] = field(repr=False)
    changed: Mapping[str, float | str] = field(default_factory=dict)
    generation: str = ""
    device_link: float = math.nan
    device_link_kind: str = ""
    scale_up_devices: float = math.nan
    host_link: float = math.nan
    process_nm: float = math.nan
    calibrated: Calibrated | None = None

    def __post_init__(self) -> None:
        for name in ("peaks", "changed"):
            object.__setattr__(self, name, MappingProxyType(dict(getattr(self, name))))

    @property
    def like(self) -> str:
        """Return the key of the catalogue row that the record was built from; blank for one of the reader's own."""
        return "" if self.key.startswith(OWN) else self.key.removesuffix("*")

    def python(self) -> str:
        """Return Python that gives this accelerator: its key, or what differs from its model; "" of other ones."""
        if not self.changed:
            return as_python(self.key)
        like = {"like": self.like} if self.like else {"name": self.name}
        return "" if self.calibrated else f"cb.accelerator({keywords({**like, **self.changed})})"

    def __reduce__(self) -> tuple[Any, ...]:
        values = [getattr(self, attribute.name) for attribute in fields(self)]
        return Accelerator, tuple(dict(value) if isinstance(value, Mapping) else value for value in values)


DEVICE = Field.named(
    "accelerators", Accelerator, what="device", give="a name of the table accelerators, such as 'h100-sxm'"
)


@checked(
    name=Field.record(str, Accelerator, what="name", give="a name of the table accelerators, or one for your own"),
    like=DEVICE,
    **{name: Field.number(LEAST, MOST, unit=unit, later=True) for name, unit in QUANTITIES.items() if unit},
)
def accelerator(
    name: str | Accelerator | None = None, *, like: str | Accelerator | None = None, **changes: Any
) -> Accelerator:
    """Return an accelerator of the catalogue, one like it with some values changed, or one of your own.

    Parameters
    ----------
    name : str
        Key, name or alias. With `like`, the name of the changed accelerator; with values alone, the name of
        your own.
    like : str
        The accelerator to start from.
    **changes : str or float
        ``memory_bytes``, ``mem_bandwidth``, ``tdp_watts``, ``device_link`` and ``host_link`` (nominal, one direction)
        or any ``peak_...``: text with a unit, or a number in SI; ``scale_up_devices`` and ``process_nm``: numbers;
        ``generation``, ``kind`` and ``device_link_kind``: words of the table ``accelerators``. An accelerator of your
        own needs memory, its bandwidth and one peak.

    Raises
    ------
    UnknownName
        If no such accelerator is known (a KeyError; names the nearest three).
    ValueError
        If a field is unknown or missing, or a value is not above 0, not finite, or in the wrong unit.

    Examples
    --------
    >>> accelerator("H100 SXM5").mem_bandwidth
    3350000000000.0
    >>> dict(accelerator(like="h100-sxm", mem_bandwidth="4 TB/s").changed)
    {'mem_bandwidth': 4000000000000.0}
    >>> accelerator("My chip", memory_bytes="64 GB", mem_bandwidth="2 TB/s", peak_bf16="300 TFLOP/s").key
    'own: My chip'
    """
    if like is not None:
        return _changed_device(_as_accelerator(like), None if name is None else _new_name(name), changes)
    if name is None:
        raise ValueError('accelerator needs a name, or like= and what differs: accelerator(like="h100-sxm", ...)')
    return _own_device(name, changes) if changes else _as_accelerator(name)


def found_key(table: str, name: Any) -> str:
    """Return the key of a row by name; text that is longer than any name is not compared in full."""
    if not isinstance(name, str):
        raise refused("name", name, f"is no text: give a name of the table {table}, such as 'h100-sxm'")
    # No name is that long; the ellipsis prevents its beginning from matching a name.
    return catalog.lookup(table, name if len(name) <= LONGEST_NAME else f"{name[:LONGEST_NAME]}…")


def _as_accelerator(name: Any) -> Accelerator:
    return name if isinstance(name, Accelerator) else _row(found_key("accelerators", name))


@cache
def catalogue() -> Mapping[str, Mapping[str, Any]]:
    """Return the table ``accelerators`` by key, each row as a mapping, in SI."""
    records = catalog.table("accelerators").to_dict("records")
    return MappingProxyType({record["key"]: MappingProxyType(record) for record in records})


def catalogue_row(device: Accelerator) -> Mapping[str, Any]:
    """Return the row of the table ``accelerators`` that a device was built from; empty for one of the reader's own."""
    return catalogue()[device.like] if device.like else {}


@cache
def interconnects() -> Mapping[str, Mapping[str, Any]]:
    """Return the table ``interconnects`` by key, each row as a mapping, in SI."""
    return MappingProxyType({row["key"]: row for row in catalog.table("interconnects").to_dict("records")})


@cache
def _row(key: str) -> Accelerator:
    row = catalogue()[key]
    shared = row["host_link_devices"] if row["host_link_devices"] > 1 else 1.0
    host = interconnects()[row["host_link_key"]]["bandwidth"] / shared if row["host_link_key"] else math.nan
    copied: dict[str, Any] = {
        **{name: row[name] for name in ("key", "name", "vendor", "launch_date", *WORDS)},
        **{name: float(row[name]) for name in QUANTITIES if name not in ("device_link", "host_link")},
    }
    return Accelerator(
        **copied,
        peaks={column: float(row[column]) for column in _peak_names()},
        sources=tuple(row["source"].split(";")),
        device_link=float(row["device_link_bandwidth"]) / 2,
        host_link=float(host),
    )


@cache
def _peak_names() -> tuple[str, ...]:
    return tuple(column for column in catalog.table("accelerators").columns if column.startswith(PEAK))


def _own_device(name: Any, stated: Mapping[str, Any]) -> Accelerator:
    """Return an accelerator that the catalogue does not have, from its stated values alone."""
    text = _new_name(name)
    try:
        key = found_key("accelerators", text)
    except catalog.UnknownName as unknown:
        suggestion = unknown.nearest[0]
    else:
        raise ValueError(
            f"{next(iter(stated))}= needs like=, as the catalogue has {key}: write accelerator(like={key!r}, ...), or "
            "give an accelerator of your own another name"
        )
    values = _values(stated)
    missing = [column for column in REQUIRED if column not in values]
    missing += [] if any(column.startswith(PEAK) for column in values) else ["a peak such as peak_bf16"]
    if missing:
        raise ValueError(
            f"{shown(text, 30)} is not in the catalogue, and one of your own needs {', '.join(missing)} too; to change "
            f"a known one write accelerator(like={suggestion!r}, ...)"
        )
    blank = Accelerator(
        key=OWN + text,
        name=text,
        vendor="",
        kind="",
        memory_bytes=math.nan,
        mem_bandwidth=math.nan,
        peaks=dict.fromkeys(_peak_names(), math.nan),
        tdp_watts=math.nan,
        launch_date="",
        sources=(),
    )
    return _with_values(blank, values)


def _changed_device(base: Accelerator, name: str | None, changes: Mapping[str, Any]) -> Accelerator:
    values = _values(changes)
    new = bool(values) and not base.changed
    key = f"{base.key}*" if new else base.key
    if base.key.startswith(OWN) and name:
        key = OWN + name
    return _with_values(base, values, key=key, name=name or (f"{base.name}, changed" if new else base.name))


def _with_values(base: Accelerator, values: Mapping[str, Any], **named: Any) -> Accelerator:
    plain: dict[str, Any] = {column: value for column, value in values.items() if not column.startswith(PEAK)}
    # A link that is given where the model has none joins all devices of the node.
    if "device_link" in values and not base.device_link_kind:
        plain.setdefault("device_link_kind", "fast")
    # A machine other than the measured one: the factors are expected to apply to it, but were not measured on it.
    if base.calibrated is not None and values:
        plain["calibrated"] = replace(base.calibrated, here=False)
    peaks = {column: values.get(column, peak) for column, peak in base.peaks.items()}
    return replace(base, peaks=peaks, changed={**base.changed, **values}, **plain, **named)


def _new_name(name: Any) -> str:
    text = name.name if isinstance(name, Accelerator) else name
    text = text.strip() if isinstance(text, str) else text
    if not isinstance(text, str) or not text or len(text) > LONGEST_NAME or not text.isprintable():
        raise refused("name", name, f"must be text of 1 to {LONGEST_NAME} letters, such as 'My chip'")
    return text


def _values(stated: Mapping[str, Any]) -> dict[str, Any]:
    """Return the stated quantities and words in SI; invalid ones are refused by name."""
    allowed = [*QUANTITIES, *WORDS, *_peak_names()]
    check_names(stated, allowed, "an accelerator", "field")
    return {name: _word(name, value) if name in WORDS else _quantity(name, value) for name, value in stated.items()}


def _word(name: str, value: Any) -> str:
    words = sorted({row[name] for row in catalogue().values()} - {""})
    if not isinstance(value, str) or value not in words:
        suggestions = ", ".join(nearest(value[:LONGEST_NAME], words, 3) if isinstance(value, str) else words[:3])
        raise refused(name, value, f"is not in the table accelerators; nearest: {suggestions}")
    return value


def _quantity(changed_field: str, value: Any) -> float:
    """Return a changed quantity in SI; invalid values are refused."""
    unit = QUANTITIES.get(changed_field, PEAK_UNIT)
    example = units.human(PLAUSIBLE[unit], unit) if unit else "8"
    low, high = (LEAST, MOST) if unit else (1.0, MAX_COUNT)
    declared = Field.count(low, high) if changed_field == "scale_up_devices" else Field.number(low, high, unit=unit)
    return float(replace(declared, give=f"{declared.allowed}, such as {example!r}").read(value, changed_field))


def peak_flops(device: str | Accelerator | pd.DataFrame, number_format: str) -> Any:
    """Return the dense peak in a number format of a device, or of each row of a table [FLOP/s]; NaN if it has none.

    The number format determines the columns: FP16 training counts the rate with 32-bit accumulation, which on
    GeForce cards is half of the advertised one.

    Parameters
    ----------
    device : str, Accelerator or pandas.DataFrame
        A name of the table ``accelerators``, a record, or rows of `accelerator_table`.
    number_format : str
        Name in the table ``number_formats``.

    Returns
    -------
    float or numpy.ndarray
        One peak, or one per row of the table.

    >>> peak_flops("rtx-4090", "fp16"), peak_flops("h100-sxm", "bf16")
    (165200000000000.0, 989000000000000.0)

    Raises
    ------
    UnknownName
        If the device or the number format is not known.
    """
    peaks = device if isinstance(device, pd.DataFrame) else _as_accelerator(device).peaks
    return _peak(peaks, found_key("number_formats", number_format))


def _peak(peaks: Any, number_format: str) -> Any:
    """Return the first peak that is known of the columns of a number format."""
    first, *others = (np.asarray(peaks[column], dtype=float) for column in _peak_columns()[number_format])
    for other in others:
        first = np.where(np.isnan(first), other, first)
    return first if first.ndim else float(first)


@lru_cache(maxsize=1)
def _peak_columns() -> dict[str, list[str]]:
    frame = catalog.table("number_formats")
    return {name: columns.split(";") for name, columns in zip(frame["name"], frame["peak_columns"], strict=True)}


def formats(device: str | Accelerator) -> list[str]:
    """Return the number formats that a device has a peak for.

    >>> formats("v100")
    ['fp32', 'fp16']
    """
    peaks = _as_accelerator(device).peaks
    return [name for name in _peak_columns() if not math.isnan(_peak(peaks, name))]


def accelerator_table(keys: Iterable[str | Accelerator] | None = None) -> pd.DataFrame:
    """Return accelerators as a table in SI, one row each, for work on many at once.

    Parameters
    ----------
    keys : iterable of str or Accelerator, optional
        Accelerators in this order, custom ones included; all of the catalogue if not given.

    Returns
    -------
    pandas.DataFrame
        Columns key, name, vendor, kind, memory_bytes, mem_bandwidth, tdp_watts, launch_date, sources and the peaks.
    """
    frame = catalog.table("accelerators")
    peaks = [column for column in frame.columns if column.startswith(PEAK)]
    columns = [*COLUMNS, *peaks, "sources"]
    if keys is None:
        return frame.assign(sources=[tuple(source.split(";")) for source in frame["source"]])[columns]
    devices = [_as_accelerator(key) for key in ([keys] if isinstance(keys, (str, Accelerator)) else keys)]
    attributes = {column: [getattr(device, column) for device in devices] for column in (*COLUMNS, "sources")}
    known = {column: [device.peaks.get(column, np.nan) for device in devices] for column in peaks}
    return pd.DataFrame(attributes | known, columns=columns, dtype=None if devices else object)
