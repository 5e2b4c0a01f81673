"""What panels say, over random states: a short headline with one figure, labelled facts, and a chart that agrees.

`python tests/panels/test_answers.py 10000` tries so many states in all, and counts contradictions by panel and kind.
"""

from __future__ import annotations

import argparse
import math
import random
import re
import time
import traceback
from collections import Counter
from collections.abc import Callable, Iterator
from functools import cache
from typing import Any

import numpy as np
import pandas as pd
import pytest

import cookbook as cb
from cookbook.panels import controls
from cookbook.panels.options import A_CONFIGURATION
from cookbook.panels.text import figure, percent
from cookbook.topics.accuracy.charts import percent as points
from cookbook.topics.storage.charts import FULL
from cookbook.topics.storage.storage_panel import _samples
from cookbook.units import dollars, human

PANELS = (
    "where_to_run",
    "accuracy",
    "accelerators",
    "storage",
    "host",
    "measurements",
    "training_run",
    "scaling",
    "assembly_line",
    "model_zoo",
    "finetuning",
    "serving",
    "clinic",
    "this_machine",
    "cluster",
    "crossbar",
    "stack",
)
# States of each panel, and the random seed they come from: a change tries the first few of them, the long run all
# and a second set.
FEW_STATES, STATES, MORE_STATES, SEED, OTHER_SEED = 5, 50, 100, 7, 8
OWN = 0.3  # of the states that set a control which takes entries of one's own have one of those below
A_RESNET = (
    '{"model_type": "resnet", "depths": [3, 4, 6, 3], "hidden_sizes": [256, 512, 1024, 2048], '
    '"layer_type": "bottleneck"}'
)
MOST_WORDS, MOST_FACTS, TRIES = 20, 5, 6
ROUNDED = 1e-5  # columns of charts have six digits
SENTENCES = re.compile(r"(?<=[.!?]) (?=[A-Z\d*])")
WRONG_WORDS = re.compile(
    r"USD|\.csv|data/|(?<![\d.,])1 (?:years|days|epochs)\b|(?<!PCIe\d )\bx\d|\d x \d|\d%|"
    r"\d us\b|nan\b"
)
DRAWN = {"few": (FEW_STATES, SEED), "all": (STATES, SEED), "more": (MORE_STATES, OTHER_SEED)}
each_set = pytest.mark.parametrize(
    "which", ["few", pytest.param("all", marks=pytest.mark.all), pytest.param("more", marks=pytest.mark.all)]
)
# All that is asked of the states of one panel, in one process, which draws them once.
each_panel = pytest.mark.parametrize(
    "name", [pytest.param(name, marks=pytest.mark.xdist_group(f"answers of {name}")) for name in PANELS]
)

State = dict[str, Any]


def told(text: str, spell: Callable[[float], str], value: float) -> bool:
    """Whether a text tells a number of a chart, on either side of a rounding."""
    return text in {spell(value * (1 + off)) for off in (-ROUNDED, 0, ROUNDED)}


def gibibytes(value: float) -> str:
    return human(value, "iB")


def choices(control: Any) -> list[Any]:
    return list(control.stops) if isinstance(control, controls.Slider) else [each[0] for each in control.options]


def own_entries(control: Any) -> list[Any]:
    """What a reader may write under "custom…": the example, and for networks a configuration of each kind."""
    if getattr(control, "own", None) is None or control.many:
        return []
    texts = [control.own.example]
    texts += [A_RESNET, A_CONFIGURATION] if control.own.files == ".json" else []
    return [{"custom": text} for text in texts]


def changes(panel: Any, rng: random.Random, chance: random.Random) -> dict[str, Any]:
    """One to four controls and what they are set to; the chart always among them."""
    made = dict(panel._controls)
    names = rng.sample(sorted(made), rng.randint(1, min(4, len(made)))) + (["picture"] if "picture" in made else [])
    found = {
        name: rng.sample(choices(made[name]), max(made[name].least, 1))
        if getattr(made[name], "many", False)
        else rng.choice(choices(made[name]))
        for name in names
    }
    own = {name: chance.choice(entries) for name in names if (entries := own_entries(made[name]))}
    return {name: own[name] if name in own and chance.random() < OWN else value for name, value in found.items()}


