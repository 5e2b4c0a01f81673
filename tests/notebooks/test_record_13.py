"""The decision of recipe 13 follows from its table of options, and parts from it where the table changes."""

import re
from functools import cache
from typing import Any

import pandas as pd
import pytest
from records import decision, table, words

import cookbook as cb

WAIT, MORE = "mean wait [h], 80 % of weeks", "more per week [$]"


@cache
def large_waits(weeks: range) -> dict[str, str]:
    """Return the mean wait of jobs that use 16 GPUs under each policy [h], averaged over simulated weeks."""
    waits = {
        policy: pd.Series(
            [
                cb.planning.cluster(policy, nodes=8, load=0.8, mix="mixed", skew=2, seed=week)
                .jobs.query("gpus == 16")["wait"]
                .mean()
                for week in weeks
            ]
        ).mean()
        for policy in cb.planning.POLICIES
    }
    return {policy: f"{seconds / 3600:.1f}" for policy, seconds in waits.items()}


def payers(large: dict[str, str], tied: set[str], record: dict[str, str]) -> bool:
    """Whether the record gives the wait of the largest jobs under each policy that is left, FIFO and static parts."""
    weeks = re.search(r"(\d+) simulated weeks", record["Cluster"])[1]
    said = dict(re.findall(r"(\w+) ([\d.]+) h", record.get(f"Who pays (mean of {weeks} weeks)", "")))
    policies = {name.partition(",")[0] for name in tied} | {"fifo", "static"}
    return said == {name: large[name] for name in policies}


def follows(options: pd.DataFrame, record: dict[str, str], large: dict[str, str], price: str) -> bool:
    """Whether the choice is the cheapest that keeps the accepted wait in 9 of 10 weeks, and of those the quickest."""
    hourly, ends = re.search(r"\$([\d.]+) per hour (\([\d.]+ to [\d.]+\))", price).groups()
    if f"at ${hourly} {ends} per A100" not in record["Twice the GPUs instead"]:
        return False
    accepted = float(re.search(r"of ([\d.]+) h in 9 of 10 weeks", record["Accepted"])[1])
    waits = {
        name: [float(figure) for figure in re.fullmatch(r"([\d.]+) \(([\d.]+) to ([\d.]+)\)", text).groups()]
        for name, text in options[WAIT].items()
    }
    usd = {name: float(text.replace(",", "")) for name, text in options[MORE].items()}
    able = [name for name, (_, _, most) in waits.items() if most <= accepted]
    if not able:
        return record["Choice"].startswith("none keeps")
    first = min(able, key=lambda name: (usd[name], waits[name][0]))
    rivals = [name for name in able if usd[name] == usd[first] and name != first]
    said = record.get(f"Wait over that of {first}, median week (90 % interval)", "") if rivals else ""
    ratios = dict(re.findall(r"(\w+) × [\d.]+ \(([\d.]+) to", said))
    compared = {name.partition(",")[0] for name in rivals}
    tied = {first} | {name for name in rivals if float(ratios.get(name.partition(",")[0], "inf")) <= 1}
    named = set(re.findall(r"\w+, \d+ nodes", record["Choice"]))
    costs = {name: text for name, text in options[MORE].items() if name in record["Mean wait (80 % of weeks)"]}
    quoted = (
        f"${max(costs.values(), key=lambda text: float(text.replace(',', '')))} more"
        in record["Twice the GPUs instead"]
    )
    repeated = all(f"{name} {options[WAIT][name]} h" in record["Mean wait (80 % of weeks)"] for name in (*tied, *costs))
    is_open = (", open: " in record["Choice"]) == (len(tied) > 1)
    can = any("elastic" in name for name in tied) == ("elastic only if your training" in record["Choice"])
    near = [
        f"{name.partition(',')[0]} {most:.1f} h"
        for name, (_, _, most) in waits.items()
        if usd[name] == usd[first] and accepted < most <= 1.25 * accepted
    ]
    others = can and payers(large, tied, record)
    others = others and record["Just over the limit"] == ("; ".join(near) or "no option of this price")
    return named == tied and is_open and set(ratios) == compared and quoted and repeated and others


def page() -> list[Any]:
    """Return the table of options, the record, the waits of the largest jobs, and the printed price."""
    return [table("13", "live"), decision("13"), large_waits(range(12)), words("13", "live")]


def test_the_record_follows_from_the_options():
    assert follows(*page())


@pytest.mark.parametrize(
    ("option", "column", "text"),
    [
        ("fair, 8 nodes", WAIT, "1.2 (0.3 to 8.9)"),  # misses the accepted wait
        ("fair, 8 nodes", MORE, "9,000"),  # no longer free
        ("priority, 8 nodes", WAIT, "3.3 (0.4 to 10.1)"),  # no longer just over the limit
        ("backfill, 8 nodes", WAIT, "4.5 (0.5 to 9.2)"),  # just over it
        ("static, 8 nodes", WAIT, "0.2 (0.1 to 0.3)"),  # nothing need change
        ("static, 16 nodes", MORE, "12,020"),  # another price of GPUs
        ("static, 16 nodes", WAIT, "0.4 (0.1 to 0.9)"),  # another wait with twice the GPUs
    ],
)
def test_another_table_gives_another_record(option, column, text):
    options, *others = page()
    options.loc[option, column] = text
    assert not follows(options, *others)


@pytest.mark.parametrize("policy", ["elastic", "fair", "fifo", "static"])
def test_another_wait_of_the_largest_jobs_gives_another_record(policy):
    options, record, large, price = page()
    assert not follows(options, record, large | {policy: "99.9"}, price)


def test_the_largest_jobs_of_one_easy_week_give_another_record():
    options, record, _, price = page()
    assert not follows(options, record, large_waits(range(1)), price)


def test_other_quartiles_of_the_price_give_another_record():
    options, record, sizes, price = page()
    assert not follows(options, record, sizes, price.replace("(1.39", "(1.19"))


def test_elastic_jobs_are_chosen_under_their_condition_only():
    options, record, *others = page()
    assert not follows(options, record | {"Choice": record["Choice"].partition("; elastic only")[0]}, *others)


def varied(printed: str) -> bool:
    """Whether the printed factor of waits is (1 + C²) / 2 of the printed C², as far as its figures say."""
    square, factor = map(float, re.search(r"C² = ([\d.]+): waits are about ([\d.]+) times", printed).groups())
    return abs((1 + square) / 2 - factor) <= 0.051 + 0.025


def test_the_factor_of_waits_follows_from_the_printed_variation():
    printed = words("13", "policies")
    assert varied(printed)
    square = re.search(r"C² = ([\d.]+)", printed)[1]
    assert not varied(printed.replace(f"C² = {square}", f"C² = {round(float(square))}"))


def named_medians(printed: str, record: dict[str, str]) -> bool:
    """Whether every printed or recorded ratio of waits says that it is that of the median week."""
    ratios = [line for line in printed.splitlines() if " × " in line]
    keys = [label for label, text in record.items() if re.search(r"\w × [\d.]+ \([\d.]+ to", text)]
    return bool(ratios and keys) and all("median week" in text for text in (*ratios, *keys))


def test_ratios_of_waits_are_those_of_the_median_week():
    printed, record = words("13", "claim"), decision("13")
    assert named_medians(printed, record)
    assert not named_medians(printed.replace(" in the median week", "", 1), record)
    assert not named_medians(printed, {label.partition(", median")[0]: text for label, text in record.items()})
