"""Fitted constants: levels of software, constants by level with stand-ins where none was measured, intervals."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache, partial
from typing import Any

import numpy as np

from cookbook import catalog, units
from cookbook.catalog import UnknownName
from cookbook.catalog.names import normalise
from cookbook.catalog.reading import nearest
from cookbook.prediction.scenario import LEVEL, Coded, together
from cookbook.units import shown

SEEN, SIBLING, NEW_ENGINE, DATASHEET, ADAPTERS, EXPERTS, FIRST_TOKEN, LOADED, IN_FLIGHT = (
    "device and engine measured",
    "sibling device",
    "engine not measured",
    "datasheet only",
    "low-rank adapters",
    "mixture of experts",
    "prompts and first tokens",
    "first tokens under load",
    "requests that come and go",
)
# Of a device that was measured and calibrated where the prediction is made; its intervals are of those measurements.
HERE = "measured here"
# Levels of an interval in per cent; the number of assumed fields from which a scenario has several of them.
LEVELS, MANY_ASSUMED = (80, 90), 2
# A product's name in the table ``software`` where none is given, and kinds as ``software_levels`` calls them.
USUAL = "usual"
# From here on the number behind a product is a year.
FIRST_YEAR = 1900
# A level of which measurements say no more than this share is taken as not measured.
MIN_DETERMINED = 0.05
TABLE_KINDS = {
    "training_transformer": "transformer",
    "training_classic": "classic",
    "inference": "inference",
    "generation": "generation",
}
FOR = {
    "training_transformer": "training language models",
    "training_classic": "training other networks",
    "inference": "single passes",
    "generation": "answers of language models",
}
# From the best known to the least; what is trained or computed in a special way has tiers of its own.
TIERS = (SEEN, SIBLING, NEW_ENGINE, DATASHEET, ADAPTERS, EXPERTS, FIRST_TOKEN, LOADED, IN_FLIGHT)


@dataclass(frozen=True)
class Constant:
    """One free constant of a kind of prediction.

    Attributes
    ----------
    name : str
        Name by which the formulas take it.
    start : float
        Where the fit starts, and the value where nothing was measured.
    low, high : float
        Bounds that physics sets; all above zero, as the fit is in logarithms.
    by : str
        "" where one value serves all, "family" or "engine" where each level has its own.
    unit : str
        Unit of the value, SI; "" for a pure number.
    pull : float
        How far the logarithm of a value is expected to lie from that of the start, before any row was seen: small
        where micro-benchmarks already say the value; 0 where it is not fitted but stays at the start.
    """

    name: str
    start: float
    low: float
    high: float
    by: str = ""
    unit: str = ""
    pull: float = 0.5


@dataclass(frozen=True)
class Fitted:
    """Constants with their levels, and what they were fitted on.

    Attributes
    ----------
    values : mapping of str to mapping of str to float
        For each constant, its value by level; the level is "" where one value serves all.
    vendors : mapping of str to frozenset of str
        Vendors whose devices were measured at a level.
    accelerators, engines : frozenset of str
        Devices and software levels that were measured.
    spreads : mapping of str to mapping of str to float
        By how much of each value the measurements leave it open; that of the pull where they say nothing.
    """

    values: Mapping[str, Mapping[str, float]]
    vendors: Mapping[str, frozenset[str]] = field(default_factory=dict)
    accelerators: frozenset[str] = frozenset()
    engines: frozenset[str] = frozenset()
    spreads: Mapping[str, Mapping[str, float]] = field(default_factory=dict)

    def __hash__(self) -> int:
        return hash((self.accelerators, self.engines))


def of_rows(fitted: Fitted, constants: Sequence[Constant], keys: Mapping[str, Any]) -> dict[str, Any]:
    """Return the value of each constant for each row: a number, or an array where it has levels.

    A level that was not measured takes the geometric mean of the measured levels of the same vendor, software first of
    all that of other releases of the same product, each weighing what its measurements say of it; where there is none,
    the start value: an efficiency of a device is never carried from one vendor to another. `keys` has the ``family``,
    ``engine`` and ``vendor`` of each row.
    """
    by_name: dict[str, Any] = {}
    for constant in constants:
        levels = fitted.values.get(constant.name, {})
        if not constant.by:
            by_name[constant.name] = levels.get("", constant.start)
            continue
        pairs = [*zip(keys[constant.by], keys["vendor"], strict=True)]
        values = {pair: value_at(fitted, constant, *pair) for pair in dict.fromkeys(pairs)}
        by_name[constant.name] = np.array([values[pair] for pair in pairs], dtype=float)
    return by_name


def value_at(fitted: Fitted, constant: Constant, level: str, vendor: str) -> float:
    """Return one constant at one level, or what stands in for it.

    >>> e = Constant("e", 0.5, 0.1, 1, "family")
    >>> known = Fitted({"e": {"Volta": 0.4, "Ampere": 0.9}}, {"Volta": frozenset({"A"}), "Ampere": frozenset({"A"})})
    >>> [round(value_at(known, e, *pair), 3) for pair in [("Volta", "A"), ("Hopper", "A"), ("Hopper", "B")]]
    [0.4, 0.6, 0.5]
    """
    levels, spreads = fitted.values.get(constant.name, {}), fitted.spreads.get(constant.name, {})
    # How much of a level its measurements say, and not the pull: next to nothing where it has stayed at the start.
    determined = {name: 1 - (spreads[name] / constant.pull) ** 2 if name in spreads else 1.0 for name in levels}
    if level and determined.get(level, 0.0) > MIN_DETERMINED:
        return levels[level]
    # Releases and variants of one product ("vllm-2024" of "vllm") are more alike than what runs on one maker's devices.
    siblings = [
        other
        for other in levels
        if constant.by == "engine"
        and level
        and other
        and (level.startswith(f"{other}-") or other.startswith(f"{level}-"))
    ]
    siblings = siblings or [other for other in levels if other and vendor in fitted.vendors.get(other, ())]
    if not siblings:
        return constant.start
    siblings = [other for other in siblings if determined[other] > MIN_DETERMINED] or siblings
    logs = np.log([levels[other] for other in siblings])
    return float(np.exp(np.average(logs, weights=[max(determined[other], MIN_DETERMINED) for other in siblings])))


def tiers_of_rows(fitted: Fitted, keys: Mapping[str, Any]) -> np.ndarray:
    """Return how well measurements cover each row: one of `TIERS`, by device, maker, software and what is run."""
    makers = frozenset().union(*fitted.vendors.values()) if fitted.vendors else frozenset()
    seen, related, engine = (
        np.array([key in those for key in keys[name]], dtype=bool)
        for name, those in (("accelerator", fitted.accelerators), ("vendor", makers), ("engine", fitted.engines))
    )
    plain = np.select([~related, ~engine, seen], [DATASHEET, NEW_ENGINE, SEEN], SIBLING)
    special = np.asarray(keys["special"], dtype=object)
    return np.where((special != "") & ((plain != DATASHEET) | (special == LOADED)), special, plain)


@lru_cache(maxsize=8)
def committed(kind: str) -> Fitted:
    """Return the constants of a kind from the tables ``training_constants`` and ``training_evidence``.

    Raises
    ------
    ValueError
        If the table has none for this kind.
    """
    rows = catalog.table("training_constants")
    rows = rows[rows["kind"] == kind]
    if rows.empty:
        raise ValueError(f"no constants of {kind!r} in data/training_constants.csv; run: python -m cookbook calibrate")
    values: dict[str, dict[str, float]] = {}
    spreads: dict[str, dict[str, float]] = {}
    vendors: dict[str, frozenset[str]] = {}
    for row in rows.itertuples(index=False):
        values.setdefault(row.constant, {})[row.level] = row.value
        if row.spread > 0:
            spreads.setdefault(row.constant, {})[row.level] = row.spread
        if row.level:
            vendors[row.level] = vendors.get(row.level, frozenset()) | frozenset(row.vendors.split(";"))
    seen = catalog.table("training_evidence")
    seen = seen[seen["kind"] == kind]
    makers = catalog.table("accelerators").set_index("key")["vendor"]
    vendors[""] = frozenset(makers.loc[makers.index.intersection(seen["accelerator"])])  # also where no level differs
    return Fitted(values, vendors, frozenset(seen["accelerator"]), frozenset(seen["engine"]), spreads)


@lru_cache(maxsize=64)
def figure(name: str) -> float:
    """Return a value of the table ``constants`` that is not fitted, in SI."""
    row = catalog.table("constants").set_index("name").loc[name]
    return units.si(f"{row['value']} {row['unit']}") if row["unit"] else float(row["value"])


def factors(kind: str, tier: Any) -> dict[int, np.ndarray]:
    """Return, for each level in per cent, the factors that intervals of tiers reach up and down from the point.

    Of shape (tiers, 2): where few fields are assumed, and where several are.
    """
    table, none = _intervals(kind), (np.nan,) * len(LEVELS)
    reaches = [table.get((name, many), none)[: len(LEVELS)] for name in tier for many in (False, True)]
    by_tier = np.array(reaches, dtype=float).reshape(-1, 2, len(LEVELS))
    return {level: by_tier[:, :, at] for at, level in enumerate(LEVELS)}


def remark(kind: str, tier: str) -> str:
    """Return a note about the interval of a tier: "few sources" and the like, or ""."""
    if tier not in TIERS:
        raise ValueError(f"tier = {tier!r} is not one of {', '.join(TIERS)}")
    return str(_intervals(kind).get((tier, False), ("no interval",))[-1])


@lru_cache(maxsize=8)
def _intervals(kind: str) -> dict[tuple[str, bool], tuple[Any, ...]]:
    """Return factors by level, and the note, by tier and whether several fields are assumed; empty where none are."""
    rows = catalog.table("interval_quantiles")
    rows = rows[rows["kind"] == kind]
    return {
        (row.tier, row.assumed == "several"): (row.factor_80, row.factor_90, row.remark)
        for row in rows.itertuples(index=False)
    }


@lru_cache(maxsize=8)
def levels(kind: str) -> tuple[str, ...]:
    """Return the levels of the software stack of a kind of prediction."""
    rows = catalog.table("software_levels")
    return tuple(dict.fromkeys(rows.loc[rows["kind"] == TABLE_KINDS[kind], "level"]))


@lru_cache(maxsize=8)
def _products(kind: str) -> dict[str, list[tuple[str, str]]]:
    """Return the levels of each product, by spelling: the device that a level is for, and the level."""
    rows, by_spelling = catalog.table("software"), dict[str, list[tuple[str, str]]]()
    for row in rows[rows["kind"] == kind].itertuples(index=False):
        for name in (row.product, *row.other_names.split(";")):
            if name:
                by_spelling.setdefault(normalise(name), []).append((row.device, row.level))
    return by_spelling


@lru_cache(maxsize=8)
def _own_compilers(kind: str) -> list[tuple[str, str]]:
    """Return makers and kinds of devices with their own compiler, and its level, which applies to any named product."""
    rows = catalog.table("software")
    rows = rows[(rows["kind"] == kind) & (rows["always"] == "yes")]
    return list(zip(rows["device"], rows["level"], strict=True))


def products(kind: str) -> list[str]:
    """Return the products of a kind of prediction, for lists of choices."""
    rows = catalog.table("software")
    return [name for name in dict.fromkeys(rows.loc[rows["kind"] == kind, "product"]) if name != USUAL]


@lru_cache(maxsize=4096)
def level_of(kind: str, name: str, vendor: str = "", device: str = "") -> str:
    """Return the level of the software stack of a product on a kind of device; of no name, the usual one.

    Raises
    ------
    cookbook.catalog.UnknownName
        A name that is neither a product nor a level of this kind.

    Examples
    --------
    >>> level_of("training_transformer", "", "NVIDIA", "gpu"), level_of("training_transformer", "JAX", "Google", "tpu")
    ('megatron-core', 'xla-tpu')
    """
    own = next((level for wanted, level in _own_compilers(kind) if _is_for(wanted, vendor, device)), "")
    if name in levels(kind):
        return name
    rows = _listed(kind, name)
    if not rows:
        names = {**{normalise(spelling): spelling for spelling in (*levels(kind), *products(kind))}}
        product, _ = _version(normalise(name[:60]))
        last = [".".join(map(str, version)) for version in _versions(kind, product) if version][-1:]
        listed = [f"{names.get(product, product)} {version}" for version in last]
        close = listed or [names[spelling] for spelling in nearest(normalise(name[:60]), list(names), 3)]
        raise UnknownName("software", shown(name).strip("'"), close, _of_another_kind(kind, name, close))
    # Of what does not run on a device, which `makers_of` reports, the level that it has elsewhere.
    return own or next((level for wanted, level in rows if _is_for(wanted, vendor, device)), rows[0][1])


def _of_another_kind(kind: str, name: str, close: Sequence[str]) -> str:
    """Return what is wrong with a product of other kinds of prediction only; "" of one that no kind lists."""
    others = [FOR[other] for other in FOR if other != kind and _listed(other, name)]
    if not others or kind not in FOR:
        return ""
    return (
        f"software = {shown(name, 40)} is for {' and '.join(others)}, not for {FOR[kind]}; nearest names: "
        f"{', '.join(close)}"
    )


def _listed(kind: str, name: str) -> list[tuple[str, str]]:
    """Return rows of a product; an unlisted version counts as the last one listed before it: "PyTorch 2.7".

    None where no product is called so, or where the version is beyond the next major one after those listed.
    """
    by_spelling, text = _products(kind), normalise(name or USUAL)
    if text in by_spelling:
        return by_spelling[text]
    product, requested = _version(text)
    versions = _versions(kind, product)
    numbered = [version for version in versions if version]
    if not versions or (numbered and requested and requested[0] > numbered[-1][0] + 1):
        return []
    before = [version for version in numbered if version <= requested]
    # Of a year, as of a product without listed versions, the product itself; before the first version that one.
    plain = not requested or not numbered
    return by_spelling.get(product, []) if plain else by_spelling[versions[(before or numbered[:1])[-1]]]


@lru_cache(maxsize=4096)
def _versions(kind: str, product: str) -> dict[tuple[int, ...], str]:
    """Return the spellings of a product by version, in order; () is the product itself."""
    by_version = {_version(spelling)[1]: spelling for spelling in _products(kind) if _version(spelling)[0] == product}
    return dict(sorted(by_version.items()))


@lru_cache(maxsize=4096)
def _version(name: str) -> tuple[str, tuple[int, ...]]:
    """Return a normalised name without its version, and the version.

    >>> _version("vllm0:6"), _version("vllm")
    (('vllm', (0, 6)), ('vllm', ()))
    """
    plain = name.rstrip("0123456789:")
    numbers = tuple(int(part) for part in name[len(plain) :].split(":") if part)
    years = bool(numbers) and numbers[0] >= FIRST_YEAR
    return (plain.removesuffix("v") if numbers else plain), () if years else numbers


def unknown_version(kind: str, name: str) -> str:
    """Return what is wrong with a version of a product of which others are listed; "" where nothing is."""
    product, requested = _version(normalise(name))
    if not requested or not _versions(kind, product) or _listed(kind, name):
        return ""
    try:
        return level_of(kind, name) and ""
    except UnknownName as problem:
        return problem.refusal


def _is_for(wanted: str, vendor: str, device: str) -> bool:
    """Return whether a device is of the maker or kind (or both) of a row of the table ``software``; "" is any."""
    return wanted in ("", vendor, device, f"{vendor} {device}")


@lru_cache(maxsize=4096)
def makers_of(kind: str, name: str, vendor: str, device: str) -> tuple[str, ...]:
    """Return makers of the only devices that a product or level runs on; empty where it runs on this device.

    >>> makers_of("generation", "TensorRT-LLM", "AMD", "gpu"), makers_of("generation", "vLLM", "AMD", "gpu")
    (('NVIDIA',), ())
    """
    rows = _products(kind).values() if name in levels(kind) else [_listed(kind, name)]
    wanted = [maker for row in rows for maker, level in row if name not in levels(kind) or level == name]
    # What trains or computes one pass on a maker's own chips goes through its compiler, whatever its name.
    own = kind != "generation" and any(_is_for(maker, vendor, device) for maker, _ in _own_compilers(kind))
    runs = not name or not wanted or own or any(_is_for(maker, vendor, device) for maker in wanted)
    return () if runs else tuple(dict.fromkeys(wanted))


@lru_cache(maxsize=1024)
def name_of(kind: str, level: str) -> str:
    """Return the product of a level, in its first spelling in the table ``software``; a product as it is."""
    rows = catalog.table("software")
    rows = rows[(rows["kind"] == kind) & (rows["level"] == level) & (rows["product"] != USUAL)]
    return str(rows["product"].iloc[0]) if len(rows) else level


# Products of the table ``software`` that stand for no make: the framework as it comes, and all that makers do about it.
PLAIN, TUNED = "plain", "tuned"


@lru_cache(maxsize=256)
def described_level(kind: str, level: str) -> str:
    """Return a level with the remark that it is the plain or the tuned one of its kind, where it is either.

    >>> described_level("training_classic", "eager"), described_level("training_classic", "xla")
    ('eager (plain)', 'xla')
    """
    rows = catalog.table("software")
    rows = rows[(rows["kind"] == kind) & (rows["level"] == level) & rows["product"].isin([PLAIN, TUNED])]
    return f"{level} ({rows['product'].iloc[0]})" if len(rows) else level


def assumed_software(kind: str, software: Coded, engine: Coded) -> list[tuple[str, np.ndarray, Coded]]:
    """Return entries of `Rows.assumed`: the level that stands in for no software, or for a product of another name.

    vLLM 0.6 counts as vllm-2024, and that is reported; vLLM as vllm is not.
    """
    pairs, level = together(software, engine), engine.map(partial(described_level, kind))
    other = pairs.where(lambda pair: pair[0] not in ("", pair[1]) and normalise(pair[0]) != normalise(pair[1]))
    return [("software", is_usual(software), level), (LEVEL, other, level)]


def is_product(kind: str, name: str) -> bool:
    """Return whether a name is a level of a kind of prediction, or a version of a product of the table ``software``."""
    return bool(name) and (name in levels(kind) or bool(_listed(kind, name)))


def levels_of_rows(kind: str, software: Coded, vendor: Coded, device: Coded) -> Coded:
    """Return levels of rows, by product, maker and kind of device."""
    return together(software, vendor, device).map(lambda row: level_of(kind, *row)).compact()


def is_usual(software: Coded) -> Any:
    """Return rows that name no software."""
    return np.asarray(software.where(lambda name: name == ""))