def states(name: str, count: int, seed: int) -> Iterator[State]:
    """What a panel shows in so many states that it can show, one after the other."""
    panel, rng, chance, found = getattr(cb.panels, name)(), random.Random(seed), random.Random(f"own {seed}"), 0
    boxes = (control for control in panel._controls.values() if isinstance(control, controls.Combo))
    names = [label for box in boxes for _, label, *_ in box.options if WRONG_WORDS.search(label)]
    for _ in range(TRIES * count):
        panel.reset()
        panel.update(**changes(panel, rng, chance))
        if not panel.shown["error"]:
            view, found = panel._view, found + 1
            headline, *facts = SENTENCES.split(view.answer)
            yield {
                "values": panel.values,
                "view": view,
                "headline": headline,
                "facts": facts,
                "title": view.picture.title,
                "drawn": view.picture.frame,
                "picture": panel.values.get("picture"),
                "parts": view.parts,
                "bold": headline.split("**")[1] if "**" in headline else "",
                "names": names,
            }
        if found == count:
            return
    raise AssertionError(f"{name}: only {found} of {TRIES * count} states can be shown")


@cache
def shown(name: str, which: str) -> list[State]:
    return list(states(name, *DRAWN[which]))


def said_well(state: State) -> None:
    """A short headline with one figure, and facts that each have a label."""
    headline, facts = state["headline"], state["facts"]
    assert words_of(headline) <= MOST_WORDS, f"{words_of(headline)} words: {headline}"
    assert headline.endswith("."), headline
    assert headline.count("**") == 2 and "**" not in " ".join(facts), state["view"].answer
    assert 1 <= len(facts) <= MOST_FACTS, facts
    assert all(re.match(r"[A-Z][^:.]{1,40}: \S", fact) and fact.endswith(".") for fact in facts), facts


def words_of(headline: str) -> int:
    return len(headline.replace("**", "").split())


def in_house_words(state: State) -> None:
    """Numbers and words in the house's style; names of products are quoted as they are."""
    for text in (state["view"].answer, state["title"], *(part.text for part in state["parts"])):
        for name in state["names"]:
            text = text.replace(name, "")
        assert not WRONG_WORDS.search(text), (WRONG_WORDS.search(text), text)
    assert len(state["parts"]) <= 6 and sum(part.name in ("other", "others") for part in state["parts"]) <= 1


# What the headline, the title and the chart of a panel must agree in. A check says which of several kinds it has seen.


def named(place: str, state: State) -> bool:
    """Whether the headline names an option: it is the cheapest, or the first."""
    return any(f": {place} {verb} " in state["headline"] for verb in ("is", "leads"))


def costs_agree(state: State) -> None:
    """The cheapest place is that of the chart."""
    drawn, title, bold = state["drawn"], state["title"], state["bold"]
    if bold.startswith("None of"):
        assert state["picture"] != "costs" or (drawn["verdict"] != "cheapest feasible").all()
    elif state["picture"] == "costs":
        able = drawn[drawn["verdict"].isin(["feasible", "cheapest feasible"])]
        best = able.loc[able["usd"].idxmin()]
        clear = ", but not clearly" not in title and "by its datasheet alone" not in title
        assert (drawn["verdict"] == "cheapest feasible").any() == clear, "the mark contradicts the title"
        words = f"{'is the cheapest of' if clear else 'leads'} {len(able)} feasible option"
        assert f": {best['row']} {'is the ' if clear else 'leads '}" in state["headline"]
        assert title.startswith(f"{best['row']} {words}") and told(bold, dollars, best["usd"])
        assert f" at {bold}" in title
    elif state["picture"] == "paid":
        ends = drawn[drawn["month"] == drawn["month"].max()].groupby("text", sort=False).last()["usd"]
        assert named(ends.idxmin(), state) and title.startswith(ends.idxmin())
        assert told(bold, dollars, ends.min()) and f"{bold} against {dollars(ends.max())}" in title
    else:
        assert named(title.partition(": ")[0], state)


