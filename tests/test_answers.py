"""What panels say, over random states: a short headline with one figure, labelled facts, and a chart that agrees."""

from __future__ import annotations

import math
import random
import re
from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np
import pandas as pd
import pytest

import cookbook as cb
from cookbook.charts.explore import percent as points
from cookbook.charts.host import FULL
from cookbook.panels import controls
from cookbook.panels.storage import _samples
from cookbook.panels.text import figure, percent
from cookbook.units import dollars

PANELS = ("where_to_run", "accuracy", "accelerators", "storage", "host", "measurements", "training_run", "scaling",
          "assembly_line", "model_zoo", "finetuning", "serving", "clinic")  # fmt: skip
STATES, MOST_WORDS, MOST_FACTS = 50, 20, 5
ROUNDED = 1e-5  # columns of charts have six digits
SENTENCES = re.compile(r"(?<=[.!?]) (?=[A-Z\d*])")


def told(text: str, spell: Callable[[float], str], value: float) -> bool:
    """Whether a text tells a number of a chart, on either side of a rounding."""
    return text in {spell(value * (1 + off)) for off in (-ROUNDED, 0, ROUNDED)}


def choices(control: Any) -> list[Any]:
    return list(control.stops) if isinstance(control, controls.Slider) else [each[0] for each in control.options]


def changes(panel: Any, rng: random.Random) -> dict[str, Any]:
    """One to four controls and what they are set to; the chart always among them."""
    made = dict(panel._controls)
    names = rng.sample(sorted(made), rng.randint(1, min(4, len(made)))) + (["picture"] if "picture" in made else [])
    return {name: rng.sample(choices(made[name]), max(made[name].least, 1)) if getattr(made[name], "many", False)
            else rng.choice(choices(made[name])) for name in names}  # fmt: skip


@cache
def shown(name: str) -> list[dict[str, Any]]:
    """What a panel shows in the states that it can show."""
    panel, rng, found = getattr(cb.panels, name)(), random.Random(7), []
    for _ in range(6 * STATES):
        panel.reset()
        panel.update(**changes(panel, rng))
        if not panel.shown["error"]:
            view = panel._view
            headline, *facts = SENTENCES.split(view.answer)
            found.append({
                "values": panel.values, "view": view, "headline": headline, "facts": facts, "title": view.picture.title,
                "drawn": view.picture.frame, "picture": panel.values.get("picture"), "parts": view.parts,
                "bold": headline.split("**")[1] if "**" in headline else "",
            })  # fmt: skip
        if len(found) == STATES:
            return found
    raise AssertionError(f"{name}: only {len(found)} of {6 * STATES} states can be shown")


@pytest.mark.parametrize("name", PANELS)
def test_the_headline_is_short_with_one_figure_and_facts_have_labels(name: str) -> None:
    for state in shown(name):
        headline, facts = state["headline"], state["facts"]
        assert len(headline.replace("**", "").split()) <= MOST_WORDS and headline.endswith("."), headline
        assert headline.count("**") == 2 and "**" not in " ".join(facts), state["view"].answer
        assert 1 <= len(facts) <= MOST_FACTS, facts
        assert all(re.match(r"[A-Z][^:.]{1,40}: \S", fact) and fact.endswith(".") for fact in facts), facts


@pytest.mark.parametrize("name", PANELS)
def test_words_are_those_of_the_house(name: str) -> None:
    wrong = re.compile(r"USD|\.csv|data/|(?<![\d.,])1 (?:years|days|epochs)\b|\bx\d|\d x \d|\d%|\d us\b|nan\b")
    for state in shown(name):
        for text in (state["view"].answer, state["title"], *(part.text for part in state["parts"])):
            assert not wrong.search(text), (wrong.search(text), text)
        assert len(state["parts"]) <= 6 and sum(part.name in ("other", "others") for part in state["parts"]) <= 1


def test_the_cheapest_place_is_that_of_the_chart() -> None:
    for state in shown("where_to_run"):
        drawn, title, bold = state["drawn"], state["title"], state["bold"]
        if "will do" in bold or bold.startswith("None of"):
            assert state["picture"] != "costs" or (drawn["verdict"] != "cheapest that will do").all()
        elif state["picture"] == "costs":
            able = drawn[drawn["verdict"].isin(["will do", "cheapest that will do"])]
            best = able.loc[able["usd"].idxmin()]
            assert f": {best['row']} is the" in state["headline"] and title.startswith(f"{best['row']} is cheapest")
            assert told(bold, dollars, best["usd"]) and f"at {bold};" in title
            assert f"; {len(able)} place" in title
        elif state["picture"] == "paid":
            ends = drawn[drawn["month"] == drawn["month"].max()].groupby("text", sort=False).last()["usd"]
            assert f": {ends.idxmin()} is the" in state["headline"] and title.startswith(ends.idxmin())
            assert told(bold, dollars, ends.min()) and f"{bold} against {dollars(ends.max())}" in title
        else:
            assert f": {title.partition(': ')[0]} is the" in state["headline"]


