"""The decision of recipe 05 follows from its table of orders."""

import re

import pandas as pd
import pytest
from records import WAYS, decision, interval, sources, table, words

import cookbook as cb

SAID = sources("05")

DAYS, HOURLY, RESERVED = "days, 80 %", "by the hour [$]", "reserved [$]"
PAID = r"\(days and price quartiles: ([\d,]+) to ([\d,]+)\) by the hour, .+ \(price quartiles: ([\d,]+) to ([\d,]+)\)"


def test_the_record_follows_from_the_orders():
    """The order is the smallest in time at the top of its interval, with the figures of its row."""
    orders = table("05", "orders")
    record = decision("05")
    deadline = float(re.search(r" of (\d+)$", record["Days (80 %)"])[1])
    firm = hoped = None
    for name, row in orders.iterrows():
        point, _, high = interval(row[DAYS])
        answers = ["yes" if days <= deadline else "no" for days in (point, high)]
        assert [row["in time by the estimate"], row["in time by the interval"]] == answers
        hoped = hoped or (name if point <= deadline else None)
        firm = firm or (name if high <= deadline else None)
    row, count = orders.loc[firm], int(firm.split()[0])
    rate = float(re.match(r"\$([\d.]+) per GPU hour", words("05", "plans").splitlines()[1])[1])
    reserved, hourly = (float(row[column].replace(",", "")) for column in (RESERVED, HOURLY))
    days, low, high = interval(row[DAYS])
    ends = [float(end.replace(",", "")) for end in re.search(PAID, record["Price"]).groups()]
    price = cb.planning.hourly_usd("h100-sxm")
    assert re.match(rf"{count} × \S+ \(by the estimate: {int(hoped.split()[0])}\)$", record["Order"]) is not None
    assert record["Days (80 %)"] == f"{row[DAYS]} of {deadline:.0f}"
    assert reserved == pytest.approx(count * 24 * deadline * rate, rel=0.005)
    assert hourly == pytest.approx(count * 24 * days * rate, rel=0.005)
    assert record["Price"].startswith(f"${row[HOURLY]} (")
    assert f") by the hour, ${row[RESERVED]} (price quartiles: " in record["Price"]
    assert ends[:2] == pytest.approx(
        [hourly * end / days * usd / rate for end, usd in ((low, price.low), (high, price.high))], rel=0.01
    )
    assert ends[2:] == pytest.approx([reserved * usd / rate for usd in (price.low, price.high)], rel=0.001)
    assert words("05", "plans").splitlines()[1] in record["Price"]
    assert re.search(r"20\d\d-\d\d", record["Price"]) is not None


def test_the_record_names_what_it_assumes_and_repeats_the_coverage():
    """The record repeats the share below the top and says of which publishers it is the mean."""
    record, line = decision("05"), words("05", "publishers").splitlines()[0]
    assert all(word in record["Load"] for word in ("llama3_8b", "sequences", "8,192", "software", "bf16"))
    whose, share = re.fullmatch(r"mean of (.+): \d+ % inside, (\d+) % at or below the top", line).groups()
    assert record["Runs no slower than the top of their interval"].startswith(f"{share} %, the mean of {whose}; ")
    plan = cb.planning.plan_run("llama3_8b", "h100-sxm", 56, 1e12, global_batch=504).table.iloc[0]
    room = cb.accelerator("h100-sxm").memory_bytes
    held = (
        f"; TP {plan.tp}, micro-batch {plan.micro_batch}, {plan.memory_bytes / 1e9:.0f} of {room / 1e9:.0f} GB per GPU"
    )
    assert plan.memory_bytes > 0.8 * room and f"{held}, which probably fits; if not, TP " in record["Load"]
    tp, micro, size = map(int, re.search(r"if not, TP (\d+), micro-batch (\d+), (\d+) GB$", record["Load"]).groups())
    other = dict(tp=tp, pp=1, zero=1, recompute="none", sequence_parallel=True)
    step = cb.train_step("llama3_8b", "h100-sxm", devices=56, global_batch=504, batch=micro, **other)
    assert step.memory_bytes / 1e9 == pytest.approx(size, abs=0.5) and step.memory_bytes < 0.8 * room


def test_the_two_means_over_publishers_are_told_apart():
    """The text tells the mean of the panel, of all publishers by weight, from that of the printed line."""
    rows, panel = cb.accuracy(by="row", kind="transformer"), words("05", "panel")
    line = words("05", "publishers").splitlines()[0]
    said = SAID["explain2"]
    inside = rows.measured.between(rows.low_80, rows.high_80).groupby(rows.publisher)
    weight, large = inside.size().div(10).clip(upper=1), inside.size() >= 30
    every, some = 100 * (inside.mean() * weight).sum() / weight.sum(), 100 * inside.mean()[large].mean()
    assert f"{every:.0f} % as the mean over publishers" in panel
    assert f"[{len(weight)} publishers]" in panel
    assert f"mean of the {large.sum()} publishers with at least 30 runs: {some:.0f} % inside" in line
    assert "Each publisher counts once, and one with fewer than ten runs counts in proportion" in said
    assert f"for the twelve publishers with at least 30 runs; the panel shows the mean for all {len(weight)}." in said
    assert large.sum() == 12