def deadlines_agree(state: State) -> set[str]:
    """Days and deadlines are those of the curve."""
    chosen, deadline, title = state["values"]["devices"], state["values"]["deadline"], state["title"]
    drawn = state["drawn"]
    if state["picture"] == "curve":
        here = drawn[drawn["what"] == "here"].iloc[0]
        said, unit = state["bold"].split()
        assert said == figure(here["days"] * {"day": 1, "hour": 24, "minute": 24 * 60}[unit.rstrip("s")])
        assert title.startswith(f"{chosen:,} devices ")
        assert f"for {dollars(here['cost'])}" in state["headline"] or "device-hours" in state["headline"]
        days = drawn[drawn["what"] == "curve"].set_index("devices")["days"].astype(float)
        said = [
            (int(count.replace(",", "")), word)
            for count, word in re.findall(r"([\d,]+) (?:devices )?(meet|miss|do|take)\b", title)
        ]
        assert said and all((days[count] <= deadline) == (word != "miss") for count, word in said if deadline)
        return {word for _, word in said}
    if state["picture"] == "layouts":
        steps = drawn.groupby("row", sort=False)["value"].sum()
        assert title.startswith(f"{steps.idxmin()} is the fastest") and steps.idxmin() in state["view"].answer
    return set()


def efficiency_agrees(state: State) -> None:
    """Efficiency and speed-up are those of the lines."""
    if state["picture"] == "parts":
        return
    drawn, title = state["drawn"], state["title"]
    own = drawn[~drawn["measured"].astype(bool) & ~drawn["pinned"].astype(bool)]
    own = own[own["network"] == own["network"].iloc[0]]
    last = own[own["devices"] == own["devices"].max()].iloc[0]
    if state["picture"] == "efficiency":
        share = f"{percent(last['share'] / 100)} of the ideal"
        assert share in state["headline"] and f"keeps {share} on {last['devices']:,} device" in title
    else:
        assert told(state["bold"], lambda value: f"{figure(value)}×", last["speed_up"])
        slower = own["speed_up"].max() > last["speed_up"]
        assert ("further ones make it slower" in title) == slower and (f" {state['bold']} as fast" in title) != slower


def limits_agree(state: State) -> set[str]:
    """Links and decoding are told as they are drawn."""
    title, headline = state["title"], state["headline"]
    held = next(
        (
            each
            for each in ("links", "decoding")
            if f"{each} {'are' if each == 'links' else 'is'} the limit" in headline
        ),
        "",
    )
    if state["picture"] == "gets":
        enough = int((state["drawn"]["got"] >= FULL * state["drawn"]["need"]).sum())
        assert f"{enough} of {len(state['drawn'])} flow" in title
        assert title.startswith({"links": "Links limit", "decoding": "Decoding limits", "": f"{enough} of"}[held])
    elif state["picture"] == "cores":
        assert held != "links" or title.startswith(("Links are the limit", "No number of cores"))
    else:
        assert held != "decoding" or "decoding is the limit" in title or "full" in title.split(",")[0]
    return {held}


def stages_agree(state: State) -> None:
    """The slowest stage is that of the chain."""
    drawn, title, bold = (state[name] for name in ("drawn", "title", "bold"))
    starved = "starved by" in state["headline"]
    if state["picture"] == "chain":
        slow = drawn[drawn["state"] == "slowest stage"].iloc[0]
        assert title.startswith("The input keeps up") != starved
        if starved and not state["values"]["checkpoints"]:
            taken = state["view"].headline["samples per second"]
            # A stage that is nearly as slow, or a demand that is, holds the slowest up.
            close = (drawn["rate"] < 1.1 * slow["rate"]).sum() > 1
            assert (0.9 if close else 0.99) * slow["rate"] <= taken <= 1.01 * slow["rate"]
            assert bold.startswith(f"{_samples(taken)} ")
        assert (
            not starved
            or slow["row"] in ("storage and cache", "copying to devices")
            or (f"starved by {slow['row']}" in state["headline"])
        )
    elif state["picture"] == "changes":
        now, rates = drawn.iloc[0]["rate"], drawn["rate"]
        assert state["bold"] == f"{_samples(now)} samples/s"
        assert ("No change" in title) == (rates.iloc[1:] < 1.05 * now).all() and (rates.iloc[1:] > now).all()
    elif state["picture"] == "scaling":
        at = drawn[drawn["line"] == "later epochs"].set_index("count")["utilisation"]
        share = percent(at[float(state["values"]["accelerators"])] / 100)
        assert (
            f"{share} utilisation" in state["headline"]
            or abs(at[float(state["values"]["accelerators"])] - state["view"].headline["utilisation"] * 100) < 0.01
        )
    else:
        ends = drawn.groupby("row", sort=False)["end"].max()
        longer = ends.iloc[0] / ends.iloc[1]
        factor = re.search(r"takes ([\d.]+)× as long", title)
        assert float(factor[1]) == pytest.approx(longer, abs=0.01) if factor else longer < 1.006