def test_days_and_deadlines_are_those_of_the_curve() -> None:
    seen = set()
    for state in shown("training_run"):
        chosen, deadline, title = state["values"]["devices"], state["values"]["deadline"], state["title"]
        drawn = state["drawn"]
        if state["picture"] == "curve":
            here = drawn[drawn["what"] == "here"].iloc[0]
            assert state["bold"].rstrip("s") == f"{figure(here['days'])} day"
            assert title.startswith(f"{chosen:,} devices ")
            assert f"for {dollars(here['cost'])}" in state["headline"] or "device-hours" in state["headline"]
            days = drawn[drawn["what"] == "curve"].set_index("devices")["days"].astype(float)
            said = [(int(count.replace(",", "")), word) for count, word in
                    re.findall(r"([\d,]+) (?:devices )?(meet|miss|do|take)\b", title)]  # fmt: skip
            assert said and all((days[count] <= deadline) == (word != "miss") for count, word in said if deadline)
            seen |= {word for _, word in said}
        elif state["picture"] == "layouts":
            steps = drawn.groupby("row", sort=False)["value"].sum()
            assert title.startswith(f"{steps.idxmin()} is fastest") and steps.idxmin() in state["view"].answer
    assert {"meet", "miss"} <= seen


def test_efficiency_and_speed_up_are_those_of_the_lines() -> None:
    for state in shown("scaling"):
        if state["picture"] == "parts":
            continue
        drawn, title = state["drawn"], state["title"]
        own = drawn[~drawn["measured"].astype(bool) & ~drawn["pinned"].astype(bool)]
        own = own[own["network"] == own["network"].iloc[0]]
        last = own[own["devices"] == own["devices"].max()].iloc[0]
        if state["picture"] == "efficiency":
            share = f"{percent(last['share'] / 100)} of the ideal"
            assert share in state["headline"] and f"keeps {share} on {last['devices']:,} device" in title
        else:
            assert state["bold"] == f"{figure(last['speed_up'])}×"
            slower = own["speed_up"].max() > last["speed_up"]
            assert ("more make it slower" in title) == slower and (f" {state['bold']} as fast" in title) != slower


def test_links_and_decoding_are_told_as_they_are_drawn() -> None:
    limits = set()
    for state in shown("host"):
        title, headline = state["title"], state["headline"]
        held = next((each for each in ("links", "decoding") if f"{each} hold" in headline), "")
        limits.add(held)
        if state["picture"] == "gets":
            enough = int((state["drawn"]["got"] >= FULL * state["drawn"]["need"]).sum())
            assert f"{enough} of {len(state['drawn'])} flow" in title
            assert title.startswith({"links": "Links hold", "decoding": "Decoding holds", "": f"{enough} of"}[held])
        elif state["picture"] == "cores":
            assert held != "links" or title.startswith(("Links, not cores", "No number of cores"))
        else:
            assert held != "decoding" or "decoding holds back" in title or "full" in title.split(",")[0]
    assert {"links", ""} <= limits


def test_the_slowest_stage_is_that_of_the_chain() -> None:
    for state in shown("storage"):
        drawn, title, bold = (state[name] for name in ("drawn", "title", "bold"))
        starved = "starved by" in state["headline"]
        if state["picture"] == "chain":
            slow = drawn[drawn["state"] == "slowest stage"].iloc[0]
            assert title.startswith("The input keeps up") != starved
            if starved and not state["values"]["checkpoints"]:
                taken = state["view"].headline["samples a second"]
                # A stage that is nearly as slow, or a demand that is, holds the slowest up.
                close = (drawn["rate"] < 1.1 * slow["rate"]).sum() > 1
                assert (0.9 if close else 0.99) * slow["rate"] <= taken <= 1.01 * slow["rate"]
                assert bold.startswith(f"{_samples(taken)} ")
            assert not starved or slow["row"] in ("storage and cache", "copying to devices") or (
                f"starved by {slow['row']}" in state["headline"])  # fmt: skip
        elif state["picture"] == "changes":
            now, rates = drawn.iloc[0]["rate"], drawn["rate"]
            assert state["bold"] == f"{_samples(now)} samples/s"
            assert ("No change" in title) == (len(drawn) == 1) and (rates.iloc[1:] > now).all()
        elif state["picture"] == "scaling":
            at = drawn[drawn["line"] == "later epochs"].set_index("count")["utilisation"]
            share = percent(at[float(state["values"]["accelerators"])] / 100)
            assert f"{share} utilisation" in state["headline"] or abs(
                at[float(state["values"]["accelerators"])] - state["view"].headline["utilisation"] * 100) < 0.01
        else:
            ends = drawn.groupby("row", sort=False)["end"].max()
            longer = ends.iloc[0] / ends.iloc[1]
            factor = re.search(r"takes ([\d.]+)× as long", title)
            assert float(factor[1]) == pytest.approx(longer, abs=0.01) if factor else longer < 1.006


