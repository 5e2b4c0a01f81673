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
    assert all(
        word in load
        for word in ("llama3_8b", "512 sequences", "8,192", "64 GPUs", "software", "bf16", "; attention = flash3")
    )


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


def prose() -> dict[str, str]:
    """Return the text of each cell of the page."""
    return {cell.id: cell.source for cell in nbformat.read(FOLDER / "03-parallelism-trade-offs.ipynb", 4).cells}


def software_decides(ways: pd.DataFrame, first: str, said: dict[str, str], change: str) -> bool:
    """Whether the text names what the table of software shows: recomputation, kernel, longer step and interval."""
    steps, plain = {name: figures(text) for name, text in ways["step, 80 % [s]"].items()}, "megatron-core"
    slow, recomputes = steps["PyTorch FSDP"], ways["fastest FSDP configuration"].str.contains("recomputation")
    return (
        first.split("software = ")[1].startswith(plain)
        and list(ways.index[recomputes]) == ["PyTorch FSDP"]
        and ways["attention"].tolist() == ["flash3", "flash2", "flash2"]
        and 1.41 < slow[0] / steps[plain][0] < 1.5
        and "with it a step takes over 40 % longer" in said["layouts-why"]
        and slow[0] > steps[plain][2]
        and "That estimate is outside the interval for Megatron-Core." in said["layouts-why"]
        and "because its kernels are not fused: without recomputation it no longer fits" in said["layouts-why"]
        and "is the attention kernel: FlashAttention 2 instead of 3." in said["layouts-why"]
        and all("NVIDIA's Megatron-Core" in said[cell] for cell in ("memory-why", "layouts-why"))
        and change.startswith("other software, ")
    )


def test_the_software_decides_more_than_the_interval():
    said = prose()
    ways, record = table("03", "software"), decision("03")
    load, change = record["Load"], record["What would change it"]
    assert software_decides(ways, load, said, change)
    job = dict(devices=64, batch=1, global_batch=512, zero=3, tp=1, pp=1, recompute="none")
    for name, row in ways.iterrows():
        step = cb.train_step("llama3_8b", "dgx-h100", software=name, attention=row["attention"], **job)
        fits = step.memory_bytes <= cb.machine("dgx-h100").accelerator.memory_bytes
        assert fits == ("recomputation" not in row.iloc[1])
        assert not fits or row.iloc[2] == f"{step.point:#.3g} ({step.low80:#.3g} to {step.high80:#.3g})"
    assert not software_decides(ways, load, said, change.removeprefix("other software, "))
    assert not software_decides(ways, load.replace("megatron-core", "PyTorch FSDP"), said, change)
    for column, text in enumerate(("flash1", "ZeRO 3, micro-batch 2", "8.60 (7.01 to 10.6)")):
        other = ways.copy()
        other.iloc[2, column] = text
        assert not software_decides(other, load, said, change)


def shares(steps: list[float], words: str) -> bool:
    """Whether recomputation is over half of the difference, and the attention kernel over half of the rest."""
    fast, again, kernel, slow = steps
    part, rest = (again - fast) / (slow - fast), (kernel - again) / (slow - again)
    told = "More than half of the difference is the recomputation, and more than half of the rest is the attention"
    return told in words and 0.51 < part < 0.6 and 0.51 < rest < 0.6


def test_the_text_says_what_lengthens_the_step_of_fsdp():
    """The same configuration in the software of the first row, and with its kernel, says how much each part costs."""
    said = prose()["layouts-why"]
    job = dict(devices=64, global_batch=512, zero=3, tp=1, pp=1)
    ways = [
        ("megatron-core", "flash3", "none", 1),
        ("megatron-core", "flash3", "full", 2),
        ("megatron-core", "flash2", "full", 2),
        ("PyTorch FSDP", "flash2", "full", 2),
    ]
    steps = [
        cb.train_step(
            "llama3_8b", "dgx-h100", software=name, attention=kernel, recompute=again, batch=batch, **job
        ).point
        for name, kernel, again, batch in ways
    ]
    shown = table("03", "software")["step, 80 % [s]"].map(lambda text: figures(text)[0])
    assert [shown.iloc[0], shown.iloc[2]] == pytest.approx([steps[0], steps[3]], rel=0.005)
    assert shares(steps, said)
    assert not shares([*steps[:3], 11.2], said) and not shares([steps[0], 8.0, *steps[2:]], said)
    assert not shares(steps, said.replace("More than half of the difference", "Most of the difference"))


def uncertain(short: pd.DataFrame, orders: pd.DataFrame, said: str) -> bool:
    """Whether the text states how far the rows differ, and what our first choice costs where it was measured."""
    most, cost = max(int(text) for text in short["slower than the first [%]"]), 100 * (orders.chosen.max() - 1)
    return (
        f"The rows of the first table differ by {most} % at most." in said
        and f"in measured rankings, our first choice costs up to {cost:.0f} % ([recipe 08]" in said
        and cost > most
    )


def test_the_rows_differ_by_less_than_a_ranking_is_off():
    said = prose()["layouts-why"]
    short, orders = table("03", "layouts"), cb.accuracy(by="layouts", kind="transformer")
    assert uncertain(short, orders, said)
    assert not uncertain(short, orders.assign(chosen=1.05), said)
    assert not uncertain(short.assign(**{"slower than the first [%]": "9"}), orders, said)


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
    every = prose()
    chart = cb.charts.efficiencies(
        pd.DataFrame([{"devices": n, "share": 90.0, "network": "a", "low": 80.0, "high": 90.0} for n in (8, 64)]),
    )
    across = [layer["encoding"]["x"] for layer in chart.to_dict()["layer"] if "x" in layer.get("encoding", {})]
    assert {x["scale"]["domainMin"] for x in across if "scale" in x} == {8}
    assert "counts, drawn = [8," in every["efficiency"]
    assert "lower edge of each band assumes" in every["lines"]


def test_the_rule_of_what_fits_is_named_and_that_of_recipe_01_differs():
    every = prose()
    assert "without an interval" in every["memory-why"] and "[recipe 01]" in every["memory-why"]
    assert "memory, 80 % [GiB]" in table("01", "methods")