def devices_agree(state: State) -> None:
    """The best device is that of the chart."""
    units = {"throughput": "samples/s", "energy": "J per sample", "cost": "per million samples"}
    drawn, picture = state["drawn"], state["picture"]
    if picture == "roofline":
        ops = drawn[drawn["what"] == "op"]
        share = float(ops.loc[ops["bound"] == "memory", "share"].sum())
        rest = 1 - float(ops["share"].sum())  # small operations are not drawn
        assert 100 * share - 0.51 <= float(state["bold"].split()[0]) <= 100 * (share + rest) + 0.51
        assert f"limits {state['bold']} of" in state["title"]
        return
    known = drawn[drawn["point"].notna() & (drawn["text"] != "does not fit memory")]
    if known.empty:
        assert "None of these" in state["headline"] and "None of these" in state["title"]
        return
    if "distinguished" in state["title"] or "datasheet alone" in state["title"]:
        assert state["headline"].replace("**", "").rstrip(".") == state["title"]
        assert "fastest" not in state["headline"] and "cheapest" not in state["headline"]
        return
    best = known.loc[known["point"].idxmax() if picture == "throughput" else known["point"].idxmin()]
    spell = dollars if picture == "cost" else figure
    assert told(state["bold"], lambda value: f"{spell(value)} {units[picture]}", best["point"])
    start = state["title"].partition(":")[0]
    assert start.startswith(best["row"].partition(",")[0]) and state["headline"].startswith(start.split(" (")[0])
    assert f": {state['bold']}" in state["title"]


def medians_agree(state: State) -> None:
    """The median is that of the marks."""
    marks, bold = state["drawn"], state["bold"]
    if "in several units" in state["title"] or state["values"]["near"] or len(marks) < 2:
        return
    shown = re.match(r"The median is (.+) \(", state["title"])
    assert f"{len(marks):,} " in state["headline"] and (
        bold == shown[1] if shown else "highest median" in state["title"]
    )
    number = re.match(r"[\d,.]+", bold)
    middle = float(marks["value"].median())
    digits = math.log10(middle / float(number[0].replace(",", ""))) % 1  # prefixes are powers of ten
    assert min(digits, 1 - digits) < 0.003 or "s per" in bold or "%" in bold, (bold, middle)


def shares_agree(state: State) -> None:
    """Shares of runs are those of the points."""
    drawn, title, headline = state["drawn"], state["title"], state["headline"]
    if state["picture"] == "points":
        off, band = np.abs(drawn["ratio"] - 1), state["values"]["band"]
        assert f"{len(drawn):,} run" in title and f"{len(drawn):,} " in headline
        share = int(re.match(r"(\d+) %", title)[1])
        least, most = (100 * (off < band / 100 + by).mean() for by in (-0.00051, 0.00051))  # ratios of three decimals
        assert least - 0.51 <= share <= most + 0.51
        assert f"{share} % within {band:.0f} %" in headline
        assert state["bold"] == points(100 * off.median()) or float(state["bold"].split()[0]) == pytest.approx(
            100 * off.median(), abs=0.1 if off.median() < 0.1 else 0.6
        )
    elif state["picture"] == "effects":
        assert title == headline.replace("**", "").rstrip(".")
    elif state["picture"] == "coverage":
        low = int((drawn["verdict"] == "less than chance").sum())
        assert title.startswith(f"{low or 'None'} of {len(drawn)} group")
    else:
        assert points(drawn["median"].min()) in title and points(drawn["median"].max()) in title


def waiting_agrees(state: State) -> None:
    """Waiting is that of the line."""
    drawn = state["drawn"]
    busy = (drawn["end"] - drawn["start"]).sum() / (state["values"]["stages"] * drawn["end"].max())
    assert told(state["bold"], lambda value: f"{100 * value:.0f} %", 1 - busy) and state["bold"] in state["title"]