def test_the_best_device_is_that_of_the_chart() -> None:
    units = {"throughput": "samples/s", "energy": "J a sample", "cost": "a million samples"}
    for state in shown("accelerators"):
        drawn, picture = state["drawn"], state["picture"]
        if picture == "roofline":
            ops = drawn[drawn["what"] == "op"]
            share = float(ops.loc[ops["bound"] == "memory", "share"].sum())
            rest = 1 - float(ops["share"].sum())  # small operations are not drawn
            assert 100 * share - 0.51 <= float(state["bold"].split()[0]) <= 100 * (share + rest) + 0.51
            assert f"limits {state['bold']} of" in state["title"]
            continue
        known = drawn[drawn["point"].notna()]
        if known.empty:
            assert "None of these" in state["headline"] and "None of these" in state["title"]
            continue
        best = known.loc[known["point"].idxmax() if picture == "throughput" else known["point"].idxmin()]
        spell = dollars if picture == "cost" else figure
        assert told(state["bold"], lambda value, spell=spell, unit=units[picture]: f"{spell(value)} {unit}",
                    best["point"])  # fmt: skip
        start = state["title"].partition(":")[0]
        assert best["row"].startswith(start) and state["headline"].startswith(start.split(" (")[0])
        assert f": {state['bold']}" in state["title"]


def test_the_median_is_that_of_the_marks() -> None:
    for state in shown("measurements"):
        marks, bold = state["drawn"], state["bold"]
        if "in mixed units" in state["title"] or state["values"]["near"] or len(marks) < 2:
            continue
        assert f"{len(marks):,} " in state["headline"] and bold.startswith(state["title"].rpartition(": median ")[2])
        number = re.match(r"[\d,.]+", bold)
        middle = float(marks["value"].median())
        digits = math.log10(middle / float(number[0].replace(",", ""))) % 1  # prefixes are powers of ten
        assert min(digits, 1 - digits) < 0.003 or "s a" in bold or "%" in bold, (bold, middle)


def test_shares_of_runs_are_those_of_the_points() -> None:
    for state in shown("accuracy"):
        drawn, title, headline = state["drawn"], state["title"], state["headline"]
        if state["picture"] == "points":
            off, band = np.abs(drawn["ratio"] - 1), state["values"]["band"]
            assert f"{len(drawn):,} run" in title and f"{len(drawn):,} " in headline
            share = int(re.match(r"(\d+) %", title)[1])
            assert share == pytest.approx(100 * (off <= band / 100).mean(), abs=0.5 + 40 / len(drawn))
            assert f"{share} % within {band:.0f} %" in headline
            assert state["bold"] == points(100 * off.median()) or float(state["bold"].split()[0]) == pytest.approx(
                100 * off.median(), abs=0.1 if off.median() < 0.1 else 0.6)  # fmt: skip
        elif state["picture"] == "effects":
            assert title == headline.replace("**", "").rstrip(".")
        elif state["picture"] == "coverage":
            low = int((drawn["verdict"] == "too seldom").sum())
            assert title.startswith(f"{low or 'None'} of {len(drawn)} group")
        else:
            assert points(drawn["median"].min()) in title and points(drawn["median"].max()) in title


def test_waiting_is_that_of_the_line() -> None:
    for state in shown("assembly_line"):
        drawn = state["drawn"]
        busy = (drawn["end"] - drawn["start"]).sum() / (state["values"]["stages"] * drawn["end"].max())
        assert told(state["bold"], lambda value: f"{100 * value:.0f} %", 1 - busy) and state["bold"] in state["title"]


def test_the_share_of_a_cause_is_that_of_the_bar() -> None:
    """The headline counts the part that it speaks of; where nothing is wrong, the largest."""
    parts = {"Waiting for input": "input", "The batch": "memory traffic", "The host": "launch", "Products": "compute",
             "Communication": "communication", "One process": "communication", "Saving": "checkpoint",
             "The machine": "slowdown"}  # fmt: skip
    for state in shown("clinic"):
        whole = state["drawn"][state["drawn"]["row"] == "whole run"].set_index("part")
        share = (whole["end"] - whole["start"]) / whole["end"].max()
        spoken = [part for words, part in parts.items() if state["headline"].startswith(words)]
        assert spoken or state["headline"].startswith("Nothing holds")
        part = spoken[0] if spoken else share.idxmax()
        assert told(state["bold"], lambda value: f"{100 * value:.0f} %", share[part]), (state["bold"], share)
        assert state["bold"] in state["title"]


def test_the_share_of_a_purchase_ends_where_the_comparison_does() -> None:
    """One year: the line of what is owned ends at the cost that the answer compares, far below what was paid."""
    panel = cb.panels.where_to_run(years=1, batch=32, picture="paid")
    rows = pd.DataFrame(panel.columns)
    owned = rows[rows["what"] == "owned"]
    assert owned["usd"].iloc[-1] < 0.5 * owned["usd"].iloc[-2] and owned["month"].iloc[-1] == owned["month"].iloc[-2]
    assert panel.answer.startswith(f"{dollars(owned['usd'].iloc[-1])} over 1 year: Workstation")
