"""The decision of recipe 03 follows from its table of configurations and from the price of twice the nodes."""

import re

import nbformat
import pandas as pd
import pytest
from records import FOLDER, decision, table, words

import cookbook as cb

STEP, FULL, MEMORY = "step, 80 % [s]", "of the GPU [%]", "memory [GB]"


def figures(text: str) -> list[float]:
    """Return the point and both ends of a text such as 6.70 (5.46 to 8.23)."""
    return [float(part) for part in re.fullmatch(r"([\d.]+) \(([\d.]+) to ([\d.]+)\)", text).groups()]


def follows(short: pd.DataFrame, worth: pd.DataFrame, record: dict[str, str]) -> bool:
    """Whether the choice is the fastest that leaves a fifth of the memory, open where intervals overlap."""
    steps = {name: figures(text) for name, text in short[STEP].items()}
    fits = {name: "yes" if float(full) <= 80 else "probably" for name, full in short[FULL].items()}
    start = min((name for name in steps if fits[name] == "yes"), key=lambda name: steps[name][0])
    quickest = min(steps.values())
    tied = sum(low <= quickest[2] for _, low, _ in steps.values())
    choice = f"open: begin with {start}; {tied} of {len(steps)} intervals" if tied > 1 else f"begin with {start}"
    one, ours, seen = (worth.iloc[place] for place in range(3))
    gains = [float(row["speed-up"]) for row in (seen, ours)]
    days = [figures(row["days, 80 %"])[0] for row in (one, ours, seen)]
    bills = [float(row["bill [$]"].replace(",", "")) for row in (one, ours, seen)]
    spent = re.search(r"\$[\d,]+ \(days and price quartiles: ([\d,]+) to ([\d,]+)\) at", record["Run (80 %)"])
    ends = [float(end.replace(",", "")) for end in spent.groups()]
    rises, gone = [bill - bills[0] for bill in bills[1:]], [days[0] - other for other in days[1:]]
    price, other = cb.planning.hourly_usd("h100-sxm"), ", not the chosen one" if start != short.index[0] else ""
    far = [bills[0] * end / days[0] for end in figures(one["days, 80 %"])[1:]]
    prices = [float(row["per day saved [$]"].replace(",", "")) for row in (ours, seen)]
    return (
        fits == short["fits"].to_dict()
        and record["Choice"].startswith(choice)
        and record["Step (80 %)"] == f"{short[STEP][start]} s, {short[MEMORY][start]} GB per GPU (fits: yes)"
        and prices == pytest.approx([rise / saved for rise, saved in zip(rises, gone, strict=True)], rel=0.03)
        and gains == pytest.approx([days[0] / days[2], days[0] / days[1]], rel=0.01)
        and record["Twice the nodes"]
        == f"{gains[0]:.2f} to {gains[1]:.2f} times as fast, ${rises[0]:,.0f} to ${rises[1]:,.0f} more: "
        f"worth it if a day is worth ${prices[0]:,.0f} to ${prices[1]:,.0f} or more, if you rent by the hour; "
        "more may be lost, because the measured batch grew with the cluster; reserved or bought nodes cost more"
        and record["Run (80 %)"].startswith(
            f"{one['days, 80 %']} days with the fastest configuration{other}; ${one['bill [$]']} ("
        )
        and ends == pytest.approx([far[0] * price.low / price.median, far[1] * price.high / price.median], rel=0.01)
        and f"${ends[0] / 1e3:.3g} k to ${ends[1] / 1e3:.3g} k at the price quartiles" in words("03", "panel")
        and words("03", "twice").splitlines()[0] in record["Run (80 %)"]
        and re.search(r"20\d\d-\d\d", record["Run (80 %)"]) is not None
    )


def test_the_record_follows_from_the_tables():
    assert follows(table("03", "layouts"), table("03", "twice"), decision("03"))


def test_the_record_names_what_it_assumes():
    load = decision("03")["Load"]
    assert all(word in load for word in ("llama3_8b", "512 sequences", "8,192", "64 GPUs", "software", "bf16"))


@pytest.mark.parametrize(
    ("which", "place", "column", "text"),
    [
        ("short", 1, FULL, "85"),  # no longer leaves a fifth of the memory
        ("short", 1, STEP, "6.99 (5.51 to 8.30)"),  # another one is faster
        ("short", 6, STEP, "9.90 (8.80 to 11.10)"),  # no longer tied
        ("worth", 2, "bill [$]", "9,875"),
        ("worth", 1, "days, 80 %", "1.10 (0.90 to 1.30)"),
        ("worth", 0, "bill [$]", "8,000"),
        ("worth", 0, "days, 80 %", "1.86 (1.71 to 2.28)"),  # its bill at the low end parts from the range of the panel
        ("short", 0, FULL, "75"),  # the fastest leaves a fifth of the memory, and is chosen
    ],
)
def test_another_table_gives_another_record(which, place, column, text):
    tables = {"short": table("03", "layouts"), "worth": table("03", "twice")}
    tables[which].iloc[place, tables[which].columns.get_loc(column)] = text
    assert not follows(tables["short"], tables["worth"], decision("03"))