def needs_agree(state: State) -> set[str]:
    """Rates, sizes and verdicts are those of the rows."""
    drawn, title, picture = state["drawn"], state["title"], state["picture"]
    able = re.search(r"Accelerators: (?:(\d+) of|none(?: of the)?) (?:(\d+) |could |has )", state["view"].answer)
    can, total = int(able[1] or 0), int(able[2] or 1)
    if picture == "zoo":
        chosen = drawn[drawn["selected"]]
        assert len(chosen) <= 1 + len(state["values"]["compare"]) and (chosen["label"] != "").all()
        assert (drawn.loc[~drawn["selected"], "label"] == "").all()
        return {"zoo"}
    devices = drawn[drawn["role"] == "device"]
    assert total == len(devices) == len(state["values"]["accelerators"])
    need = drawn[drawn["role"] == "need"]
    assert need["row"].iloc[0] == f"{state['headline'].partition(' needs ')[0]} needs"
    if picture == "rate":
        rate = float(need["rate"].iloc[0])
        assert told(state["bold"], lambda value: human(value, "FLOP/s"), rate)
        fine = devices["verdict"].isin(["possible", "possible under a condition"])
        none = "No accelerator could " if total == 1 else f"None of the {total} accelerators could "
        assert int(fine.sum()) == can and title.startswith(f"{can} of {total} accel" if can else none), title
        assert (devices.loc[fine, "rate"] >= rate).all()
        assert (devices.loc[devices["verdict"] == "too slow at its peak", "rate"] < rate).all()
        return {"some can" if can else "none can"}
    size, fits = float(need["bytes"].sum()), devices["verdict"] == "fits"
    takes = re.search(r" takes ([\d.,]+ \w+): it fits (none|\d+) of (\d+) ", title)
    assert told(takes[1], gibibytes, size) and f"Memory: {takes[1]} at batch" in state["view"].answer
    assert (int(fits.sum()) or "none", len(devices)) == (
        takes[2] if takes[2] == "none" else int(takes[2]),
        int(takes[3]),
    )
    assert (fits == (devices["bytes"] >= size)).all() and can <= fits.sum()
    return {"memory"}


def methods_agree(state: State) -> set[str]:
    """What fits is what is drawn: the sum of the parts, its interval, and the memory of one device."""
    if "role" not in state["drawn"]:
        return phases_agree(state)
    drawn, title = state["drawn"], state["title"]
    room = float(drawn.loc[drawn["role"] == "device", "bytes"].iloc[0])
    bars = (
        drawn[drawn["role"] == "need"]
        .groupby("row", sort=False)
        .agg({"bytes": "sum", "low": "first", "high": "first", "text": "first"})
    )
    own = bars[bars.index.str.endswith(" needs")].iloc[0]
    size, of = state["bold"].split(" of ")
    assert told(size if size.endswith("iB") else f"{size} GiB", gibibytes, own["bytes"]) and told(of, gibibytes, room)
    for row in bars.itertuples():
        said = (
            "fits"
            if row.high <= room
            else "likely fits"
            if row.bytes <= room
            else "probably does not fit"
            if row.low <= room
            else "does not fit"
        )
        assert row.text.endswith(f"|{said}"), (row, room)
        assert told(row.text.split("|")[0], gibibytes, row.bytes)
        name = row.Index.removesuffix(" needs")
        able = re.split(r", | and ", title.partition(" can train in ")[0].casefold())
        name = name.casefold() + " (likely)" * (said == "likely fits")
        assert (name in able) == (said in ("fits", "likely fits")), title
    assert f" {own['text'].partition('|')[2]} " in state["headline"]
    assert title.endswith(f" can train in {of}")
    return {own["text"].partition("|")[2]}


def phases_agree(state: State) -> set[str]:
    """The step of the headline is the first bar that fits; the title names its longest phase, with its share."""
    drawn, title = state["drawn"], state["title"]
    bars = drawn.groupby("row", sort=False).agg({"value": "sum", "low": "first", "high": "first", "text": "first"})
    fits = bars["text"].str.contains("|", regex=False)
    own = bars[fits].iloc[0]
    assert told(state["bold"], lambda value: human(value, "s"), own["value"])
    assert own["low"] <= own["value"] <= own["high"] and not bars.loc[~fits, "value"].any()
    assert f" {own['text'].partition('|')[2]} " in state["headline"]
    parts = drawn[drawn["row"] == own.name].set_index("part")["value"]
    longest, share = re.match(r"(.+) takes (.+) of a step that trains ", title).groups()
    assert longest.casefold() == parts.idxmax() and told(share, percent, parts.max() / own["value"])
    assert title.casefold().endswith(own.name.casefold())
    assert sum(part.value for part in state["parts"]) == pytest.approx(own["value"], rel=ROUNDED)
    return {"phases"}


