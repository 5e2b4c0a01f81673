"""The decision of recipe 03 follows from its table of configurations and from the price of twice the nodes."""

import itertools
import re

import pandas as pd
import pytest
from records import decision, interval, sources, table, words

import cookbook as cb

SAID = sources("03")

STEP, FULL, MEMORY = "step, 80 % [s]", "of the GPU [%]", "memory [GB]"
SAVED, ELSEWHERE = "per saved day, price quartiles [$]", "In other software (FSDP alone)"


def degrees(name: str) -> list[str]:
    """Return the degrees of tensor, pipeline and context parallelism in the name of a configuration."""
    return re.findall(r"(?:TP|PP|CP) \d+", name)


def test_the_record_follows_from_the_tables():
    """The choice is the fastest that leaves a fifth of the memory, open where intervals overlap."""
    short = table("03", "layouts")
    record = decision("03")
    steps = {name: interval(text) for name, text in short[STEP].items()}
    fits = {name: "yes" if float(full) <= 80 else "probably" for name, full in short[FULL].items()}
    start = min((name for name in steps if fits[name] == "yes"), key=lambda name: steps[name][0])
    quickest = min(steps.values())
    tied = sum(low <= quickest[2] for _, low, _ in steps.values())
    fits_well = [name for name in steps if fits[name] == "yes"]
    second = next(name for name in fits_well if degrees(name) != degrees(start))  # rows are in order of their steps
    price, seconds = cb.planning.hourly_usd("h100-sxm"), 100 * (steps[start][0] + steps[second][0])
    cost = 64 * price.median * seconds / 3600
    choice = (
        f"{'open: ' * (tied > 1)}with megatron-core (tuned), begin with {start} and measure it against {second} "
        f"({short[FULL][second]} % of the memory): a hundred steps of each together take {seconds / 60:.0f} min and "
        f"${cost:.0f}; {tied} of {len(steps)} intervals overlap"
    )
    one, ours, seen, worst = (table("03", "twice").iloc[place] for place in range(4))
    days = [interval(row["days, 80 %"])[0] for row in (one, ours, seen, worst)]
    bills = [float(row["bill [$]"].replace(",", "")) for row in (one, ours, seen, worst)]
    spent = re.search(r"\$[\d,]+ \(days and price quartiles: ([\d,]+) to ([\d,]+)\) at", record["Run (80 %)"])
    ends = [float(end.replace(",", "")) for end in spent.groups()]
    far = [bills[0] * end / days[0] for end in interval(one["days, 80 %"])[1:]]
    prices = [interval(row[SAVED].replace(",", "")) for row in (ours, seen, worst)]
    rises, gone = [bill - bills[0] for bill in bills[1:]], [days[0] - other for other in days[1:]]
    scales = [1, price.low / price.median, price.high / price.median]
    assert fits == short["fits"].to_dict()
    assert record["Choice"] == choice
    assert record["Step (80 %)"] == f"{short[STEP][start]} s, {short[MEMORY][start]} GB per GPU (fits: yes)"
    assert all(
        each == pytest.approx([scale * rise / saved for scale in scales], rel=0.03)
        for each, rise, saved in zip(prices, rises, gone, strict=True)
    )
    assert [float(row["speed-up"]) for row in (ours, seen, worst)] == pytest.approx(
        [days[0] / other for other in days[1:]], rel=0.01
    )
    more = re.search(r"as fast, \$([\d,]+) to \$([\d,]+) more", record["Twice the nodes"])
    ends_of_more = [float(end.replace(",", "")) for end in more.groups()]
    assert ends_of_more == pytest.approx(rises[:2], abs=1)  # differences of bills in whole dollars
    assert record["Twice the nodes"].startswith(
        f"{seen['speed-up']} to {ours['speed-up']} times as fast, ${more[1]} to ${more[2]} more: worth "
        f"it if a saved day is worth more than ${seen[SAVED]} to you, not worth it below ${ours[SAVED]} (in "
    )
    assert (
        f"largest loss of the six measured models, {worst['speed-up']} times as fast and ${worst[SAVED]} per saved"
        in record["Twice the nodes"]
    )
    assert record["Run (80 %)"].startswith(f"{one['days, 80 %']} days; ${one['bill [$]']} (")
    assert days[0] == pytest.approx(1e11 / (512 * 8192) * steps[start][0] / 86400, rel=0.01)  # goodput is 99.7 %
    assert ends == pytest.approx([far[0] * price.low / price.median, far[1] * price.high / price.median], rel=0.01)
    assert words("03", "twice").splitlines()[0] in record["Run (80 %)"]
    assert re.search(r"20\d\d-\d\d", record["Run (80 %)"]) is not None


