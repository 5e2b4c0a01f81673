"""The decision of recipe 08 follows from its tables of offers, configurations and losses."""

import math
import re

import nbformat
import pandas as pd
import pytest
from records import FOLDER, decision, table, words

import cookbook as cb

DAYS, STEP = "days, 80 %", "step, 80 % [s]"


def figures(text: str) -> list[float]:
    """Return the point and both ends of a text such as 22.4 (18.3 to 27.5)."""
    return [float(part) for part in re.fullmatch(r"([\d.]+) \(([\d.]+) to ([\d.]+)\)", text).groups()]


def follows(offers: pd.DataFrame, short: pd.DataFrame, waste: pd.DataFrame, record: dict[str, str]) -> bool:
    """Whether the plan is the fewest GPUs in time at the top, and each figure is repeated from its table."""
    deadline = float(re.search(r", of (\d+)$", record["Days (80 %)"])[1])
    days = {name: figures(text) for name, text in offers[DAYS].items()}
    told = [["yes" if figure <= deadline else "no" for figure in (point, high)] for point, _, high in days.values()]
    firm, hoped = (next(name for name, row in days.items() if row[end] <= deadline) for end in (2, 0))
    plan = f"{firm} meet the deadline by the interval, {hoped.split()[0]} by the estimate"
    begun, offered, near, of = re.search(
        r"begin with (.+); on ([\d,]+ GPUs), (\d+) of (\d+) intervals", record["Configuration"]
    ).groups()
    degrees = math.prod(int(degree) for degree in re.findall(r"\b(?:TP|PP|CP|DP) (\d+)", begun))
    steps = {name: figures(text) for name, text in short[STEP].items()}
    start = min((name for name in steps if short["fits"][name] == "yes"), key=lambda name: steps[name][0])
    tied = sum(low <= min(steps.values())[2] for _, low, _ in steps.values())
    bill = next(name for name in offers if name.startswith("bill"))
    paid = words("08", "plans").split(";")[0]
    return (
        offers[["deadline met by the estimate", "deadline met by the interval"]].to_numpy().tolist() == told
        and record["Plan"] == plan
        and record["Days (80 %)"].startswith(f"{offers[DAYS][firm]} on {firm}")
        and record["Configuration"].startswith("open: " * (tied > 1) + "begin with")
        and re.sub(r"DP \d+", "", begun) == re.sub(r"DP \d+", "", start)
        and begun.startswith(f"{offers['fastest configuration'][firm]}, ZeRO")
        and degrees == int(firm.split()[0].replace(",", ""))
        and (int(near), int(of)) == (tied, len(steps))
        and offered in offers.index
        and record["Bill"].startswith(f"${offers[bill][firm]} million at {paid}")
        and re.search(r"20\d\d-\d\d", record["Bill"]) is not None
        and record["Useful time"].startswith(f"{waste['useful time [%]'].iloc[0]} % on {firm}")
        and waste.index[0].endswith(f" on {firm.split()[0]}")
        and f"every {waste['checkpoint every [min]'].iloc[0]} minutes" in record["Useful time"]
        and interleaves(begun, record["Load"])
    )


def interleaves(begun: str, batch: str) -> bool:
    """Whether the first configuration names its chunks, and they get whole rounds of micro-batches."""
    stages, replicas = (int(re.search(rf"{axis} (\d+)", begun)[1]) for axis in ("PP", "DP"))
    chunks, micro = (re.search(words, begun) for words in (r"(\d+) chunks per stage", r"micro-batch (\d+)"))
    fed = int(re.search(r"(\d+) sequences per step", batch)[1]) / replicas / int(micro[1])
    return chunks is not None and int(chunks[1]) > 1 and fed % stages == 0


def read() -> dict[str, pd.DataFrame]:
    """Return the tables that the record follows from."""
    return {"offers": table("08", "offers"), "short": table("08", "layouts"), "waste": table("08", "goodput")}


def test_the_record_follows_from_the_tables():
    assert follows(**read(), record=decision("08", "record-form"))