def serving_agrees(state: State) -> set[str]:
    """Waiting, prices and memory are those of the marks."""
    drawn, title, values, missed = state["drawn"], state["title"], state["values"], "is missed" in state["headline"]
    if state["picture"] == "knee":
        here = drawn[drawn["what"] == "here"].set_index("series")
        share = float(here["rate"].iloc[0]) / float(drawn.loc[drawn["what"] == "capacity", "rate"].iloc[0])
        at, ttft, tpot = re.fullmatch(r"At (.+) of capacity, TTFT p95 is (.+) and TPOT p95 (.+)", title).groups()
        assert told(at, percent, share)
        for name, text in (("ttft", ttft), ("tpot", tpot)):
            milliseconds = float(here.loc[f"{name.upper()} p95", "ms"])
            assert told(text, lambda value: human(value / 1e3, "s"), milliseconds)
            if values[name] is not None:
                assert missed or milliseconds <= values[name] * (1 + ROUNDED)
    elif state["picture"] == "costs":
        best = drawn[drawn["verdict"] == "cheapest feasible"]
        undecided = "cannot be distinguished" in title or "by its datasheet alone" in title
        assert len(best) == (not undecided and not title.startswith("No accelerator"))
        priced = drawn[drawn["verdict"].isin(["feasible", "cheapest feasible"])].dropna(subset=["usd"])
        clear = len(best) and priced["low"].astype(float).drop(best.index).min() > float(best["high"].iloc[0])
        assert best.empty or clear or len(priced) == 1, "a winner's band of prices overlaps another's"
        assert best.empty or title.startswith(f"{best['row'].iloc[0]} is the cheapest of {len(drawn)} accelerators")
        own = drawn[[f" {row} serve" in state["headline"].replace("**", "") for row in drawn["row"]]]
        if not values["devices"]:
            assert missed == (own["verdict"] == "not feasible").all()
            if not values["hourly"] and state["bold"].startswith("$"):
                paid = state["view"].answer.partition("Cost: ")[2].partition(" per hour")[0]
                assert any(told(paid, dollars, usd) for usd in own["usd"])
    else:
        row = drawn[drawn["row"] == drawn["row"].iloc[0]].set_index("part")["value"]
        taken = re.fullmatch(r"Weights take (.+) of each device; the load fills (.+) of the KV cache", title)
        if taken is None:  # the memory of a host depends on what was bought
            known = re.fullmatch(r"Weights take (.+) of each device, whose memory is not in the catalogue", title)[1]
            assert told(known, lambda value: human(value * 2**30, "iB"), row["weights"])
            assert row.drop("weights").isna().all()
            return {"missed" if missed else "kept"}
        assert told(taken[1], percent, row["weights"] / row.sum())
        keys = row.drop("weights").iloc[:2]  # in use, and still free
        assert keys.sum() == 0 or told(taken[2], percent, keys.iloc[0] / keys.sum())
    return {"missed" if missed else "kept"}


def causes_agree(state: State) -> None:
    """The headline counts the part that it speaks of; where nothing is wrong, the largest."""
    parts = {
        "Waiting for input": "input",
        "The batch": "memory traffic",
        "The host": "launch",
        "The matmuls": "compute",
        "Communication": "communication",
        "One process": "communication",
        "Saving": "checkpoint",
        "The machine": "slowdown",
    }
    whole = state["drawn"][state["drawn"]["row"] == "whole run"].set_index("part")
    share = (whole["end"] - whole["start"]) / whole["end"].max()
    spoken = [part for words, part in parts.items() if state["headline"].startswith(words)]
    assert spoken or state["headline"].startswith("Nothing holds"), state["headline"]
    part = spoken[0] if spoken else share.idxmax()
    assert told(state["bold"], lambda value: f"{100 * value:.0f} %", share[part]), (state["bold"], share)
    assert state["bold"] in state["title"]