def test_the_question_on_the_order_states_the_factor():
    """The question gives the printed days, and the answer their factor: from a fifth to a quarter more."""
    line, asked = words("05", "plans").splitlines()[0], words("05", "predict3")
    factor = float(re.search(r"a factor of ([\d.]+)", line)[1])
    gpus, point, top = re.search(r"from (\d+) GPUs, ([\d.]+) days and ([\d.]+) at the top", line).groups()
    stated = f"{gpus} H100s take {point} days by the estimate, and {top} days at the top of the interval. How many more"
    question, answer = asked.split("Answer: ")
    assert 1.2 < factor < 1.25
    # All three are rounded: the factor to two digits behind the point, days to one.
    least, most = (float(top) - 0.05) / (float(point) + 0.05), (float(top) + 0.05) / (float(point) - 0.05)
    assert least - 0.005 <= factor <= most + 0.005 and most - least < 0.007
    assert stated in question
    assert "above the point" not in question
    assert "a little over a fifth more:" in answer


ENDS = ("estimate", "interval")


def in_time(count: int, software: str, end: str, **how) -> float:
    """Return the days of the job of the page on a number of GPUs, at one end of the interval."""
    how = WAYS[software] | how
    plan = cb.planning.plan_run(
        "llama3_8b", "h100-sxm", count, 1e12, global_batch=count * round(512 / count), software=software, **how
    )
    assert software == "megatron-core" or plan.layouts.table.zero[0] >= 2, "FSDP has no ZeRO 1"
    return plan.table[end][0]


def test_the_software_decides_more_than_the_interval():
    """The first software is that of the orders, and another one needs more than the interval adds to it."""
    ways, orders, record, said = table("05", "software"), table("05", "orders"), decision("05"), SAID["explain3"]
    counts = ways.map(lambda text: int(text.split()[0]))
    ours = [next(name for name in orders.index if orders[f"in time by the {end}"][name] == "yes") for end in ENDS]
    assert ways.loc["megatron-core"].tolist() == ours
    assert "software = megatron-core" in record["Load"]
    assert counts.loc["PyTorch FSDP"].iloc[0] > counts.loc["megatron-core"].iloc[1]
    assert (
        "Both PyTorch rows assume FlashAttention 2; the Megatron-Core row assumes FlashAttention 3. Even by the "
        "estimate, PyTorch FSDP, whose kernels are not fused, needs more GPUs than Megatron-Core does at the top of "
        "its interval. With an older attention kernel, PyTorch FSDP needs even more GPUs." in said
    )
    assert "FSDP shards the gradients as well, so ZeRO 1 is left out" in said
    assert "; attention = flash3" in record["Load"]
    assert "The orders above are for NVIDIA's Megatron-Core" in said
    assert record["What would change it"].startswith(
        f"other software ({', '.join(f'{name}: {need}' for name, need in ways.iloc[1:, 1].items())}), "
    )
    for software, shown in ways.iterrows():
        for end, text in zip(("days", "days_high"), shown, strict=True):
            order = int(text.split()[0])
            fewer = max(int(name.split()[0]) for name in orders.index if int(name.split()[0]) < order)
            assert in_time(order, software, end) < 0.997 * 28 < 1.003 * 28 < in_time(fewer, software, end)
            older = dict(attention="flash1")
            assert software != "PyTorch FSDP" or in_time(order, software, end, **older) > 28, "an older kernel is late"
    assert cb.planning.plan_run("llama3_8b", "h100-sxm", 56, 1e12, global_batch=504).assumed.count("attention = flash3")