def test_the_bill_is_that_of_its_days_and_price():
    offers, price = read()["offers"], float(re.match(r"\$([\d.]+)", words("08", "plans"))[1])
    bill = next(name for name in offers if name.startswith("bill"))
    for name, text in offers[bill].items():
        count = int(name.split()[0].replace(",", ""))
        assert figures(text)[0] * 1e6 == pytest.approx(count * 24 * figures(offers[DAYS][name])[0] * price, rel=0.01)


def test_the_record_names_what_it_assumes():
    record = decision("08", "record-form")
    part = int(re.match(r"[\d,]+", record["Plan"])[0].replace(",", "")) // 16
    batch = f"{2 * part * round(256 / part)} sequences per step"
    assert all(word in record["Load"] for word in ("llama3_70b", batch, "8,192", "software", "bf16"))


def test_no_output_answers_the_vote_on_failures_before_it_is_asked():
    path = next(FOLDER.glob("08-*.ipynb"))
    every = nbformat.read(path, as_version=4).cells
    asked = next(place for place, cell in enumerate(every) if cell.id == "failures")
    told = [
        place for place, cell in enumerate(every) if re.search(r"[Ff]ailures?:? (one )?every", str(cell.get("outputs")))
    ]
    assert told and min(told) > asked


def test_the_two_losses_and_the_useful_time_do_not_add_up_exactly():
    rest = table("08", "goodput")[["writing and redoing [%]", "restarts [%]"]].astype(float).sum(axis=1)
    useful = table("08", "goodput")["useful time [%]"].map(lambda text: figures(text)[0])
    apart = rest + useful - 100
    assert 0.15 < apart.max() < 1 and apart.min() > -0.15, "the text says that the two do not add up exactly"


def test_the_measured_steps_are_inside_their_intervals():
    near = table("08", "near")
    inside = [
        low <= float(measured) <= high
        for measured, text in zip(near["measured [s]"], near["predicted, 80 % [s]"], strict=True)
        for _, low, high in [figures(text)]
    ]
    assert all(inside), "the text says that the intervals contain these steps"


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("480 sequences", "540 sequences"),  # nine micro-batches on two stages
        (", 4 chunks per stage", ""),  # the name of another configuration
        ("4 chunks", "1 chunks"),
        ("micro-batch 1", "micro-batch 8"),  # no whole number of micro-batches
    ],
)
def test_a_first_configuration_that_the_software_refuses_does_not_follow(old, new):
    record = decision("08", "record-form")
    assert old in record["Load"] + record["Configuration"]
    changed = {label: record[label].replace(old, new) for label in ("Load", "Configuration")}
    assert not follows(**read(), record=record | changed)


def test_the_badge_of_failures_counts_the_rates_that_were_read():
    how = list(cb.table("long_runs")["how"])
    read, recalled = (how.count(word) for word in ("seen", "recalled"))
    assert read + recalled == len(how) and f"[failures: {read} read, {recalled} recalled]" in words("08", "panel")
    assert "Three of the five are recalled" in (FOLDER / "08-train-a-transformer.ipynb").read_text()
    assert (recalled, len(how)) == (3, 5)


@pytest.mark.parametrize(
    ("which", "place", "column", "text"),
    [
        ("offers", 4, DAYS, "23.9 (19.5 to 31.5)"),  # late at the top
        ("offers", 3, DAYS, "25.2 (20.5 to 29.1)"),  # fewer are in time
        ("offers", 1, DAYS, "29.6 (28.3 to 42.6)"),  # fewer by the estimate
        ("offers", 4, "bill [$ million]", "1.95 (1.02 to 2.95)"),
        ("offers", 4, "fastest configuration", "TP 8, PP 4, DP 30"),
        ("short", 0, "fits", "probably"),
        ("short", 3, STEP, "6.17 (5.40 to 7.11)"),  # no longer tied
        ("waste", 0, "useful time [%]", "92.1 (76.7 to 94.7)"),
    ],
)
def test_another_table_gives_another_record(which, place, column, text):
    tables = read()
    tables[which].iloc[place, tables[which].columns.get_loc(column)] = text
    assert not follows(**tables, record=decision("08", "record-form"))