def marks_agree(state: State) -> set[str]:
    """Errors and rates of a machine are those of the marks."""
    drawn, bold = state["drawn"], state["bold"]
    assert bold in state["title"]
    if state["picture"] == "networks":
        off = (drawn["point"] / drawn["peak"] - 1).abs()
        assert told(bold, percent, off.median()) and f" {len(drawn)} runs" in state["headline"]
        assert (drawn["low"].isna() == (state["values"]["prediction"] != "left out")).all()
    else:
        unit = "FLOP/s" if state["picture"] == "products" else "B/s"
        assert told(bold, lambda value: human(value, unit), drawn["point"].max())
    return {state["picture"]}


def idleness_agrees(state: State) -> set[str]:
    """What is idle in the chart is what the parts say, with and without a queue; headline and title say the latter."""
    drawn, values, bold = state["drawn"], state["values"], state["bold"]
    stays, held = drawn[drawn["what"] == "stay"], 0.0
    for _, own in stays.groupby(["node", "low", "high"]):  # a GPU that several share counts once
        end = -1.0
        for since, until, lanes in sorted(zip(own["start"], own["end"], own["high"] - own["low"], strict=True)):
            held += max(until - max(since, end), 0.0) * lanes
            end = max(end, until)
    idle = {part.name: part.value for part in state["parts"] if part.name.startswith("idle")}
    assert sum(idle.values()) == pytest.approx(1 - held / (168 * 8 * values["nodes"]), abs=1e-4)
    assert told(bold, lambda value: f"{100 * value:.0f} %", idle.get("idle, jobs wait", 0.0))
    assert bold in state["title"]
    return {"served"} if values["service"] else {values["policy"]}


def crossbars_agree(state: State) -> set[str]:
    """What is chosen is read off the chart: a share of digits, operations for a joule, or machines near ours."""
    drawn, bold = state["drawn"], state["bold"]
    assert bold in state["title"]
    if state["picture"] == "published":
        ours = drawn[(drawn["whose"] == "ours") & drawn["value"].notna() & drawn["other"].notna()]
        ratios = ours["value"] / ours["other"]
        assert bold == f"{((ratios <= 2) & (ratios >= 0.5)).sum()} of {len(ratios)}"
        return {"published"}
    if state["picture"] == "roofline":
        point = drawn[(drawn["what"] == "point") & (drawn["id"] == "crossbar")]
        assert f"{human(point['y'].item(), 'OP')}/J" in state["title"]
        levels = drawn[drawn["what"] == "roof"].groupby("kind")["y"].max()
        assert levels["cells alone"] > levels["cells and drivers"] > levels["with ADCs and sums"]
        return {"roofline"}
    here = drawn[drawn["here"]]
    assert told(bold, lambda value: f"{value:.1f} %", here["mean"].item())
    assert (drawn["least"] <= drawn["mean"] + ROUNDED).all() and (drawn["mean"] <= drawn["most"] + ROUNDED).all()
    return {"digits"}


def stacks_agree(state: State) -> set[str]:
    """The best stack is the cheapest of the chart that will do; those that cost least are those with a ratio of one."""
    drawn, title, bold = state["drawn"], state["title"], state["bold"]
    if state["picture"] == "matrix":
        best = drawn[drawn["ratio"] == 1]
        count, cases = best["row"].nunique(), best["case"].nunique()
        wins = rf"\**{count} stacks?\** costs? least by the medians in the {cases} (\w+|fine-tuning) applications?"
        assert bold.split()[0] == str(count) and re.search(wins + ": ", state["headline"]) and re.fullmatch(wins, title)
        assert len(best) == cases == drawn["case"].nunique()
    else:
        able = drawn[drawn["verdict"].isin(["feasible", "cheapest feasible"])]
        best = able.loc[able["usd"].idxmin()]
        clear = ", but not clearly" not in title and "by its datasheet alone" not in title
        assert (drawn["verdict"] == "cheapest feasible").any() == clear, "the mark contradicts the title"
        assert f": {best['row']} {'is the ' if clear else 'leads '}" in state["headline"]
        words = f"{'is the cheapest of' if clear else 'leads'} {len(able)} feasible stack"
        assert title.startswith(f"{best['row']} {words}") and f" at {bold}" in title
        assert told(bold, dollars, best["usd"])
    return {state["picture"]}


