"""Names: from a written spelling to the key of a row, with the nearest names where nothing matches."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from functools import lru_cache
from heapq import nlargest
from pathlib import Path

import pandas as pd

from cookbook.catalog.refusals import refused

from ..units import shown
from .reading import NAME_LETTERS, CatalogError, UnknownName, folder_of, likeness, nearest, schema
from .tables import raw, table, table_names

SPELLINGS = ("name", "title", "aliases")
# Short names that several rows share, of which none is the usual one: A100 is four accelerators.
SHARED = "shared_aliases"
IGNORED = re.compile(r"[\s\-_.,()/]+")
# Trademark signs, which reports print after product names.
MARKS = re.compile(r"\((?:r|tm|c)\)|[®™©]", re.I)
# Between digits a separator distinguishes 1.6 from 16, whichever character it is.
BETWEEN_DIGITS = re.compile(r"(?<=\d)[\s\-_.,()/]+(?=\d)")
# Makers and their brands, which people write before a name or omit, and words that they add after it; the column
# of a table that names makers adds to them.
BRANDS = (
    "nvidia|amd|intel|google|aws|amazon|tt|habana|xilinx|azure|tesla|geforce|quadro|instinct|radeon|arc|ascend"
    "|gpu|cloud"
)
MAKERS = re.compile(rf"^(?:{BRANDS})+")
PRODUCT_SUFFIX = re.compile(r"(?<=\w)(?:graphics|gpu|accelerator|card)$")
VENDOR = "vendor"
# Models of one network are many checkpoints: prefixes and suffixes of a checkpoint's name do not affect its layers.
OWNER = re.compile(
    r"^[\w][\w.\-]*/(?=[^/]+$)|^(?:meta|mistralai|google|nvidia|microsoft|alibaba|poolside|quanttrio"
    r"|unsloth|bartowski|redhatai)(?:[\s_/\-]+(?=\w))",
    re.I,
)
SUFFIX = re.compile(
    r"[\s_\-.:+]+(?:instruct|thinking|reasoning|chat|hf|it|pt|base|sft|dpo|rlhf|preview|dynamic|static|gguf|ggml|awq"
    r"|gptq|exl[23]|marlin|kv|auto-?round|ct|mobile|qat|mlx|bnb|w\d+a\d+(?:kv\d+)?|\d(?:\.\d+)?bpw|int[48]"
    r"|[2-8][\s\-]?bit|fp8[\s_\-]?kv|fp8|fp16|bf16|fp32|nvfp4|mxfp[48]|fp4|nf4|f16|f32|ud|i?q\d(?:_[0-9a-z]+)*"
    r"|fine[\s_\-]?tun(?:e|ed|ing)|lora|qlora|terminus|latest|cloud|2[3-6](?:0[1-9]|1[0-2])|(?:0[1-9]|1[0-2])[0-3]\d)$",
    re.I,
)
MAX_SUFFIXES = 8
# Smallest similarity of a nearest name, 0 to 1; below it, it is another model and not a misspelling.
MISSPELT_LIKENESS = 0.8
# Number of spellings, those with the most common pairs of letters, that are compared with a name in full.
MAX_COMPARED = 12


def normalise(name: str) -> str:
    """Return a spelling without case, spaces, hyphens, underscores, dots and brackets, except between digits.

    >>> normalise("NVIDIA A100-SXM4-80GB"), normalise("regnet_y_1_6gf"), normalise("RegNetY 1.6GF")
    ('nvidiaa100sxm4:80gb', 'regnety1:6gf', 'regnety1:6gf')
    """
    return IGNORED.sub("", BETWEEN_DIGITS.sub(":", MARKS.sub(" ", name).strip())).casefold()


def stems(name: str) -> list[str]:
    """Return a checkpoint's name without owner, file suffix, formats, tuning and dates, step by step.

    >>> stems("unsloth/Qwen3-8B-Instruct-2507-Q4_K_M.gguf")[-1], stems("resnet50"), stems("gpt-oss:20b")[-1]
    ('Qwen3-8B', ['resnet50'], 'gpt-oss-20b')
    """
    short = name[: 2 * NAME_LETTERS].strip()
    forms = [short, OWNER.sub("", short)]
    forms += [form.replace(":", "-") for form in forms if ":" in form]  # tags such as gpt-oss:20b
    for start in list(forms):
        short = start
        for _ in range(MAX_SUFFIXES):
            cut = SUFFIX.sub("", short).strip(" _-.:+")
            if not cut or cut == short:
                break
            short = cut
            forms.append(short)
    return list(dict.fromkeys([*forms, OWNER.sub("", short)]))


def spellings(kind: str, directory: Path) -> Iterator[tuple[int, str, str]]:
    """Yield every spelling of every row: line, spelling, key; keys first, since they win over aliases."""
    file, key = raw(kind, directory), schema(kind, directory).key
    records = list(zip(file.lines, file.records(), strict=True))
    for line, record in records:
        yield line, record[key], record[key]
    for line, record in records:
        for column in SPELLINGS:
            for spelling in record.get(column, "").split(";") if column == "aliases" else [record.get(column, "")]:
                if spelling.strip():
                    yield line, spelling.strip(), record[key]


@lru_cache(maxsize=64)
def index(kind: str, directory: Path) -> dict[str, str]:
    """Return the key of each normalised spelling."""
    by_spelling: dict[str, str] = {}
    for _, spelling, key in spellings(kind, directory):
        by_spelling.setdefault(normalise(spelling), key)
    return by_spelling


@lru_cache(maxsize=64)
def _makers(kind: str, directory: Path) -> re.Pattern[str]:
    """Return the pattern of prefixes of a table's names: brands, and the makers of its rows."""
    vendors = set(raw(kind, directory).column(VENDOR)) if VENDOR in raw(kind, directory).header else set()
    words = sorted({re.escape(word) for vendor in vendors if (word := normalise(vendor))}, key=len, reverse=True)
    return re.compile(rf"^(?:{'|'.join([*words, BRANDS])})+")


