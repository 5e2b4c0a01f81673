"""The decision of recipe 13 follows from its table of options, and parts from it where the table changes."""

import re
from functools import cache
from typing import Any

import nbformat
import pandas as pd
import pytest
from records import FOLDER, decision, table, words

import cookbook as cb

WAIT, MORE = "mean wait [h], 80 % of weeks", "more per week [$]"
PAGE = FOLDER / "13-share-a-cluster.ipynb"
TWICE, BOUGHT = "static, 16 nodes", "Wait relative to twice the GPUs, median week (90 % interval)"


@cache
def large_waits(weeks: range) -> dict[str, str]:
    """Return the mean wait of jobs that use 16 GPUs with each option [h], averaged over simulated weeks."""
    cases = {f"{policy}, 8 nodes": (policy, 8) for policy in cb.planning.POLICIES} | {TWICE: ("static", 16)}
    waits = {
        name: pd.Series(
            [
                cb.planning.cluster(policy, nodes=nodes, load=6.4 / nodes, mix="mixed", skew=2, seed=week)
                .jobs.query("gpus == 16")["wait"]
                .mean()
                for week in weeks
            ]
        ).mean()
        / 3600
        for name, (policy, nodes) in cases.items()
    }
    return {name: f"{hours:.0f}" if hours >= 10 else f"{hours:.1f}" for name, hours in waits.items()}


def payers(large: dict[str, str], tied: set[str], record: dict[str, str]) -> bool:
    """Whether the record gives the wait of the largest jobs with what is left, FIFO, quarters and twice the GPUs."""
    weeks = re.search(r"(\d+) simulated weeks", record["Cluster"])[1]
    said = dict(re.findall(r"(\w+, \d+ nodes) ([\d.]+) h", record.get(f"Who pays (mean of {weeks} weeks)", "")))
    return said == {name: large[name] for name in tied | {"fifo, 8 nodes", "static, 8 nodes", TWICE}}


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
    said = record.get(f"Wait relative to {first}, median week (90 % interval)", "") if rivals else ""
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


@pytest.mark.parametrize(
    "option", ["elastic, 8 nodes", "fair, 8 nodes", "fifo, 8 nodes", "static, 8 nodes", "static, 16 nodes"]
)
def test_another_wait_of_the_largest_jobs_gives_another_record(option):
    options, record, large, price = page()
    assert not follows(options, record, large | {option: "99"}, price)


def test_a_record_without_the_largest_jobs_on_twice_the_gpus_does_not_follow():
    options, record, *others = page()
    label = next(name for name in record if name.startswith("Who pays"))
    short = re.sub(r"; static, 16 nodes [\d.]+ h", "", record[label])
    assert short != record[label] and not follows(options, record | {label: short}, *others)


def pays_beside_twice(options: pd.DataFrame, record: dict[str, str], said: str) -> bool:
    """Whether the text on fair share, FIFO and backfill beside twice the GPUs is that of record and table."""
    who = next(text for label, text in record.items() if label.startswith("Who pays"))
    fair, bought = (float(re.search(rf"{name} ([\d.]+) h", who)[1]) for name in ("fair, 8 nodes", TWICE))
    jobs, used = map(int, re.search(r"they are (\d+) % of the jobs and take (\d+) % of the GPU time", who).groups())
    ratios = {
        name: [*map(float, ends)] for name, *ends in re.findall(r"(\w+) × (\S+) \((\S+) to (\S+)\)", record[BOUGHT])
    }
    waits = {name: float(text.split()[0]) for name, text in options[WAIT].items()}
    return (
        f"they are one in twenty, take more than half of the GPU time, and wait about {fair:.0f} h under" in said
        and f"under fair share but {bought:.0f} h with twice the GPUs (*Who pays* in the record)" in said
        and (jobs, used > 50) == (5, True)
        and "With FIFO, jobs wait about three times as long as with twice the GPUs" in said
        and 2.5 < waits["fifo, 8 nodes"] / waits[TWICE] < 3.5
        and "Backfill alone cannot be distinguished from twice the GPUs, but exceeds the limit in more than one" in said
        and ratios["backfill"][1] < 1 < ratios["backfill"][2]
        and "backfill " in record["Just over the limit"]
        and ratios["fair"][2] < 1 < ratios["fifo"][1]
    )


def test_the_text_says_who_waits_longer_than_with_twice_the_gpus():
    said = next(cell.source for cell in nbformat.read(PAGE, as_version=4).cells if cell.id == "explain5")
    options, record, *_ = page()
    assert pays_beside_twice(options, record, said)
    label = next(name for name in record if name.startswith("Who pays"))
    for row, old, new in (
        (label, "fair, 8 nodes 13 h", "fair, 8 nodes 7.0 h"),
        (label, "static, 16 nodes 4.6", "static, 16 nodes 13"),
        (label, "they are 5 %", "they are 50 %"),
        (BOUGHT, "backfill × 1.4 (0.8", "backfill × 1.4 (1.1"),
        (BOUGHT, "fifo × 3.3 (2.2", "fifo × 3.3 (0.2"),
        ("Just over the limit", "backfill 9.9 h; ", ""),
    ):
        assert old in record[row]
        assert not pays_beside_twice(options, record | {row: record[row].replace(old, new)}, said)
    assert not pays_beside_twice(options, record, said.replace("about 13 h", "about 7 h"))
    options.loc["fifo, 8 nodes", WAIT] = "5.9 (1.5 to 13.6)"
    assert not pays_beside_twice(options, record, said)


def test_the_waits_beside_twice_the_gpus_are_those_of_the_package():
    same = dict(mix="mixed", weeks=12, skew=2, progress=False)
    weeks = [cb.planning.cluster_weeks([name], load=0.8, nodes=8, **same) for name in ("fifo", "backfill", "fair")]
    weeks.append(cb.planning.cluster_weeks(["static"], load=0.4, nodes=16, **same).assign(load=0.8))
    for one in cb.planning.cluster_gains(pd.concat(weeks), against="static").itertuples():
        assert f"{one.policy} × {one.wait:.1f} ({one.wait_low:.1f} to {one.wait_high:.1f})" in decision("13")[BOUGHT]


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