AGREE: dict[str, Callable[[State], set[str] | None]] = {
    "where_to_run": costs_agree,
    "accuracy": shares_agree,
    "accelerators": devices_agree,
    "storage": stages_agree,
    "host": limits_agree,
    "measurements": medians_agree,
    "training_run": deadlines_agree,
    "scaling": efficiency_agrees,
    "assembly_line": waiting_agrees,
    "model_zoo": needs_agree,
    "finetuning": methods_agree,
    "serving": serving_agrees,
    "clinic": causes_agree,
    "this_machine": marks_agree,
    "cluster": idleness_agrees,
    "crossbar": crossbars_agree,
    "stack": stacks_agree,
}
# Kinds that must be among the many states, or a check has checked nothing.
KINDS = {
    "training_run": {"meet", "miss"},
    "host": {"links", ""},
    "model_zoo": {"zoo", "some can", "none can", "memory"},
    "finetuning": {"fits", "likely fits", "does not fit", "phases"},
    "serving": {"kept"},
    "this_machine": {"networks", "products"},
    "cluster": {"served", "static", "fifo"},
    "crossbar": {"digits", "roofline", "published"},
    "stack": {"costs", "matrix"},
}


@each_set
@each_panel
def test_the_headline_is_short_with_one_figure_and_facts_have_labels(name: str, which: str) -> None:
    for state in shown(name, which):
        said_well(state)


@each_set
@each_panel
def test_words_are_those_of_the_house(name: str, which: str) -> None:
    for state in shown(name, which):
        in_house_words(state)


@each_set
@each_panel
def test_headline_title_and_chart_say_the_same(name: str, which: str) -> None:
    seen = set[str]().union(*(AGREE[name](state) or () for state in shown(name, which)))
    assert which == "few" or KINDS.get(name, set()) <= seen


def test_the_share_of_a_purchase_ends_where_the_comparison_does() -> None:
    """One year: the line of what is owned ends at the cost that the answer compares, far below what was paid."""
    panel = cb.panels.where_to_run(years=1, batch=32, picture="paid")
    rows = pd.DataFrame(panel.columns)
    owned = rows[rows["what"] == "owned"]
    assert owned["usd"].iloc[-1] < 0.5 * owned["usd"].iloc[-2] and owned["month"].iloc[-1] == owned["month"].iloc[-2]
    assert panel.answer.startswith(f"{dollars(owned['usd'].iloc[-1])} over 1 year: Workstation")


def main() -> None:
    """Count contradictions of so many states by panel, check and line; one example of each."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("count", type=int, nargs="?", default=1200, help="states in all")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--only", default="", help="one panel")
    asked = parser.parse_args()
    names = [asked.only] if asked.only else list(PANELS)
    total, wrong, longest = 0, 0, 0
    for name in names:
        start, kinds, examples, tried, most = time.process_time(), Counter[str](), dict[str, str](), 0, 0
        for state in states(name, -(-asked.count // len(names)), asked.seed):
            tried, most = tried + 1, max(most, words_of(state["headline"]))
            for check in (said_well, in_house_words, AGREE[name]):
                try:
                    check(state)
                except Exception as problem:
                    line = traceback.extract_tb(problem.__traceback__)[-1]
                    kind = f"{check.__name__}, line {line.lineno}: {line.line}"
                    kinds[kind] += 1
                    examples.setdefault(
                        kind,
                        f"{problem!r:.200} {state['headline']} | {state['title']} | "
                        f"{state['view'].code.splitlines()[0]}",
                    )
        for kind, number in kinds.most_common():
            print(f"{number:6} {name}: {kind}\n       e.g. {examples[kind]}", flush=True)
        seconds = time.process_time() - start
        print(
            f"{name}: {tried} states, {sum(kinds.values())} contradictions, headlines of {most} words at most, "
            f"{seconds:.0f} s",
            flush=True,
        )
        total, wrong, longest = total + tried, wrong + sum(kinds.values()), max(longest, most)
    print(f"{total:,} states, {wrong} contradictions, headlines of {longest} words at most")


if __name__ == "__main__":
    main()