def bare(kind: str, spelling: str, directory: Path) -> str:
    """Return a normalised spelling without makers and brands before it, and without the kind of product after it.

    >>> [bare("accelerators", normalise(name), folder_of(None)) for name in ("AMD Radeon(TM) 8060S", "tt-n150")]
    ['8060s', 'n150']
    """
    return _makers(kind, directory).sub("", PRODUCT_SUFFIX.sub("", spelling))


@lru_cache(maxsize=64)
def unbranded(kind: str, directory: Path) -> dict[str, str]:
    """Return the key of each unique spelling without maker and brand; empty without makers."""
    keys_of: dict[str, set[str]] = {}
    if VENDOR in raw(kind, directory).header:
        for spelling, key in index(kind, directory).items():
            keys_of.setdefault(bare(kind, spelling, directory), set()).add(key)
    # A number alone names a device only where a row states it.
    return {word: min(keys) for word, keys in keys_of.items() if word and not word.isdigit() and len(keys) == 1}


def ambiguous(kind: str, directory: Path) -> Iterator[CatalogError]:
    """Yield an error for every name or alias that could mean two rows."""
    owner, reported = dict[str, str](), set[tuple[int, str]]()
    for line, spelling, key in spellings(kind, directory):
        other = owner.setdefault(normalise(spelling), key)
        if other != key and (line, normalise(spelling)) not in reported:
            reported.add((line, normalise(spelling)))
            expected = f"a spelling of its own: {other} has it too"
            yield CatalogError(f"data/{kind}.csv", line, "aliases", spelling, expected, "remove one of the two")


@lru_cache(maxsize=64)
def shared(kind: str, directory: Path) -> dict[str, tuple[str, ...]]:
    """Return the keys of all rows that share a normalised short name, by name."""
    keys_of: dict[str, tuple[str, ...]] = {}
    key = schema(kind, directory).key
    for record in raw(kind, directory).records():
        for spelling in filter(str.strip, record.get(SHARED, "").split(";")):
            keys_of[normalise(spelling)] = (*keys_of.get(normalise(spelling), ()), record[key])
    return keys_of


class Similar:
    """Search for the spellings most like a name: by common pairs of letters first, then letter by letter."""

    def __init__(self, by_spelling: dict[str, str]) -> None:
        self.known, self.pairs = list(by_spelling.items()), [_pairs(spelling) for spelling in by_spelling]
        self.having: dict[str, list[int]] = {}
        for place, pairs in enumerate(self.pairs):
            for pair in pairs:
                self.having.setdefault(pair, []).append(place)

    def alike(self, name: str, count: int, least: float = 0.0) -> list[str]:
        """Return keys, best first: those that begin with the name, then those that contain it, then the most similar.

        With `least`, only names with at least that share of common letters (0 to 1), possibly none.
        """
        normalised = normalise(name[:NAME_LETTERS])
        wanted_pairs = _pairs(normalised)
        common = Counter(sorted(place for pair in wanted_pairs for place in self.having.get(pair, ())))
        similarity = {place: 2 * both / (len(wanted_pairs) + len(self.pairs[place])) for place, both in common.items()}
        scores = {place: share + _inside(normalised, self.known[place][0]) for place, share in similarity.items()}
        ranked = []
        for place in nlargest(MAX_COMPARED, scores, key=lambda place: scores[place]):
            spelling, key = self.known[place]
            ranked.append((likeness(spelling, normalised) + _inside(normalised, spelling), key))
        ranked.sort(key=lambda entry: -entry[0])
        keys = dict.fromkeys(key for _, key in ranked)
        if least:
            return list(dict.fromkeys(key for score, key in ranked if score >= least))[:count]
        for key in (key for _, key in self.known):  # where nothing is alike, the first names show what names look like
            if len(keys) >= count:
                break
            keys.setdefault(key)
        return list(keys)[:count]


