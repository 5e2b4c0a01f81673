"""Interval widths from the errors of publishers that were left out, and how good predictions are by stratum and by row.

The widths are publisher-wise split conformal prediction. Publishers are exchangeable, rows are not: rows of one
publisher share machine, code and habits. So errors are pooled with every publisher weighing one, and the pooled
quantile is stretched until publishers that had no say in it are covered at the nominal level on average (each left out
in turn).

References: Vovk, Gammerman & Shafer, Algorithmic Learning in a Random World, 2005; Dunn, Wasserman & Ramdas,
Distribution-free prediction sets for two-layer hierarchical models, JASA 118, 2023.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from cookbook.calibration.fit import FEW, LeftOut, Rows, publisher_weights
from cookbook.prediction.constants import DATASHEET, EXPERTS, LEVELS, NEW_ENGINE, SCALES, SEEN, SIBLING

if TYPE_CHECKING:
    import pandas as pd

ENOUGH = 5
# Beyond what was seen anywhere, by this much in the logarithm, where a tier has no measurement at all.
UNKNOWN = 2.0
# A device that only its datasheet describes: wider than a known generation by this much, until enough publishers speak.
FOREIGN = 1.5
CHAIN = (SEEN, SIBLING, NEW_ENGINE, DATASHEET)


@dataclass(frozen=True)
class Width:
    """Interval of one tier and scale.

    Attributes
    ----------
    tier, scale : str
        Where it holds; the scale is "" for all of the tier.
    half : tuple of float
        Half-width in the logarithm for each of `LEVELS`.
    publishers, rows : int
        What it rests on.
    remark : str
        "few sources" or "no measurements" where it does not rest on enough.
    """

    tier: str
    scale: str
    half: tuple[float, ...]
    publishers: int
    rows: int
    remark: str = ""


def pooled_quantile(errors: np.ndarray, group: np.ndarray, level: float) -> float:
    """Smallest error that a share `level` of the rows stays below, every publisher weighing one.

    A publisher with fewer than `fit.FEW` rows weighs in proportion.

    Parameters
    ----------
    errors : numpy.ndarray
        Absolute errors.
    group : numpy.ndarray of str
        Publisher of each.
    level : float
        Share of the weight, 0 to 1.

    Examples
    --------
    >>> pooled_quantile(np.arange(1.0, 41), np.array(["a"] * 30 + ["b"] * 10), 0.5)
    30.0
    """
    _, codes = np.unique(group, return_inverse=True)
    weights = 1 / np.maximum(np.bincount(codes), FEW)[codes]
    order = np.argsort(errors, kind="stable")
    share = np.cumsum(weights[order]) / weights.sum()
    return float(errors[order][min(int(np.searchsorted(share, level - 1e-12)), len(errors) - 1)])


def half_width(errors: np.ndarray, group: np.ndarray, level: float) -> float:
    """Half-width that covers a publisher not among these at the given level, on average.

    Parameters
    ----------
    errors, group, level
        As for `pooled_quantile`.
    """
    pooled = pooled_quantile(errors, group, level)
    names = np.unique(group)
    if len(names) < 2:
        return pooled
    ratio = np.empty(len(errors))
    for name in names:
        own = group == name
        ratio[own] = errors[own] / max(pooled_quantile(errors[~own], group[~own], level), 1e-9)
    return pooled * max(1.0, pooled_quantile(ratio, group, level))


def widths(errors: np.ndarray, group: np.ndarray, tier: np.ndarray, scale: np.ndarray) -> list[Width]:
    """Widths of all tiers, never falling from a better known tier to a lesser known one.

    A tier with fewer than `ENOUGH` publishers is widened by the next one: their errors are pooled. A scale gets
    widths of its own where enough publishers measured it.

    Parameters
    ----------
    errors : numpy.ndarray
        Absolute logarithmic errors of left-out rows.
    group, tier, scale : numpy.ndarray of str
        Publisher, tier and scale of each.
    """
    whole = _chain(errors, group, tier, [""] * len(CHAIN), {})
    found = [*whole, _experts(errors, group, tier, whole)]
    known = {width.tier: width for width in found}
    for at in SCALES:
        chosen = scale == at
        found += _chain(errors[chosen], group[chosen], tier[chosen], [at] * len(CHAIN), known)
        found.append(replace(known[EXPERTS], scale=at))
    return found


def _blocks(group: np.ndarray, tier: np.ndarray) -> list[list[str]]:
    """Neighbouring tiers, joined until each block has enough publishers; tiers without rows stand in none."""
    blocks: list[list[str]] = []
    for name in CHAIN:
        if not np.any(tier == name):
            continue
        if blocks and len(np.unique(group[np.isin(tier, blocks[-1])])) < ENOUGH:
            blocks[-1].append(name)
        else:
            blocks.append([name])
    if len(blocks) > 1 and len(np.unique(group[np.isin(tier, blocks[-1])])) < ENOUGH:
        last = blocks.pop()
        blocks[-1] += last
    return blocks


def _chain(
    errors: np.ndarray, group: np.ndarray, tier: np.ndarray, scales: Sequence[str], known: Mapping[str, Width]
) -> list[Width]:
    """Widths of the tiers in the order of the chain; `known` stands in where there are too few publishers."""
    own = dict[str, np.ndarray]()
    for block in _blocks(group, tier):
        chosen = np.isin(tier, block)
        if not known or len(np.unique(group[chosen])) >= ENOUGH:
            half = np.array([half_width(errors[chosen], group[chosen], level / 100) for level in LEVELS])
            own |= dict.fromkeys(block, half)
    found, reached = list[Width](), np.zeros(len(LEVELS))
    for at, (name, scale) in enumerate(zip(CHAIN, scales, strict=True)):
        later = [own[other] for other in CHAIN[at:] if other in own]
        default = np.array(known[name].half) if known else later[0] if later else reached * UNKNOWN
        few = len(np.unique(group[tier == name])) < ENOUGH
        floor = found[-1].half * np.array(FOREIGN) if name == DATASHEET and few else reached
        reached = np.maximum.accumulate(np.maximum(floor, own.get(name, default)))
        found.append(_width(name, scale, reached, group[tier == name]))
    return found


def _experts(errors: np.ndarray, group: np.ndarray, tier: np.ndarray, chain: Sequence[Width]) -> Width:
    """Width of mixtures of experts: their own, not below the best known tier; without any, the widest and more."""
    own = tier == EXPERTS
    if own.any():
        half = np.array([half_width(errors[own], group[own], level / 100) for level in LEVELS])
    else:
        half = np.array(chain[-1].half) * UNKNOWN
    few = len(np.unique(group[own])) < ENOUGH
    half = np.maximum.accumulate(np.maximum(half, chain[1 if few else 0].half))
    return _width(EXPERTS, "", half, group[own])


def _width(tier: str, scale: str, half: np.ndarray, group: np.ndarray) -> Width:
    publishers = len(np.unique(group))
    remark = "" if publishers >= ENOUGH else "few sources" if publishers else "no measurements"
    return Width(tier, scale, tuple(half.tolist()), publishers, len(group), remark)


def coverage_band(rows: int, level: float, sure: float = 0.95) -> tuple[float, float]:
    """Shares of covered rows that chance alone allows, were the rows independent (Wilson score interval).

    Parameters
    ----------
    rows : int
        Rows of the publisher.
    level : float
        Nominal coverage, 0 to 1.
    sure : float
        0.95 or 0.9.

    Examples
    --------
    >>> tuple(round(edge, 2) for edge in coverage_band(50, 0.8))
    (0.67, 0.89)
    """
    z = {0.95: 1.959964, 0.9: 1.644854}[sure]
    centre = (level + z**2 / (2 * rows)) / (1 + z**2 / rows)
    reach = z * np.sqrt(level * (1 - level) / rows + z**2 / (4 * rows**2)) / (1 + z**2 / rows)
    return float(centre - reach), float(min(centre + reach, 1.0))


FIGURES = ("rows", "publishers", "median_error", "mean_error", "mean_of_publishers", "within_10", "within_20", "bias",
           "coverage_80", "coverage_90", "publishers_covered_80",
           "publishers_covered_90", "factor_80", "factor_90", "band_low_80", "band_high_80")  # fmt: skip


def row_widths(rows: Rows, folds: LeftOut) -> dict[int, np.ndarray]:
    """Half-width of the interval of each row, from the errors of the other publishers alone.

    Parameters
    ----------
    rows : Rows
        The rows; those that need care set no width.
    folds : LeftOut
        Their predictions.
    """
    errors, group, tier = folds.error, rows.group, np.asarray(folds.tier)
    scale = np.asarray(rows.keys["scale"])
    half = {level: np.full(len(errors), np.nan) for level in LEVELS}
    known = np.isfinite(errors)
    for name in np.unique(group[known]):
        own, others = known & (group == name), known & rows.usable & (group != name)
        if not others.any():
            continue
        found = widths(np.abs(errors[others]), group[others], tier[others], scale[others])
        table = {(width.tier, width.scale): width.half for width in found}
        for at in np.flatnonzero(own):
            for level, value in zip(LEVELS, table.get((tier[at], scale[at]), table[tier[at], ""]), strict=True):
                half[level][at] = value
    return half


def figures(errors: np.ndarray, group: np.ndarray, half: Mapping[int, np.ndarray] | None = None) -> dict[str, Any]:
    """Error, bias, coverage and width of some rows.

    Parameters
    ----------
    errors : numpy.ndarray
        Logarithm of predicted over measured.
    group : numpy.ndarray of str
        Publisher of each.
    half : mapping of int to numpy.ndarray, optional
        Half-widths of the rows by level.
    """
    relative = np.abs(np.expm1(errors))
    names = np.unique(group)
    found: dict[str, Any] = {
        "rows": len(errors), "publishers": len(names), "median_error": np.median(relative),
        "mean_error": np.mean(relative), "within_10": np.mean(relative <= 0.1), "within_20": np.mean(relative <= 0.2),
        "mean_of_publishers": _of_publishers(relative, group),
        "bias": np.expm1(np.median(errors)),
    }  # fmt: skip
    if half is None:
        return found
    for level in LEVELS:
        known = np.isfinite(half[level])
        if known.any():
            covered = np.abs(errors)[known] <= half[level][known]
            found[f"coverage_{level}"] = np.mean(covered)
            found[f"publishers_covered_{level}"] = _of_publishers(covered, group[known])
            found[f"factor_{level}"] = np.exp(np.median(half[level][known]))
    found["band_low_80"], found["band_high_80"] = coverage_band(len(errors), 0.8)
    return found


def _of_publishers(values: np.ndarray, group: np.ndarray) -> float:
    """Mean over publishers of their means; one with fewer than `fit.FEW` rows weighs in proportion."""
    return float(np.average(values, weights=publisher_weights(group, np.ones(len(group), dtype=bool))))


def labels_of(rows: Rows, frame: pd.DataFrame, folds: LeftOut) -> dict[str, np.ndarray]:
    """The strata that a report shows, one label a row each.

    Parameters
    ----------
    rows : Rows
        The rows.
    frame : pandas.DataFrame
        Their table, for dates.
    folds : LeftOut
        Their predictions.
    """
    keys = rows.keys
    year = frame["date"].astype(str).str.extract(r"((?:19|20)\d\d)")[0].fillna("not stated")
    moe = np.where(np.asarray(keys["moe"], dtype=bool), "mixture of experts", "dense")
    return {
        "all": np.full(len(frame), "all"),
        "rows": np.where(rows.usable, "clear what was run", "needs care"),
        "publisher": rows.group,
        "device class": np.char.add(np.char.add(keys["vendor"].astype(str), " "), keys["family"].astype(str)),
        "tier": np.asarray(folds.tier, dtype=str),
        "scale": np.asarray(keys["scale"], dtype=str),
        "software": np.asarray(keys["engine"], dtype=str),
        "network": moe,
        "neighbours": np.where(folds.neighbours > 0, "corrected", "not corrected"),
        "year": year.to_numpy(dtype=str),
    }


def report(rows: Rows, frame: pd.DataFrame, folds: LeftOut) -> pd.DataFrame:
    """Figures of every stratum.

    Parameters
    ----------
    rows, frame, folds
        As for `labels_of`.

    Returns
    -------
    pandas.DataFrame
        Columns by, stratum and `FIGURES`.
    """
    import pandas as pd

    half = row_widths(rows, folds)
    judged = np.isfinite(folds.error)
    found = []
    for by, labels in labels_of(rows, frame, folds).items():
        known = judged & (rows.usable | (by == "rows"))
        for stratum in sorted(set(labels[known].tolist())):
            chosen = known & (labels == stratum)
            cut = {level: each[chosen] for level, each in half.items()}
            found.append({"by": by, "stratum": stratum, **figures(folds.error[chosen], rows.group[chosen], cut)})
    return pd.DataFrame(found)


FULL, NO_NEIGHBOURS, ROW = "full", "without neighbours", "row"
DIGITS = 3


def table_name(kind: str) -> str:
    """Table that holds the predictions of a kind.

    Examples
    --------
    >>> table_name("training_classic")
    'validation_classic_rows'
    """
    return f"validation_{kind.removeprefix('training_')}_rows"


def column_of(model: str) -> str:
    """Column of a model or rule.

    Examples
    --------
    >>> column_of("llm-analysis 2023")
    'llm_analysis_2023'
    """
    return model.replace(" ", "_").replace("-", "_")


def row_table(rows: Rows, frame: pd.DataFrame, judged: Mapping[str, LeftOut]) -> pd.DataFrame:
    """One row for each measurement of which it is clear what was run.

    Parameters
    ----------
    rows : Rows
        The measured rows.
    frame : pandas.DataFrame
        Their table.
    judged : mapping of str to LeftOut
        Predictions by model, publishers left out; `full` among them, and `row` where single rows were left out.

    Returns
    -------
    pandas.DataFrame
        Columns of the tables ``validation_classic_rows`` and ``validation_transformer_rows``; ratios are logarithms
        of predicted over measured outcome.
    """
    import pandas as pd

    full, half, keys = judged[FULL], row_widths(rows, judged[FULL]), rows.keys
    found: dict[str, Any] = {
        "id": frame["id"], "software_level": keys["engine"], "scale": keys["scale"], "tier": full.tier,
        "neighbours": full.neighbours, "measured": [f"{value:.6g}" for value in rows.measured],
        "unit": frame.get("unit", "s"),
    }  # fmt: skip
    found |= {f"half_{level}": _short(half[level]) for level in LEVELS}
    found |= {column_of(name): _short(folds.error) for name, folds in judged.items()}
    return pd.DataFrame(found)[rows.usable].reset_index(drop=True)


def _short(values: np.ndarray) -> list[str]:
    return ["" if np.isnan(value) else f"{value:.{DIGITS}f}" for value in values]


def schema_rows(kind: str, terms: Sequence[str], rules: Sequence[str]) -> list[dict[str, str]]:
    """Schema of the table of a kind; its columns follow the terms that the kind has.

    Parameters
    ----------
    kind : str
        "training_classic" or "training_transformer".
    terms, rules : sequence of str
        Terms that can be switched off, and rules to beat.
    """
    known = [
        ("id", f"key:{kind}", "yes", "The measured row"),
        ("software_level", "text", "yes", "Level of software that the words of the row lead to"),
        ("scale", "text", "yes", "1 device, 1 node or multi-node"),
        ("tier", "text", "yes", "How well the measurements of the other publishers cover the row"),
        ("neighbours", "integer", "yes", "Similar measurements of other publishers that corrected the prediction"),
        ("measured", "number", "yes", "Measured outcome, in unit"),
        ("unit", "text", "yes", "Unit of the outcome; s is the time of one step"),
        *((f"half_{level}", "number", "no", f"Half-width of the {level} % interval that the other publishers gave, "
           "in the logarithm") for level in LEVELS),
        (FULL, "signed", "no", "Logarithm of predicted over measured, by constants that have not seen the publisher"),
        ("without_neighbours", "signed", "no", "The same without correction by similar measurements"),
        ("without_software_levels", "signed", "no", "The same, one level of software for all, no correction"),
        *((column_of(f"without {term}"), "signed", "no", f"The same, fitted without the term {term}, no correction")
          for term in terms),
        *((column_of(rule), "signed", "no", f"What the rule to beat called {rule} says") for rule in rules),
        (ROW, "signed", "no", "By all other rows, those of its own publisher too; blank where nothing corrects"),
        ("how", "choice:derived", "yes", "derived: computed from other tables"),
        ("source", "keys:sources", "yes", "Who computed it"),
    ]  # fmt: skip
    return [
        {"column": name, "type": kind_, "unit": "", "required": required, "description": words}
        for name, kind_, required, words in known
    ]
