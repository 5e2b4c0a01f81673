"""Interval widths from the errors of held-out publishers, and the quality of predictions by stratum and by row.

An unseen publisher is one more draw: the mean square of a publisher's errors contains both the differences between its
rows and their common error. Its mean over held-out publishers, each in turn, is the variance of an interval, and
Student's t, with one degree of freedom per other publisher, gives its half-width. A level that few publishers measured
is shrunk towards all of them, in proportion; a lesser known level is never narrower. Intervals are then stretched to
their nominal coverage of the measurements, each publisher weighing one: the levels of ordinary runs by one factor, and
each special configuration by its own, so that young mixtures of experts do not widen the intervals of dense models.

References: Gelman & Hill, Data Analysis Using Regression and Multilevel/Hierarchical Models, 2007, chapter 12; Dunn,
Wasserman & Ramdas, Distribution-free prediction sets for two-layer hierarchical models, JASA 118, 2023. Intervals are
evaluated by the interval score: Gneiting & Raftery, JASA 102, 2007, section 6.2.

Below are the baselines (`REFERENCES`): predictions of the same rows by a constant utilisation, a nearest neighbour, or
a published formula. Each takes measured rows, the training rows and the rows to predict, and returns the logarithm of
predicted over measured outcome. Arithmetic, peaks and traffic are those of the kind's own formulas, so that only the
baseline differs; a percentage that a published formula leaves to its user is the median of the training rows.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
import pandas as pd

from cookbook.calibration.fit import LeftOut, Rows, publisher_weights
from cookbook.evidence import ENOUGH, FULL, ROW, figures, pooled_quantile, publisher_means, student_t
from cookbook.prediction.constants import DATASHEET, LEVELS, MANY_ASSUMED, NEW_ENGINE, SEEN, SIBLING, TIERS
from cookbook.prediction.parsing.tables import measurements_of
from cookbook.workloads import zoo

# Weight, in publishers, of all others together where a level has few publishers of its own.
SHRINKAGE = 3.0
# Larger errors mean that a row was misread, and widen an interval no more than this.
LARGEST_ERROR = 0.6
ORDERED_LEVELS = (SEEN, SIBLING, NEW_ENGINE, DATASHEET)
SPECIAL_LEVELS = tuple(name for name in TIERS if name not in ORDERED_LEVELS)


@dataclass(frozen=True)
class Width:
    """Interval of one evidence level.

    `tier`, `several`: the level, and True if several fields are assumed; `half`: half-width in the logarithm for each
    of `LEVELS`; `publishers`, `rows`: what it rests on; `remark`: "few sources" or "no measurements" where it does not
    rest on enough.
    """

    tier: str
    several: bool
    half: tuple[float, ...]
    publishers: int
    rows: int
    remark: str = ""


def _shrunk(values: np.ndarray, group: np.ndarray, rest: float) -> tuple[float, float]:
    """Return the mean over publishers, shrunk towards `rest`, and the effective number of publishers."""
    if not len(values):
        return rest, SHRINKAGE
    means, weights = publisher_means(values, group)
    publishers = float(weights.sum()) + SHRINKAGE
    return (float(weights @ means) + SHRINKAGE * rest) / publishers, publishers


def half_width(errors: np.ndarray, group: np.ndarray, level: float) -> float:
    """Return the half-width that covers a held-out group at a level, whatever the tails of the errors.

    `errors`: logarithmic errors; `group`: publisher, or another group that is held out, of each; `level`: share to
    cover, 0 to 1.
    """
    means, weights = publisher_means(np.minimum(np.abs(errors), LARGEST_ERROR) ** 2, group)
    spread = float(np.average(means, weights=weights)) ** 0.5
    return max(student_t(level, max(float(weights.sum()) - 1, 2.0)) * spread, pooled_quantile(errors, group, level))


def widths(errors: np.ndarray, group: np.ndarray, tier: np.ndarray, several: np.ndarray) -> list[Width]:
    """Return the widths of all levels, never falling from a better known level to a lesser known one.

    `errors`: logarithmic errors of held-out rows; `group`, `tier`: publisher and tier of each; `several`: whether it
    leaves several fields to be assumed, which widens every level alike.
    """
    squares = np.minimum(np.abs(errors), LARGEST_ERROR) ** 2
    means, weights = publisher_means(squares, group)
    whole = float(np.average(means, weights=weights))
    variances = {name: _shrunk(squares[tier == name], group[tier == name], whole) for name in TIERS}
    variances |= dict(zip(ORDERED_LEVELS, _isotonic([variances[name] for name in ORDERED_LEVELS]), strict=True))
    for name in SPECIAL_LEVELS:
        # Special configurations are no more certain than the rest: shrinking may only widen them.
        own = publisher_means(squares[tier == name], group[tier == name])[0]
        variances[name] = (
            max(variances[name][0], variances[SEEN][0], float(np.mean(own)) if len(own) else 0.0),
            variances[name][1],
        )
    shares = squares / np.array([variances[name][0] for name in tier])
    (few, _), (more, _) = _isotonic(
        [_shrunk(shares[several == flag], group[several == flag], 1.0) for flag in (False, True)]
    )
    wider = (1.0, more / few)
    half, reached = dict[tuple[str, bool], np.ndarray](), np.zeros(len(LEVELS))
    for name, (variance, publisher_weight) in variances.items():
        half_widths = np.array([student_t(level / 100, publisher_weight - 1) * variance**0.5 for level in LEVELS])
        if name in ORDERED_LEVELS or not np.any(tier == name):
            # Fewer publishers make the factor of Student's t larger too.
            half_widths = reached = np.maximum(half_widths, reached)
        half |= {
            (name, assumes_several): half_widths * wider[assumes_several] ** 0.5 for assumes_several in (False, True)
        }
    row_half = np.array([half[pair] for pair in zip(tier.tolist(), several.tolist(), strict=True)])
    stretch = _stretch_factors(errors[:, None] / row_half, group, tier)
    results = []
    for (name, assumes_several), reach in half.items():
        publishers = len(np.unique(group[tier == name]))
        remark = "" if publishers >= ENOUGH else "few sources" if publishers else "no measurements"
        reach = np.maximum(reach * stretch[name], half[SEEN, assumes_several] * stretch[SEEN])
        results.append(
            Width(
                name,
                assumes_several,
                tuple(np.maximum.accumulate(reach).tolist()),
                publishers,
                int(np.sum(tier == name)),
                remark,
            )
        )
    return results


def _stretch_factors(scaled: np.ndarray, group: np.ndarray, tier: np.ndarray) -> dict[str, np.ndarray]:
    """Return factors for each of `LEVELS`, by evidence level, after which intervals reach their nominal coverage.

    `scaled`: errors over half-widths, one column per level. The levels of `ORDERED_LEVELS` share one factor, so that
    their order is kept; each of the others has its own, shrunk towards that of all rows where its publishers are few.
    """

    def reached(chosen: np.ndarray) -> np.ndarray:
        return np.array(
            [pooled_quantile(scaled[chosen, at], group[chosen], level / 100) for at, level in enumerate(LEVELS)]
        )

    whole, factors = reached(np.full(len(group), True)), dict[str, np.ndarray]()
    for names in (ORDERED_LEVELS, *((name,) for name in SPECIAL_LEVELS)):
        chosen = np.isin(tier, names)
        weight = float(publisher_means(scaled[chosen, 0], group[chosen])[1].sum()) if chosen.any() else 0.0
        own = np.log(reached(chosen)) if chosen.any() else np.log(whole)
        factor = np.exp((weight * own + SHRINKAGE * np.log(whole)) / (weight + SHRINKAGE))
        factors |= dict.fromkeys(names, factor if len(np.unique(group)) >= ENOUGH else np.maximum(factor, 1))
    return factors


def _isotonic(levels: Sequence[tuple[float, float]]) -> list[tuple[float, float]]:
    """Return the means with falling neighbours pooled: the closest that never fall, by weight (isotonic regression)."""
    blocks: list[list[Any]] = []
    for mean, weight in levels:
        blocks.append([mean, weight, 1])
        while len(blocks) > 1 and blocks[-2][0] > blocks[-1][0]:
            late, early = blocks.pop(), blocks.pop()
            weight = early[1] + late[1]
            blocks.append([(early[0] * early[1] + late[0] * late[1]) / weight, weight, early[2] + late[2]])
    means = [mean for mean, _, count in blocks for _ in range(count)]
    return [(mean, weight) for mean, (_, weight) in zip(means, levels, strict=True)]


def row_widths(rows: Rows, folds: LeftOut, inner: Mapping[str, LeftOut] | None = None) -> dict[int, np.ndarray]:
    """Return the half-width of the interval of each row, from the errors of the other publishers alone.

    `rows`: the rows; those that need care set no width; `folds`: their predictions; `inner`: by publisher, those of the
    others by fits that have not seen it, see `fit.left_out_twice`; `folds` for one that is not there.
    """
    group, several = rows.group, several_assumed(rows)
    half = {level: np.full(len(group), np.nan) for level in LEVELS}
    predicted = np.isfinite(folds.error)
    for name in np.unique(group[predicted]):
        rest = (inner or {}).get(name, folds)
        own, others = predicted & (group == name), np.isfinite(rest.error) & rows.usable & (group != name)
        if not others.any():
            continue
        tier = np.asarray(rest.tier)
        for width in widths(rest.error[others], group[others], tier[others], several[others]):
            at = own & (np.asarray(folds.tier) == width.tier) & (several == width.several)
            for level, value in zip(LEVELS, width.half, strict=True):
                half[level][at] = value
    return half


def several_assumed(rows: Rows) -> np.ndarray:
    """Return True for rows of which several fields are assumed."""
    return np.broadcast_to(rows.scenarios.assumed_count() >= MANY_ASSUMED, len(rows.measured))


def labels_of(rows: Rows, frame: pd.DataFrame, folds: LeftOut) -> dict[str, np.ndarray]:
    """Return the strata of a report, one label per row each.

    `rows`: the rows; `frame`: their table, for dates; `folds`: their predictions.
    """
    keys = rows.keys
    year = frame["date"].astype(str).str.extract(r"((?:19|20)\d\d)")[0].fillna("not stated")
    special = keys["special"].astype(str)
    return {
        "all": np.full(len(frame), "all"),
        "rows": np.where(rows.usable, "clear what was run", "needs care"),
        "publisher": rows.group,
        "device class": np.char.add(np.char.add(keys["vendor"].astype(str), " "), keys["family"].astype(str)),
        "tier": np.asarray(folds.tier, dtype=str),
        "scale": np.asarray(keys["scale"], dtype=str),
        "software": np.asarray(keys["engine"], dtype=str),
        "network": np.where(special == "", "dense, all weights", special),
        "neighbours": np.where(folds.neighbours > 0, "corrected", "not corrected"),
        "year": year.to_numpy(dtype=str),
        **({"asked for": rows.module.strata(rows.scenarios)} if hasattr(rows.module, "strata") else {}),
    }


def report(rows: Rows, frame: pd.DataFrame, folds: LeftOut, inner: Mapping[str, LeftOut] | None = None) -> pd.DataFrame:
    """Return the error statistics of every stratum.

    `rows`, `frame`, `folds`: as for `labels_of`; `inner`: as for `row_widths`; where it is given, the stratum `once`
    has what widths from `folds` would hold. Gives columns by, stratum and `FIGURES`.
    """
    half = row_widths(rows, folds, inner)
    judged = np.isfinite(folds.error)
    lines = []
    if inner:
        fitted, once = judged & rows.usable, row_widths(rows, folds)
        cut = {level: width[fitted] for level, width in once.items()}
        lines.append({"by": "widths", "stratum": "once", **figures(folds.error[fitted], rows.group[fitted], cut)})
    for by, labels in labels_of(rows, frame, folds).items():
        fitted = judged & (rows.usable | (by == "rows"))
        for stratum in sorted(set(labels[fitted].tolist())):
            chosen = fitted & (labels == stratum)
            cut = {level: width[chosen] for level, width in half.items()}
            lines.append({"by": by, "stratum": stratum, **figures(folds.error[chosen], rows.group[chosen], cut)})
    return pd.DataFrame(lines)


DIGITS = 3


def column_of(model: str) -> str:
    """Return the column of a model or baseline.

    >>> column_of("llm-analysis 2023")
    'llm_analysis_2023'
    """
    return model.replace(" ", "_").replace("-", "_")


def row_table(
    rows: Rows, frame: pd.DataFrame, judged: Mapping[str, LeftOut], inner: Mapping[str, LeftOut] | None = None
) -> pd.DataFrame:
    """Return one row for each measurement whose configuration is clear.

    `rows`: the measured rows; `frame`: their table; `judged`: predictions by model, publishers held out; `full` among
    them, and `row` where single rows were held out; `inner`: as for `row_widths`. Gives columns of the tables
    ``validation_classic_rows`` and ``validation_transformer_rows``; ratios are logarithms of predicted over measured
    outcome.
    """
    full, half, keys = judged[FULL], row_widths(rows, judged[FULL], inner), rows.keys
    columns: dict[str, Any] = {
        "id": frame["id"],
        "software_level": keys["engine"],
        "scale": keys["scale"],
        "tier": full.tier,
        "neighbours": full.neighbours,
        "measured": [f"{value:.6g}" for value in rows.measured],
        "unit": frame.get("unit", "s"),
    }
    columns |= {f"half_{level}": _short(half[level]) for level in LEVELS}
    columns |= {column_of(name): _short(folds.error) for name, folds in judged.items()}
    return pd.DataFrame(columns)[rows.usable].reset_index(drop=True)


def _short(values: np.ndarray) -> list[str]:
    return ["" if np.isnan(value) else f"{value:.{DIGITS}f}" for value in values]


def schema_rows(kind: str, terms: Sequence[str], rules: Sequence[str]) -> list[dict[str, str]]:
    """Return the schema of the table of a kind; its columns follow the terms of the kind.

    `kind`: "training_classic" or "training_transformer"; `terms`, `rules`: terms that can be switched off, and
    baselines.
    """
    columns = [
        ("id", f"key:{measurements_of(kind)}", "yes", "The measured row"),
        ("software_level", "text", "yes", "Level of software with whose runs the row counts as measured"),
        ("scale", "text", "yes", "1 device, 1 node or multi-node"),
        ("tier", "text", "yes", "How well the measurements of the other publishers cover the row"),
        ("neighbours", "integer", "yes", "Similar measurements of other publishers that corrected the prediction"),
        ("measured", "number", "yes", "Measured outcome, in unit"),
        ("unit", "text", "yes", "Unit of the outcome; s is the time of one step"),
        *(
            (
                f"half_{level}",
                "number",
                "no",
                f"Half-width of the {level} % interval, in the logarithm: by errors of "
                "the other publishers from fits that have not seen the one judged",
            )
            for level in LEVELS
        ),
        (FULL, "signed", "no", "Logarithm of predicted over measured, by constants that have not seen the publisher"),
        ("without_neighbours", "signed", "no", "The same without correction by similar measurements"),
        *(
            (column_of(f"without {term}"), "signed", "no", f"The same, fitted without the term {term}, no correction")
            for term in terms
        ),
        *((column_of(rule), "signed", "no", f"What the rule to beat called {rule} says") for rule in rules),
        (ROW, "signed", "no", "By all other rows, those of its own publisher too; blank where nothing corrects"),
        ("how", "choice:derived", "yes", "derived: computed from other tables"),
        ("source", "keys:sources", "yes", "Who computed it"),
    ]
    return [
        {"column": name, "type": kind_, "unit": "", "required": required, "description": words}
        for name, kind_, required, words in columns
    ]


DOUBLINGS = {"engine": 3.0, "accelerator": 2.0, "workload": 2.0}


def _log_error(rows: Rows, seconds: np.ndarray) -> np.ndarray:
    with np.errstate(all="ignore"):
        error = np.log(rows.module.outcome(rows.scenarios, seconds) / rows.measured)
    return np.where(rows.judged & np.isfinite(error), error, np.nan)


def measured_seconds(rows: Rows) -> np.ndarray:
    """Return the measured time of a step, whether the outcome is a time or a rate; NaN where there is no answer."""
    one, two = (
        np.asarray(rows.module.outcome(rows.scenarios, np.full(len(rows.measured), seconds)), dtype=float)
        for seconds in (1.0, 2.0)
    )
    with np.errstate(all="ignore"):
        seconds = np.where(two > one, rows.measured / one, one / rows.measured)
    return np.where(seconds > 0, seconds, np.nan)


def _median_share(rows: Rows, share: np.ndarray, train: np.ndarray, out: np.ndarray, by: Sequence[str]) -> np.ndarray:
    """Return the median of a share over the training rows: of the same label where there is one, else of all."""
    usable = train & np.isfinite(share) & (share > 0)
    medians = np.full(len(share), _median(share[usable], publisher_weights(rows.group, usable)[usable]))
    for key in by:
        labels = np.asarray(rows.keys[key])
        for name in set(labels[out].tolist()):
            in_stratum = usable & (labels == name)
            if in_stratum.any():
                medians[out & (labels == name)] = _median(
                    share[in_stratum], publisher_weights(rows.group, in_stratum)[in_stratum]
                )
    return medians


def _median(values: np.ndarray, weights: np.ndarray) -> float:
    if not len(values):
        return np.nan
    order = np.argsort(values, kind="stable")
    reached = np.cumsum(weights[order])
    return float(values[order][np.searchsorted(reached, reached[-1] / 2)])


def constant_utilisation(rows: Rows, train: np.ndarray, out: np.ndarray) -> np.ndarray:
    """Predict by one share of the peak per device; an unmeasured one takes that of its vendor, else of all."""
    ideal = budget(rows).arithmetic
    share = ideal / measured_seconds(rows)
    return _log_error(rows, ideal / _median_share(rows, share, train, out, ("vendor", "accelerator")))


def scaled_neighbour(rows: Rows, train: np.ndarray, out: np.ndarray) -> np.ndarray:
    """Predict by the most similar measured row, with its utilisation.

    Distances are doublings of arithmetic, of devices and of the peak; another software level, device or network counts
    by `DOUBLINGS`.
    """
    totals, measured = budget(rows), measured_seconds(rows)
    candidates = np.flatnonzero(train & np.isfinite(totals.arithmetic / measured))
    with np.errstate(all="ignore"):
        places = np.nan_to_num(np.log2(np.column_stack([totals.arithmetic, totals.devices, totals.peak])))
    labels = [(np.asarray(rows.keys[key]), cost) for key, cost in DOUBLINGS.items() if key in rows.keys]
    seconds = np.full(len(measured), np.nan)
    for at in np.flatnonzero(out & np.isfinite(totals.arithmetic)):
        distance = np.abs(places[candidates] - places[at]).sum(1)
        for label, cost in labels:
            distance += cost * (label[candidates] != label[at])
        if len(candidates):
            nearest = candidates[np.argmin(distance)]
            seconds[at] = totals.arithmetic[at] / totals.arithmetic[nearest] * measured[nearest]
    return _log_error(rows, seconds)


def paleo_2017(rows: Rows, train: np.ndarray, out: np.ndarray) -> np.ndarray:
    """Predict as Qi, Sparks & Talwalkar, Paleo, ICLR 2017: arithmetic and traffic at one percentage of peak.

    The percentage belongs to the platform, that is the software, and is the same on every device; gradients are
    communicated without overlap.
    """
    totals = budget(rows)
    ideal = totals.arithmetic + totals.traffic
    with np.errstate(divide="ignore"):
        share = ideal / np.maximum(measured_seconds(rows) - totals.exchange, 0)
    return _log_error(rows, ideal / _median_share(rows, share, train, out, ("engine",)) + totals.exchange)


def llm_analysis_2023(rows: Rows, train: np.ndarray, out: np.ndarray) -> np.ndarray:
    """Predict as Li, llm-analysis, 2023: the larger of arithmetic at one efficiency and traffic at peak; no bubble."""
    totals = budget(rows)
    share = totals.arithmetic / measured_seconds(rows)
    efficiency = np.minimum(_median_share(rows, share, train, out, ()), 1)
    return _log_error(rows, np.fmax(totals.arithmetic / efficiency, totals.traffic))


def hpe_2017(rows: Rows, train: np.ndarray, out: np.ndarray) -> np.ndarray:
    """Predict as the Deep Learning Cookbook of 2017 did: c/(p gamma) + 2 w log2(p)/beta, nothing overlapping."""
    totals = budget(rows)
    exchange = totals.exchange_per_level * 2 * np.log2(np.maximum(totals.devices, 1))
    with np.errstate(divide="ignore"):
        share = totals.arithmetic / np.maximum(measured_seconds(rows) - exchange, 0)
    return _log_error(rows, totals.arithmetic / _median_share(rows, share, train, out, ("vendor",)) + exchange)


Rule = Callable[[Rows, np.ndarray, np.ndarray], np.ndarray]
REFERENCES: Mapping[str, Rule] = {
    "constant utilisation": constant_utilisation,
    "scaled neighbour": scaled_neighbour,
    "paleo 2017": paleo_2017,
    "llm-analysis 2023": llm_analysis_2023,
    "hpe 2017": hpe_2017,
}


@dataclass(frozen=True, eq=False)
class Budget:
    """Totals of a step on one device, in seconds at peak.

    `arithmetic`: matrix arithmetic, recomputation included, at the peak of its number format [s]; `traffic`: weights
    and activations moved once a pass, at the memory's bandwidth [s]; `exchange`: ring all-reduce of the gradients at
    the nominal rate of the slowest link [s]; `exchange_per_level`: one transfer of all gradients over that link [s];
    `devices`, `peak`: devices [-], and the peak of one [FLOP/s].
    """

    arithmetic: np.ndarray
    traffic: np.ndarray
    exchange: np.ndarray
    exchange_per_level: np.ndarray
    devices: np.ndarray
    peak: np.ndarray


def budget(rows: Rows) -> Budget:
    """Return the totals of each row.

    `rows`: the rows.
    """
    with np.errstate(all="ignore"):
        if hasattr(rows.module, "seconds_at_peak"):
            none, (arithmetic, traffic) = np.zeros(len(rows.measured)), rows.module.seconds_at_peak(rows.scenarios)
            return Budget(arithmetic, traffic, none, none, rows.scenarios.devices, rows.scenarios.peak)
        totals = _of_networks if rows.scenarios.networks else _of_transformers
        return totals(rows.scenarios)


def _of_networks(s: Any) -> Budget:
    """Return the totals of networks of the zoo; a backward pass costs two forward ones, inference has none."""
    totals = np.array([_totals(*network) for network in s.networks] + [(np.nan,) * 3])
    macs, traffic, parameters = totals[s.network_index].T
    once = "is_delay" in s.values
    passes = 1.0 if once else 3.0 * s.accumulation
    samples = s.batch * passes
    slowest = np.inf if once else np.where(s.nodes > 1, s.values["network"], s.link)
    level = np.where(s.devices > 1, parameters * s.element_bytes / slowest, 0)
    return Budget(
        arithmetic=2 * macs * samples / s.peak,
        traffic=(traffic * samples + parameters * passes) * s.element_bytes / s.mem_bandwidth,
        exchange=2 * (s.devices - 1) / s.devices * level,
        exchange_per_level=level,
        devices=s.devices,
        peak=s.peak,
    )


@lru_cache(maxsize=1024)
def _totals(name: str, arguments: str, seq: float | None) -> tuple[float, float, float]:
    ops = zoo.model(name, **json.loads(arguments or "{}")).ops
    macs, reads, writes = (float(ops.total(column, 1, seq)) for column in ("macs", "reads", "writes"))
    return macs, reads + writes, ops.parameter_count


def _of_transformers(s: Any) -> Budget:
    """Return totals of six FLOP per weight and token, plus causal attention; a third more where layers are recomputed.

    Activations are 34 bytes per element and layer: Korthikanti et al., arXiv:2205.05198, 2022, section 4.1.
    """
    tokens = s.global_batch * s.seq
    head = s.vocab * s.hidden
    latent = s.latent_attention == 1
    attended = np.where(latent, s.heads * (s.nope_dim + s.rope_dim + s.v_dim) / 2, s.heads * s.head_dim)
    layer = s.hidden * (2 * s.heads + 2 * s.kv_heads) * np.where(latent, s.hidden / s.heads, s.head_dim)
    experts = s.experts_per_token + s.shared_experts
    dense = (2 + s.gated_mlp) * s.hidden * np.where(s.moe == 1, s.moe_ffn_hidden * experts, s.ffn_hidden)
    blocks = 6 * s.layers * (layer + dense + s.seq * attended)
    flop = blocks * (1 + s.recomputed_all / 3) + 6 * head
    local = (s.layers * (layer + dense) + head) / (s.tp * s.pp)
    micro = s.micro_batches
    activations = 34 * s.micro_batch * s.seq * s.hidden * s.layers / (s.tp * s.pp * s.cp)
    slowest = np.where(s.devices > s.domain, s.values["network"], s.link)
    level = np.where(s.dp > 1, 2 * local / slowest, 0)
    return Budget(
        arithmetic=flop * tokens / (s.devices * s.peak),
        traffic=micro * 3 * (2 * local + activations) / s.mem_bandwidth,
        exchange=2 * (s.dp - 1) / s.dp * level,
        exchange_per_level=level,
        devices=s.devices,
        peak=s.peak,
    )