def _pairs(spelling: str) -> frozenset[str]:
    return frozenset(first + second for first, second in zip(f"^{spelling}", spelling, strict=False))


def _inside(wanted: str, spelling: str) -> float:
    if len(wanted) > 1 and spelling.startswith(wanted):
        return 1.0
    return 0.3 if len(wanted) > 2 and (wanted in spelling or (len(spelling) > 2 and spelling in wanted)) else 0.0


@lru_cache(maxsize=64)
def _similar(kind: str, directory: Path) -> Similar:
    return Similar(index(kind, directory))


@lru_cache(maxsize=4096)
def _alike(kind: str, name: str, directory: Path) -> tuple[str, ...]:
    return tuple(_similar(kind, directory).alike(name, 3, MISSPELT_LIKENESS if kind == "models" else 0.0))


@lru_cache(maxsize=64)
def _named_tables(directory: Path) -> tuple[str, ...]:
    return tuple(table for table in table_names(directory) if schema(table, directory).key)


def lookup(kind: str, name: str, directory: str | Path | None = None) -> str:
    """Return the key of a row from any usual spelling.

    Parameters
    ----------
    kind : str
        The table: ``"accelerators"``, ``"models"``, ``"optimisers"``, ``"number_formats"``, ``"sources"`` ...
    name : str
        Key, name or alias; case and the choice of space, hyphen, underscore or dot between words do not matter,
        nor do makers and brands before a device.
        For models also the name of a checkpoint, with its owner and with suffixes of format, tuning and date.
    directory : str or Path, optional
        Another data directory, its schema folder included.

    Raises
    ------
    UnknownName
        With the three nearest names, or with all rows that share the name where none of them is the usual one
        (a KeyError).
    ValueError
        If `kind` is not a table whose rows have names, or `name` is not text.

    Examples
    --------
    >>> lookup("accelerators", "NVIDIA A100-SXM4-80GB")
    'a100-sxm-80gb'
    """
    folder = folder_of(directory)
    if not isinstance(kind, str) or kind not in _named_tables(folder):
        suggestions = ", ".join(nearest(str(kind)[:NAME_LETTERS], list(_named_tables(folder)), 5))
        raise refused("kind", kind, f"is no table whose rows have names; nearest: {suggestions}")
    if not isinstance(name, str):
        raise refused("name", name, f"must be text, such as {next(iter(index(kind, folder).values()))!r}")
    return _key(kind, name, folder)


@lru_cache(maxsize=4096)
def _key(kind: str, name: str, folder: Path) -> str:
    by_spelling, shared_keys = index(kind, folder), shared(kind, folder)
    normalised = normalise(name[: 2 * NAME_LETTERS])
    others = map(normalise, stems(name)) if kind == "models" else ()
    short = bare(kind, normalised, folder)
    for spelling in (normalised, MAKERS.sub("", normalised), short, *others):
        if spelling in by_spelling:
            return by_spelling[spelling]
        if spelling in shared_keys:
            keys = list(shared_keys[spelling])
            words = f"{shown(name, 40)} stands for {len(keys)} {kind}: {', '.join(keys)}. Write the one that is meant"
            raise UnknownName(kind, name, keys, words, shared=True)
    if short in unbranded(kind, folder):
        return unbranded(kind, folder)[short]
    raise UnknownName(kind, name, list(_alike(kind, name[:NAME_LETTERS], folder)))


CACHED = (index, _makers, unbranded, shared, _similar, _alike, _named_tables, _key)


def row(kind: str, name: str) -> pd.Series:
    """Return the row of a table from any usual spelling of its name, in SI.

    Parameters
    ----------
    kind, name : str
        As for `lookup`.

    Raises
    ------
    UnknownName
        If no row has that name (a KeyError; names the nearest three).

    Examples
    --------
    >>> float(row("optimisers", "Adam")["state_elements"])
    2.0
    """
    return _row(kind, name).copy()  # what a caller changes stays the caller's


@lru_cache(maxsize=256)
def _row(kind: str, name: str) -> pd.Series:
    rows = table(kind)
    return rows.iloc[rows[schema(kind, folder_of(None)).key].tolist().index(lookup(kind, name))]
