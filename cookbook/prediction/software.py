"""Software of predictions: levels and the products that they stand for, what they do, and where they run."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache, partial
from operator import attrgetter
from typing import Any

import numpy as np

from cookbook import catalog
from cookbook.catalog import UnknownName
from cookbook.catalog.names import normalise
from cookbook.catalog.reading import NAME_LETTERS, nearest
from cookbook.catalog.refusals import refused
from cookbook.hardware import Accelerator
from cookbook.prediction.device_rates import RATE_KEYS, rates
from cookbook.prediction.precision import not_offered
from cookbook.prediction.scenario import LEVEL, Coded, Scenario, together
from cookbook.units import shown

# A product's name in the table ``software`` where none is given, and kinds as ``software_levels`` calls them.
USUAL = "usual"
# From here on the number behind a product is a year.
FIRST_YEAR = 1900
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
NOTHING_LACKS = np.array("", dtype=object)


@lru_cache(maxsize=8)
def engines(kind: str) -> dict[str, dict[str, float]]:
    """Return the numbers of each level of software, by level and column of the table of its kind; blank is infinite.

    >>> engines("training_transformer")["megatron-core"]["flash_kernel"]
    3.0
    """
    rows = catalog.table(f"{TABLE_KINDS[kind]}_engines").set_index("level")
    numbers = rows.select_dtypes("number").fillna(np.inf)
    return dict(zip(numbers.index, numbers.to_dict("records"), strict=True))


@lru_cache(maxsize=8)
def _measured_with(kind: str) -> dict[str, str]:
    """Return the level with whose measured runs those of each level count; blank: its own."""
    rows = catalog.table(f"{TABLE_KINDS[kind]}_engines")
    return dict(zip(rows["level"], rows["measured_with"], strict=True)) if "measured_with" in rows else {}


@lru_cache(maxsize=1)
def tiled() -> dict[str, float]:
    """Return whether an engine multiplies the experts of a few tokens in tiles; those for one user do it row by row."""
    rows = catalog.table("generation_engines")
    return dict(zip(rows["level"], (rows["family"] != "local").astype(float), strict=True))


@lru_cache(maxsize=1)
def usual_formats() -> dict[str, tuple[str, str, str]]:
    """Return the formats of products, of weights, and of keys and values, that each engine usually takes."""
    rows = catalog.table("generation_engines")
    formats = zip(rows["precision"], rows["weights_format"], rows["kv_format"], strict=True)
    return dict(zip(rows["level"], formats, strict=True))


@lru_cache(maxsize=1)
def _kernels() -> list[tuple[float, str, tuple[str, ...], float]]:
    rows = catalog.table("attention_kernels")
    columns = (rows["kernel"], rows["vendor"], rows["generations"], rows["efficiency"])
    return [
        (float(k), vendor, tuple(filter(None, g.split(";"))), float(e))
        for k, vendor, g, e in zip(*columns, strict=True)
    ]


@lru_cache(maxsize=256)
def attention_share(kernel: float, vendor: str, generation: str) -> float:
    """Return the share of the peak that a fused attention kernel reaches on a device; 1 where there is no such
    kernel."""
    for number, maker, generations, share in _kernels():
        if number == kernel and maker in ("", vendor) and (not generations or generation in generations):
            return share
    return 1.0


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
    name = name[:NAME_LETTERS]  # no row has a longer one, and Python reads no integer of thousands of digits
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


def lacking(s: Scenario) -> np.ndarray:
    """Return why devices offer nothing in the stated number format or software, by row; "" where they do.

    One "" for all rows where all do. Of measured rows this is not asked: they ran, whatever their cells say.
    """
    stated = together(s.words("accelerator"), s.words("precision"), s.words("software"))
    reasons = stated.map(lambda row: _lacks(s.kind, *row))
    return np.atleast_1d(reasons.each(lambda reason: reason, object)) if any(reasons.levels) else NOTHING_LACKS


@lru_cache(maxsize=8192)
def _lacks(kind: str, machine: Any, precision: str, name: str) -> str:
    """Return why a machine cannot run a number format or software; "" where it can, and of a blank machine."""
    if machine == "" or kind not in TABLE_KINDS:
        return ""
    return not_offered(machine.accelerator, precision, kind) or _not_for(machine.accelerator, name, kind)


def _not_for(device: Accelerator, name: str, kind: str) -> str:
    """Return why software does not run on a device; "" where it does."""
    makers = makers_of(kind, name, device.vendor, device.kind)
    if not makers:
        return ""
    usual = name_of(kind, level_of(kind, "", device.vendor, device.kind))
    what = (
        f"runs on devices of {' and '.join(makers)} alone, which {device.name} is not; take {usual}, or another "
        "product of the table 'software'"
    )
    return refused("software", name_of(kind, name), what, "software-not-for-device", [usual]).refusal


def of_machines(
    pairs: Coded, software: Coded, kind: str, assumed: list[Any]
) -> tuple[Coded, dict[str, Coded], dict[str, np.ndarray]]:
    """Return the device of each machine and number format, keys of rows, and numbers of their level of software.

    The key "engine" is the level with whose measured runs those of a row count.
    """
    devices = Coded(pairs.codes, tuple(rates(*level, kind) for level in pairs.levels))
    keys = {name: devices.map(attrgetter(field)) for name, field in RATE_KEYS}
    level = levels_of_rows(kind, software, keys["vendor"], devices.map(attrgetter("kind")))
    keys["engine"] = level.map(lambda name: _measured_with(kind).get(name) or name).compact()
    assumed += assumed_software(kind, software, level)
    return devices, keys, level.figures(engines(kind).__getitem__)