def software_decides(ways: pd.DataFrame, first: str, said: dict[str, str], change: str) -> bool:
    """Whether the text names what the table of software shows: recomputation, the longer step and the interval."""
    steps, plain = {name: figures(text) for name, text in ways["step, 80 % [s]"].items()}, "megatron-core"
    slow, recomputes = steps["PyTorch FSDP"], ways["fastest FSDP configuration"].str.contains("recomputation")
    return (
        first.split("software = ")[1].startswith(plain)
        and list(ways.index[recomputes]) == ["PyTorch FSDP"]
        and 1.5 < slow[0] / steps[plain][0] < 1.7
        and "a step takes more than half as long again" in said["layouts-why"]
        and slow[0] > steps[plain][2]
        and "That estimate is outside the interval for Megatron-Core." in said["layouts-why"]
        and "without recomputation it no longer fits" in said["layouts-why"]
        and all("NVIDIA's Megatron-Core" in said[cell] for cell in ("memory-why", "layouts-why"))
        and change.startswith("other software, ")
    )


def test_the_software_decides_more_than_the_interval():
    said = {cell.id: cell.source for cell in nbformat.read(FOLDER / "03-parallelism-trade-offs.ipynb", 4).cells}
    ways, record = table("03", "software"), decision("03")
    load, change = record["Load"], record["What would change it"]
    assert software_decides(ways, load, said, change)
    job = dict(devices=64, batch=1, global_batch=512, zero=3, tp=1, pp=1, recompute="none")
    for name, row in ways.iterrows():
        step = cb.train_step("llama3_8b", "dgx-h100", software=name, **job)
        fits = step.memory_bytes <= cb.machine("dgx-h100").accelerator.memory_bytes
        assert fits == ("recomputation" not in row.iloc[0])
        assert not fits or row.iloc[1] == f"{step.point:#.3g} ({step.low80:#.3g} to {step.high80:#.3g})"
    assert not software_decides(ways, load, said, change.removeprefix("other software, "))
    assert not software_decides(ways, load.replace("megatron-core", "PyTorch FSDP"), said, change)
    for column, text in enumerate(("ZeRO 3, micro-batch 2", "8.60 (7.01 to 10.6)")):
        other = ways.copy()
        other.iloc[2, column] = text
        assert not software_decides(other, load, said, change)


def title(small: tuple[float, float], large: tuple[float, float]) -> str:
    """Return the finding of the chart of efficiencies, from the ends of the bands of two batches at 1,024 GPUs."""
    low, high = (f"{each[0]:.0f} to {each[1]:.0f} %" for each in (small, large))
    return f"At 1,024 GPUs the small batch keeps {low} efficiency, the large one {high}"


def test_the_title_of_the_chart_names_both_ends_of_its_bands():
    """Points alone leave out what measured clusters lost from 128 to 512 GPUs, as the table below the chart has it."""
    kept = table("03", "measured")[["measured [s]", "predicted, 80 % [s]"]]
    assert len(kept) == 6
    runs = cb.accuracy(by="row", kind="transformer", publishers=["mosaicml"], accelerators=["h100-sxm"])
    runs = runs[runs.devices.isin([128, 512])].assign(off=runs.measured / runs.predicted)
    off = runs.pivot(index="model", columns="devices", values="off")
    loss = (off[512] / off[128]).median() ** 3.5  # doublings of 8 to 1,024 are seven, of 128 to 512 two
    points = []
    for size in (128, 2048):
        plan = cb.planning.plan_run("llama3_8b", "dgx-h100", [8, 16, 32, 1024], 1e9, global_batch=size).table
        each = plan.tokens_per_second / plan.devices
        points.append(100 * each.iloc[-1] / each.max())
    said = words("03", "lines")
    assert title(*[(point / loss, point) for point in points]) in said
    assert title(*[(point, point) for point in points]) not in said
    assert title(*[(point / loss / 1.05, point) for point in points]) not in said


def test_the_chart_of_efficiencies_begins_with_its_data():
    every = {cell.id: cell.source for cell in nbformat.read(FOLDER / "03-parallelism-trade-offs.ipynb", 4).cells}
    chart = cb.charts.efficiencies(
        pd.DataFrame([{"devices": n, "share": 90.0, "network": "a", "low": 80.0, "high": 90.0} for n in (8, 64)]),
    )
    across = [layer["encoding"]["x"] for layer in chart.to_dict()["layer"] if "x" in layer.get("encoding", {})]
    assert {x["scale"]["domainMin"] for x in across if "scale" in x} == {8}
    assert "counts, drawn = [8," in every["efficiency"]
    assert "lower edge of each band assumes" in every["lines"]


def test_the_rule_of_what_fits_is_named_and_that_of_recipe_01_differs():
    every = {cell.id: cell.source for cell in nbformat.read(FOLDER / "03-parallelism-trade-offs.ipynb", 4).cells}
    assert "without an interval" in every["memory-why"] and "[recipe 01]" in every["memory-why"]
    assert "memory, 80 % [GiB]" in table("01", "methods")