def test_the_record_names_what_it_assumes():
    load = decision("03")["Load"]
    assert all(
        word in load
        for word in ("llama3_8b", "512 sequences", "8,192", "64 GPUs", "software", "bf16", "; attention = flash3")
    )


def test_days_and_bill_are_those_of_the_chosen_configuration_and_of_the_largest_loss():
    """Another way: steps of the configuration, counted, and the losses of the six models from the published steps."""
    job = dict(tp=2, sequence_parallel=True, pp=1, zero=1, batch=1, global_batch=512, recompute="none")
    steps = [cb.train_step("llama3_8b", "dgx-h100", devices=devices, **job).point for devices in (64, 128)]
    runs = cb.accuracy(by="row", kind="transformer", publishers=["mosaicml"], accelerators=["h100-sxm"])
    runs = runs[runs.devices.isin([128, 512])].assign(off=runs.measured / runs.predicted)
    off = runs.pivot(index="model", columns="devices", values="off")
    loss = (off[512] / off[128]) ** 0.5
    assert len(loss) == 6
    gains = [steps[0] / steps[1] / each for each in (1, loss.median(), loss.max())]
    worth = table("03", "twice")
    assert [float(text) for text in worth["speed-up"][1:]] == pytest.approx(gains, abs=0.006)
    assert worth.index[3] == "128 GPUs, largest loss"
    days = 1e11 / (512 * 8192) * steps[0] / 86400
    assert interval(worth.iloc[0, 0])[0] == pytest.approx(days, rel=0.01)
    bill = float(worth.iloc[0, 2].replace(",", ""))
    assert bill == pytest.approx(days * 24 * 64 * cb.planning.hourly_usd("h100-sxm").median, rel=0.01)


def test_the_record_names_a_configuration_for_each_software():
    ways, said = table("03", "software"), decision("03")[ELSEWHERE]
    parts = [f"{name} with {row.iloc[1]}: {row.iloc[2]} s (fits: {row.iloc[4]})" for name, row in ways[1:].iterrows()]
    assert said == "; ".join(parts) and "torchtitan" in said and "PyTorch FSDP" in said


def test_the_software_decides_more_than_the_interval():
    """The text names what the table of software shows: recomputation, kernel, longer step and interval."""
    said = SAID
    ways, record = table("03", "software"), decision("03")
    load, change = record["Load"], record["What would change it"]
    steps, plain = {name: interval(text) for name, text in ways["step, 80 % [s]"].items()}, "megatron-core"
    slow, recomputes = steps["PyTorch FSDP"], ways["fastest FSDP configuration"].str.contains("recomputation")
    assert load.split("software = ")[1].startswith(plain)
    assert list(ways.index[recomputes]) == ["PyTorch FSDP"]
    assert ways["attention"].tolist() == ["flash3", "flash2", "flash2"]
    assert 1.41 < slow[0] / steps[plain][0] < 1.5
    assert (
        "a step with FSDP alone takes more than 40 % longer than one in Megatron-Core (less if CP is added)"
        in said["layouts-why"]
    )
    assert slow[0] > steps[plain][2]
    assert "Such a step takes longer than the top of Megatron-Core's interval." in said["layouts-why"]
    assert "because its kernels are not fused. Without recomputation, the model does not fit;" in said["layouts-why"]
    assert "the attention kernel (FlashAttention 2 instead of 3) for" in said["layouts-why"]
    assert all("NVIDIA's Megatron-Core" in said[cell] for cell in ("memory-why", "layouts-why"))
    assert change.startswith("other software, ")
    job = dict(devices=64, batch=1, global_batch=512, zero=3, tp=1, pp=1, recompute="none")
    for name, row in ways.iterrows():
        step = cb.train_step("llama3_8b", "dgx-h100", software=name, attention=row["attention"], **job)
        fits = step.memory_bytes <= cb.machine("dgx-h100").accelerator.memory_bytes
        assert fits == ("recomputation" not in row.iloc[1])
        assert not fits or row.iloc[2] == f"{step.point:#.3g} ({step.low80:#.3g} to {step.high80:#.3g})"