def test_the_order_grows_by_whole_nodes():
    """The text rounds both numbers computed by hand up to the orders of the table, which differ by a sixth."""
    line, orders = words("05", "plans").splitlines()[0], table("05", "orders")
    parts = re.search(r"([\d.]+) GPUs by the estimate, ([\d.]+) by the interval", line).groups()
    nodes = [8 * -(-float(part) // 8) for part in parts]
    told = f"Rounded up to whole nodes, {parts[0]} GPUs become {nodes[0]:.0f} and {parts[1]} become {nodes[1]:.0f}"
    assert f"{told}, so this order grows by only a sixth." in SAID["explain3"]
    assert nodes[1] / nodes[0] == pytest.approx(7 / 6)
    assert all(f"{count:.0f} GPUs" in orders.index for count in nodes)


def certainty(said: dict[str, str]) -> float:
    """Return what the plan of exercise 3 pays for certainty [$], in whole nodes."""
    plan = r"run on (\d+) GPUs is planned to take (\d+) days, and the top of its interval is (\d+) days.+ in (\d+) days"
    gpus, days, top, deadline = map(int, re.search(plan, said["turn3"]).groups())
    orders = [8 * -(-gpus * each // (8 * deadline)) for each in (days, top)]
    price = float(re.search(r"\$</span>([\d.]+) per GPU hour", said["turn3"])[1])
    return (orders[1] - orders[0]) * deadline * 24 * price


def test_the_third_exercise_pays_for_whole_nodes():
    assert certainty(SAID) == eval(SAID["solution3"].removeprefix("answer = ")) == 21_120
    assert certainty(SAID | {"turn3": SAID["turn3"].replace("36 days", "42 days")}) != 21_120
    assert "If you reserve, you pay to rent the extra nodes; if you buy, you pay their price." in SAID["explain3"]


def test_the_first_vote_is_of_the_table():
    """The first question gives the error without the run alone, and its answer that without the publisher."""
    errors, asked = table("05", "errors"), words("05", "predict1")
    alone, whole = (
        float(errors.loc[f"other networks, {left} left out"].iloc[1]) for left in ("only the run", "publisher")
    )
    told = f"with a median error of {alone:.0f} %. What is it if"
    assert told in asked
    assert f"Answer: c) about {whole:.0f} %:" in asked


def test_the_closest_runs_are_off_either_way():
    """The text gives how far all runs of 16 bits of the same shape are off, on each side of the estimate.

    All of torchtitan's runs in 16 bits of Llama 3.1 8B on the H100 of 500 W, not those on one side alone.
    """
    rows = cb.accuracy(by="row", kind="transformer").query(
        "publisher == 'torchtitan' and accelerator == 'h100-sxm-96gb-500w' and precision == 'bf16'"
    )
    rows = rows[rows.model == "Llama 3.1 8B"]
    said = SAID["reality"]
    off = 100 * (rows.measured / rows.predicted - 1)
    slower, faster = off[rows.devices != 64], -off[rows.devices == 64]
    assert rows.measured.between(rows.low_80, rows.high_80).all()
    assert len(off) == 6
    assert (
        f"The four runs on 8 and 128 GPUs took {slower.min():.0f} to {slower.max():.0f} % longer than the "
        f"estimate; the two runs on 64 GPUs, with tensor parallelism, "
        f"took {-faster.min():.0f} % more and {faster.max():.0f} % less." in said
    )
    assert "The estimate can be off either way" in said


def chance(shares: pd.Series, runs: pd.Series) -> str:
    """Return the sentence on publishers within the range of chance, and on those that round to its end [%]."""
    numbers = {0: "None", 1: "Only one", 2: "Two", 3: "Three", 12: "twelve"}
    far, width = (shares - 80).abs(), 128 * (0.16 / runs) ** 0.5
    within, edge = (far <= width).sum(), ((far > width) & (shares.round() == (80 + width).round())).sum()
    verb = "publishers is" if within == 1 else "publishers are"
    also = "; another is at its edge" if edge == 1 else f"; {edge} are at its edge" if edge else ""
    return f"{numbers[within]} of these {numbers[len(shares)]} {verb} within the range expected by chance{also}."


def test_how_many_publishers_are_within_chance():
    """Unrounded: a share above the range by a part of a point is at its edge, not within it."""
    shown = table("05", "publishers")
    rows = cb.accuracy(by="row", kind="transformer")
    each = rows.assign(inside=100.0 * rows.measured.between(rows.low_80, rows.high_80)).groupby("publisher").inside
    shares, runs = each.mean()[shown.index], shown["runs"].astype(int)
    assert shares.round().astype(int).tolist() == shown["inside [%]"].astype(int).tolist()
    assert runs.tolist() == each.size()[shown.index].tolist()
    assert chance(shares, runs) in SAID["explain2"]
    for publisher, share in (("oneflow", 60.0), ("nvidia-nemo", 82.0), ("mlcommons", 80.0)):
        other = shares.copy()
        other[publisher] = share
        assert chance(other, runs) not in SAID["explain2"]


def test_no_published_run_of_this_model_is_the_job():
    """The run on one GPU trains adapters and no other does, and the others are on eight GPUs in 8 bits."""
    assert "the run on one GPU trains LoRA adapters only, and the runs on eight GPUs are in 8 bits" in SAID["reality"]
    rows = cb.accuracy(by="row", kind="transformer").query("accelerator == 'h100-sxm'")
    rows = rows[rows.model.str.fullmatch(r"(?i)llama.?3[- _]8b")].sort_values(["devices", "id"])
    adapters = (rows.tier == "low-rank adapters").tolist()
    shown = table("05", "measured")
    gpus, fp8 = shown["GPUs"].astype(int), shown["precision"].str.startswith("fp8")
    alone = gpus == 1
    assert alone.sum() == 1
    assert alone.tolist() == adapters
    assert (fp8 == ~alone).all()
    assert (gpus[~alone] == 8).all()
