"""Scenes, frames, tables and sources of the panel "Will my GPUs starve?", all from records of `cb.match_storage`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import Any

import numpy as np
import pandas as pd

from cookbook import catalog
from cookbook.charts.rows import nice_ceiling, row_order
from cookbook.charts.storage import TIMES
from cookbook.panels import match_words as words
from cookbook.panels.shell import Part, Picture
from cookbook.planning.changes import rank_changes
from cookbook.prediction.match import StorageMatch, match_storage
from cookbook.prediction.terms import feed_arguments as engine
from cookbook.prediction.terms.feed import Change
from cookbook.units import human

SCENE = ("data", "model", "system", "accelerators", "storage", "memory", "batch", "layout", "workers", "cores", "hosts",
         "drives", "network", "price", "epochs", "checkpoints", "asynchronous")  # fmt: skip
SHOWN = ("storage", "network", "reading", "decoding", "copying", "accelerators")
LABELS = {"storage": "storage", "network": "network", "reading": "storage and cache", "decoding": "decoding",
          "copying": "copying to devices", "accelerators": "accelerators"}  # fmt: skip
# Rates beyond so many times the demand are cut: what is plenty need not be told apart.
_BEYOND, _POINTS = 2.0, 33
MINUTE = 60
CLOCK = ((86400.0, "d"), (3600.0, "h"), (60.0, "min"), (1.0, "s"))


@dataclass(frozen=True, eq=False)
class Scene:
    """One state of the controls and what `cb.match_storage` says of it; never change it.

    Attributes
    ----------
    names : tuple
        Workload, system, storage and data as `cb.match_storage` takes them.
    given : mapping
        Its other arguments.
    """

    names: tuple[Any, Any, Any, Any]
    given: Mapping[str, Any]
    found: StorageMatch
    need: Mapping[str, Any]

    @property
    def count(self) -> int:
        """Accelerators."""
        return int(self.given["accelerators"])

    def over(self, **changed: Any) -> StorageMatch:
        """The same with arrays in place of some numbers, from the step that is known."""
        return _matched(self.names, {**self.given, **changed}, self.need)

    @cached_property
    def ranked(self) -> list[tuple[Change, Any]]:
        """Changes, best first, each with its row of `cb.planning.rank_changes`."""
        return [(self.found.changes[row.Index], row) for row in rank_changes(self.found).itertuples()]

    @cached_property
    def scaled(self) -> tuple[np.ndarray, StorageMatch]:
        """Numbers of accelerators, and what holds for each on the same hosts and storage."""
        low, high = float(self.given["hosts"]), 4.0 * max(self.count, 8)
        most = self.found.largest_accelerators
        high = max(high, min(2 * most, 4096.0)) if np.isfinite(most) else high
        counts = np.unique(np.append(np.round(np.geomspace(low, 2 ** np.ceil(np.log2(high)), _POINTS)), self.count))
        return counts, self.over(accelerators=counts)


@lru_cache(maxsize=64)
def scene(*values: Any) -> Scene:
    """The scene of the controls, in the order of `SCENE`.

    Raises
    ------
    ValueError
        A choice that cannot be, in words.
    """
    v = dict(zip(SCENE, values, strict=True))
    benchmark = words.is_benchmark(v["model"])
    if v["hosts"] > v["accelerators"]:
        raise ValueError(f"hosts = {v['hosts']:,} is more than {v['accelerators']:,} accelerators; give at most that")
    if v["data"] == words.OWN_DATA and not benchmark:
        raise ValueError("data = benchmark goes with a network of MLPerf Storage; choose a card, or such a network")
    tier = {"storage": v["storage"], "drives": v["drives"]} | ({"price_usd_per_tb": v["price"]} if v["price"] else {})
    names = (v["model"], v["system"], tier if len(tier) > 2 or v["drives"] > 1 else v["storage"], _data(v))
    given: dict[str, Any] = {} if benchmark else {"batch": v["batch"]}
    given |= {"accelerators": v["accelerators"], "hosts": v["hosts"], "workers": v["workers"], "cores": v["cores"],
              "memory": f"{v['memory']} GB", "epochs": v["epochs"]}  # fmt: skip
    if not local(v["storage"]):
        given["network"] = f"{v['network']} Gb/s"
    if v["checkpoints"] and (benchmark or not isinstance(v["model"], str)):
        raise ValueError(f"checkpoints = {v['checkpoints']} needs a network of the zoo, whose parameters give the size "
                         "of a checkpoint; set it to 0, or choose such a network")  # fmt: skip
    if v["checkpoints"]:
        given |= {"checkpoint_interval": v["checkpoints"] * MINUTE, "asynchronous": int(v["asynchronous"] == "yes")}
    engine.check_pair(v["model"], names[3])
    images = 1 if names[3] is None else engine.data_set(names[3])["images"]
    need = _need(v["model"], engine.server(v["system"])["accelerator"], given.get("batch", 1) * images)
    return Scene(names, given, _matched(names, given, need), need)


def _matched(names: tuple[Any, ...], given: Mapping[str, Any], need: Mapping[str, Any]) -> StorageMatch:
    """What `cb.match_storage` gives; a step that is known is not predicted again."""
    if words.is_benchmark(names[0]):
        return match_storage(*names, **given)
    saved = {}
    if "checkpoint_interval" in given:
        saved = {"checkpoint_bytes": engine.checkpoint_bytes(need["parameters"], "")}
    return match_storage(need.get("predicted", need["step"]), *names[1:], **{**saved, **given})


def _data(v: Mapping[str, Any]) -> Any:
    if v["data"] == words.OWN_DATA:
        return None
    packed = v["layout"] != "as is" and isinstance(v["data"], str)
    return {"card": v["data"], "layout": v["layout"]} if packed else v["data"]


@lru_cache(maxsize=64)
def _need(model: Any, device: Any, batch: float) -> Mapping[str, Any]:
    return engine.demand(model, device, batch, "", "")


@lru_cache(maxsize=256)
def local(storage: str) -> bool:
    """Whether a row of the table ``storage`` stands in the hosts."""
    return bool(engine.tier(storage)["local"])


def chain_picture(scene: Scene, ghost: Scene | None) -> Picture:
    """What each stage could deliver."""
    found, demand = scene.found, scene.found.stages["accelerators"]
    before = ghost.found.stages if ghost else {}
    rates = [found.stages[name] for name in SHOWN]
    frame = pd.DataFrame({
        "row": [LABELS[name] for name in SHOWN], "rate": [_finite(rate) for rate in rates],
        "state": [words.state(scene, name) for name in SHOWN],
        "before": [_finite(before.get(name)) for name in SHOWN],
        "text": [words.stage_text(name, rate, demand) for name, rate in zip(SHOWN, rates, strict=True)],
    })  # fmt: skip
    return Picture("chain", frame, words.chain_title(scene), _rate_signals(frame, demand))


def _finite(value: Any) -> float | None:
    return None if value is None or not np.isfinite(value) else float(value)


def _rate_signals(frame: pd.DataFrame, demand: float) -> dict[str, Any]:
    return {"rows": row_order(frame), "most": nice_ceiling(_BEYOND * 0.6 * demand), "demand": demand}


def changes_picture(scene: Scene) -> Picture:
    """What each change alone would give."""
    found = scene.found
    lines = [("as it is", found.samples_per_s, "as it is", f"{words.rate(found.samples_per_s)}/s")]
    lines += [(words.short(c.name), c.samples_per_s, words.priced(c), words.gain_text(scene, c))
              for c, _ in scene.ranked]  # fmt: skip
    frame = pd.DataFrame(lines, columns=["row", "rate", "state", "text"])
    return Picture("changes", frame, words.changes_title(scene), _rate_signals(frame, found.stages["accelerators"]))


def scaling_picture(scene: Scene, ghost: Scene | None) -> Picture:
    """Utilisation over the number of accelerators."""
    counts, found = scene.scaled
    lines = [(counts, found.utilisation, "later epochs"), (counts, found.first_utilisation, "first epoch")]
    if ghost:
        lines.append((ghost.scaled[0], ghost.scaled[1].utilisation, "pinned"))
    frame = pd.concat([
        pd.DataFrame({"count": at, "utilisation": 100 * np.round(share, 4), "line": name}) for at, share, name in lines
    ])  # fmt: skip
    signals = {"most": float(counts.max()), "now": float(scene.count), "here": 100 * scene.found.utilisation,
               "bar": 100 * scene.found.bar}  # fmt: skip
    return Picture("scaling", frame[frame["count"] <= counts.max()], words.scaling_title(scene), signals)


def epochs_picture(scene: Scene) -> Picture:
    """Time of the first and of a later epoch."""
    lines, longest = [], 0.0
    for name, seconds, used in _epochs(scene):
        at = 0.0
        for part, share in zip(TIMES, _shares(scene, used), strict=True):
            text = words.epoch_text(seconds, used) if part == "computing" else None
            lines.append((name, part, at, at + share * seconds, text))
            at += share * seconds
        longest = max(longest, at)
    frame = pd.DataFrame(lines, columns=["row", "part", "start", "end", "text"])
    unit, clock = next(pair for pair in CLOCK if longest >= pair[0] or pair[0] == 1)
    signals = {"rows": row_order(frame), "most": unit * nice_ceiling(longest / unit), "unit": unit, "clock": clock}
    return Picture("epochs", frame, words.epochs_title(scene), signals)


def _epochs(scene: Scene) -> list[tuple[str, float, float]]:
    found = scene.found
    return [("first epoch", found.first_epoch_seconds, found.first_utilisation),
            ("each later epoch", found.later_epoch_seconds, found.utilisation)]  # fmt: skip


def _shares(scene: Scene, used: float) -> tuple[float, float, float]:
    """Computing, waiting for input, writing checkpoints: parts of an hour."""
    stall = scene.found.checkpoint_stall
    return used * (1 - stall), (1 - used) * (1 - stall), stall


def parts(scene: Scene) -> tuple[Part, ...]:
    """Place 4: an hour of the accelerators."""
    shares, hour = _shares(scene, scene.found.utilisation), scene.found.usd_per_hour
    return tuple(
        Part(name, share, words.share_of(share, hour), TIMES[name], words.PART_WORDS[name])
        for name, share in zip(TIMES, shares, strict=True)
    )


def stage_table(scene: Scene) -> pd.DataFrame:
    """Stages as printed text."""
    found, demand = scene.found, scene.found.stages["accelerators"]
    return pd.DataFrame({
        "Stage": [LABELS[name] for name in SHOWN],
        "Samples a second": [words.rate(found.stages[name]) for name in SHOWN],
        "Times the demand": [words.times(found.stages[name] / demand) for name in SHOWN],
        "One sample (accelerators: one step)": [human(found.latency[name], "s") for name in SHOWN],
        "How": [words.STAGE_WORDS[name] for name in SHOWN],
    })  # fmt: skip


def change_table(scene: Scene) -> pd.DataFrame:
    """What to change first, as printed text."""
    every = [change for change, _ in scene.ranked]
    rows = [row for _, row in scene.ranked]
    return pd.DataFrame({
        "No.": [str(i) for i in range(1, len(every) + 1)], "Change": [c.name for c in every],
        "Samples a second": [words.rate(c.samples_per_s) for c in every],
        "Gain": [f"+{words.rate(c.gain)}" for c in every], "Utilisation": [f"{c.utilisation:.0%}" for c in every],
        "Cost [USD]": [words.cost(c) for c in every], "Cost [USD/h]": [words.hourly(row.usd_per_hour) for row in rows],
        "Gain for each USD/h [1/s]": [words.worth(row.gain_per_usd) for row in rows],
        "Saves [USD/h]": [words.money(row.saved_per_hour) for row in rows],
        "Pays after": [words.after(row) for row in rows], "Price rests on": [c.basis for c in every],
    })  # fmt: skip


def scaling_table(scene: Scene) -> pd.DataFrame:
    """Powers of two of the picture, as printed text."""
    counts = [2**power for power in range(13) if scene.given["hosts"] <= 2**power <= scene.scaled[0].max()]
    found = scene.over(accelerators=np.array(counts, dtype=float))
    return pd.DataFrame({
        "Accelerators": [f"{count:,}" for count in counts], "Samples a second": [words.rate(r) for r in
                                                                                found.samples_per_s],
        "Utilisation": [f"{share:.0%}" for share in found.utilisation],
        "First epoch": [f"{share:.0%}" for share in found.first_utilisation],
        "Slowest stage": [str(name) for name in found.bottleneck],
        "Waiting [USD/h]": [words.money(usd) for usd in found.idle_usd_per_hour],
    })  # fmt: skip


def epoch_table(scene: Scene) -> pd.DataFrame:
    """Epochs as printed text."""
    found = scene.found
    rows = [(name, human(seconds, "s"), f"{used:.0%}") for name, seconds, used in _epochs(scene)]
    rows += [("to the first batch", human(found.warm_up_seconds, "s"), ""),
             ("all epochs", human(found.total_seconds, "s"), "")]  # fmt: skip
    return pd.DataFrame(rows, columns=["What", "Time", "Utilisation"])


def data(scene: Scene) -> pd.DataFrame:
    """The picture of the chain and the changes as plain numbers: SI units."""
    found = scene.found
    rows = [("stage", name, found.stages[name], np.nan, np.nan, np.nan) for name in SHOWN]
    rows += [("whole", "later epochs", found.samples_per_s, np.nan, found.utilisation, np.nan),
             ("whole", "first epoch", found.first_samples_per_s, np.nan, found.first_utilisation, np.nan)]  # fmt: skip
    rows += [("change", c.name, c.samples_per_s, c.gain, c.utilisation, c.usd) for c in found.changes]
    return pd.DataFrame(rows, columns=["kind", "name", "samples_per_s", "gain", "utilisation", "usd"])


def source_rows(scene: Scene) -> tuple[tuple[str, str, str], ...]:
    """(title, link, what for) of the sources of the data set, the storage, the demand and the prices."""
    model, system, tier, card = scene.names
    key = tier["storage"] if isinstance(tier, Mapping) else tier
    wanted = [("storage", "key", key, "storage"), ("accelerators", "key", system, "accelerator")]
    card = card["card"] if isinstance(card, Mapping) else card
    wanted += [("data_sets", "key", card, "data set")] if isinstance(card, str) else []
    if words.is_benchmark(model):
        wanted.append(("storage_workloads", "workload", model.removeprefix(engine.BENCHMARK), "benchmark"))
    wanted += [("cloud_prices", "accelerator_key", system, "price of an hour"),
               ("tco", "category", "part_price", "price of memory"),
               ("pipeline_constants", "fitted", "yes", "constants of the input chain")]  # fmt: skip
    uses: dict[str, list[str]] = {}
    for table, column, value, use in wanted:
        for cell in _rows(table, column, value):
            for source in str(cell).split(";"):
                uses[source] = [*uses.get(source, []), *([] if use in uses.get(source, []) else [use])]
    known = catalog.table("sources").set_index("key").fillna("")
    return tuple((known.loc[s, "title"], known.loc[s, "url"], ", ".join(use)) for s, use in uses.items() if s)


def _rows(table: str, column: str, value: Any) -> list[Any]:
    rows = catalog.table(table)
    return list(dict.fromkeys(rows.loc[rows[column] == value, "source"].dropna()))