def test_the_text_says_what_lengthens_the_step_of_fsdp():
    """Recomputation is about half of the difference, and the kernel a fifth to a quarter, in any order.

    Each change at a time, in each order, from the configuration of the first row to that of the last.
    """
    said = SAID["layouts-why"]
    job = dict(devices=64, global_batch=512, zero=3, tp=1, pp=1)
    ends = {
        "software": [dict(software="megatron-core"), dict(software="PyTorch FSDP")],
        "attention": [dict(attention="flash3"), dict(attention="flash2")],
        "recompute": [dict(recompute="none", batch=1), dict(recompute="full", batch=2)],
    }
    steps = {}
    for chosen in itertools.product((0, 1), repeat=3):
        given = [ends[name][end] for name, end in zip(ends, chosen, strict=True)]
        steps[chosen] = cb.train_step("llama3_8b", "dgx-h100", **job, **given[0], **given[1], **given[2]).point
    shown = table("03", "software")["step, 80 % [s]"].map(lambda text: interval(text)[0])
    assert [shown.iloc[0], shown.iloc[2]] == pytest.approx([steps[0, 0, 0], steps[1, 1, 1]], rel=0.005)
    parts, whole = {name: [] for name in ends}, steps[1, 1, 1] - steps[0, 0, 0]
    for place, name in enumerate(ends):
        for before in (each for each in steps if not each[place]):
            after = (*before[:place], 1, *before[place + 1 :])
            parts[name].append((steps[after] - steps[before]) / whole)
    told = (
        "Recomputation accounts for about half of the difference, and the attention kernel (FlashAttention 2 instead "
        "of 3) for a fifth to a quarter."
    )
    assert told in said
    assert all(0.45 < share < 0.6 for share in parts["recompute"])
    assert all(0.195 < share < 0.26 for share in parts["attention"])
    assert max(parts["attention"]) - min(parts["attention"]) > 0.03
    with_cp = cb.search("llama3_8b", "dgx-h100", 64, 512, software="PyTorch FSDP", attention="flash2").table
    roomy = with_cp[with_cp.memory_bytes <= 4 * with_cp.headroom_bytes].iloc[0]
    assert roomy.cp > 1 and roomy.step_seconds < 0.95 * steps[1, 1, 1], "less together with CP"


def test_the_rows_differ_by_less_than_a_ranking_is_off():
    """The text states how far the rows differ, and how far our first choice is off where it was measured."""
    said = SAID["layouts-why"]
    short, orders = table("03", "layouts"), cb.accuracy(by="layouts", kind="transformer")
    most = max(int(text) for text in short["slower than the first [%]"])
    few, more, many = (
        100 * (orders.chosen[rows].max() - 1)
        for rows in (orders.devices == 64, orders.devices == 128, orders.devices >= 256)
    )
    ranked = cb.accuracy(by="row", kind="transformer", publishers=sorted(set(orders.publisher)))
    assert f"The step times in the first table differ by {most} % at most." in said
    assert f"the rest is still larger than {most} %: in measured rankings, all on A100s, our first" in said
    assert (
        f"choice is slower than the fastest configuration by up to {few:.0f} % on 64 GPUs, {more:.0f} % on 128" in said
    )
    assert f"on 128 and {many:.0f} % on 256 or more" in said
    assert few > most
    assert set(ranked.accelerator[ranked.model.isin(orders.model)]) == {"a100-sxm-80gb"}


def test_the_text_says_that_every_measured_step_is_longer():
    """The text says by how much the measured steps of six models exceed the predicted ones."""
    said, measured = SAID["measured-why"], table("03", "measured")
    steps = measured[["measured [s]", "predicted, 80 % [s]"]].map(lambda text: float(text.split()[0]))
    longer = 100 * (steps["measured [s]"] / steps["predicted, 80 % [s]"] - 1)
    told = f"all six steps took {longer.min():.0f} to {longer.max():.0f} % longer than predicted"
    assert told in said
    assert len(longer) == 6


def test_the_chart_of_tokens_names_both_sides_of_the_limit():
    """Above the limit, the share that still shows is that of the longest sequence, over what is sent."""
    left = cb.train_step(
        "llama3_8b", "dgx-h100", devices=64, batch=1, global_batch=64, zero=3, tp=1, pp=1, recompute="none", seq=8192
    ).by_part["data-parallel communication"]
    sent = 6 * cb.model("llama3_8b").ops.parameter_count / 400e9
    assert f"at 8,192, {100 * left / sent:.0f} % still shows" in words("03", "tokens") and 0.45 < left / sent < 0.55
    assert "most below the limit, and about half even above it." in SAID["sending-why"]


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
    every = SAID
    chart = cb.charts.efficiencies(
        pd.DataFrame([{"devices": n, "share": 90.0, "network": "a", "low": 80.0, "high": 90.0} for n in (8, 64)]),
    )
    across = [layer["encoding"]["x"] for layer in chart.to_dict()["layer"] if "x" in layer.get("encoding", {})]
    assert {x["scale"]["domainMin"] for x in across if "scale" in x} == {8}
    assert "counts, drawn = [8," in every["efficiency"]
    assert "lower edge of each band assumes" in every["lines"]


def test_the_rule_of_what_fits_is_named_and_that_of_recipe_01_differs():
    every = SAID
    assert "without an interval" in every["memory-why"] and "[recipe 01]" in every["memory-why"]
    assert "memory, 80 % [GiB]" in table("01", "methods")
