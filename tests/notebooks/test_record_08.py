"""The decision of recipe 08 follows from its tables of offers, configurations and losses."""

import math
import re
from types import SimpleNamespace

import nbformat
import pandas as pd
import pytest
from records import FOLDER, WAYS, decision, interval, sources, table, words

import cookbook as cb

SAID = sources("08")

DAYS, STEP, RESTARTS = "days, 80 %", "step, 80 % [s]", "restarts of 11 min [%]"


def chosen(
    offers: pd.DataFrame, days: dict[str, list[float]], deadline: float, firm: str, extra: str, price: str
) -> str:
    """Return how the choice begins: the most GPUs within 1 % of the cheapest bill, and the fewest if reserved."""
    bills = {name: interval(text)[0] for name, text in offers["bill [$ million]"].items()}
    timely = [name for name in offers.index if days[name][2] <= deadline and name != "2,048 GPUs"]  # not on offer
    named = [name for name in timely if bills[name] <= 1.01 * min(bills[each] for each in timely)][-1]
    more, sooner = re.search(
        r"^by the hour, [\d,]+ GPUs instead of \d+: \+([\d,]+) dollars, -([\d.]+) days", extra
    ).groups()
    usd, (least, most) = (
        float(re.match(r"\$([\d.]+) per GPU hour", price)[1]),
        (int(each.split()[0].replace(",", "")) for each in (firm, named)),
    )
    apart = 1e6 * (bills[named] - bills[firm]) - float(more.replace(",", ""))
    if abs(apart) > 1e4 or abs(days[firm][0] - days[named][0] - float(sooner)) > 0.11:
        return "what the page prints of the offers does not follow from their table"
    return (
        f"billed by the hour, take all {named.split()[0]} × h100-sxm: ${bills[named]} million, ${more} more than "
        f"{least}, and finish {sooner} days sooner, with {deadline - days[named][2]:.1f} days to spare at the top of "
        f"the interval instead of {deadline - days[firm][2]:.1f}; reserved for {deadline:.0f} days, take {least} "
        f"(${least * 24 * deadline * usd / 1e6:.2f} million instead of "
        f"${most * 24 * deadline * usd / 1e6:.2f} million), once a few measured steps confirm "
    )


def spans(point: float, least: float, most: float, days: list[float], bill: str) -> bool:
    """Whether the bill is a range over days alone, or names the prices of its ends that the days do not explain."""
    price = float(re.search(r"million by the hour, at \$([\d.]+) per GPU hour", bill)[1])
    named = re.search(r"the range also spans the quartiles of on-demand list prices, \$([\d.]+) to \$([\d.]+)$", bill)
    low, high = map(float, named.groups()) if named else (price, price)
    ends = point * days[1] / days[0] * low / price, point * days[2] / days[0] * high / price
    return [least, most] == pytest.approx(ends, rel=0.01)


def read() -> dict[str, pd.DataFrame]:
    """Return the tables that the record follows from."""
    return {"offers": table("08", "offers"), "short": table("08", "layouts"), "waste": table("08", "goodput")}


def test_the_record_follows_from_the_tables():
    """The first configuration names its chunks, and they get whole rounds of micro-batches.

    The choice is the most GPUs for about the lowest bill, and figures are repeated from the tables.
    """
    offers = read()["offers"]
    short = read()["short"]
    waste = read()["waste"]
    record = decision("08", "record-form")
    deadline, spare = map(
        float, re.search(r", of (\d+); ([\d.]+) to spare at the top, so time", record["Days (80 %)"]).groups()
    )
    days = {name: interval(text) for name, text in offers[DAYS].items()}
    told = [answer(point, high, deadline) for point, _, high in days.values()]
    firm, hoped = (next(name for name, row in days.items() if row[end] <= deadline) for end in (2, 0))
    enough = f"{firm} meet the deadline by the interval, {hoped.split()[0]} by the estimate"
    plan = chosen(offers, days, deadline, firm, words("08", "offers"), words("08", "plans"))
    named = plan.split(" × ")[0].split()[-1] + " GPUs"
    begun, offered, near, of = re.search(
        r"begin with (.+); on ([\d,]+ GPUs), (\d+) of (\d+) intervals", record["Configuration"]
    ).groups()
    degrees = math.prod(int(degree) for degree in re.findall(r"\b(?:TP|PP|CP|DP) (\d+)", begun))
    steps = {name: interval(text) for name, text in short[STEP].items()}
    start = min((name for name in steps if short["fits"][name] == "yes"), key=lambda name: steps[name][0])
    tied = sum(low <= min(steps.values())[2] for _, low, _ in steps.values())
    bill = next(name for name in offers if name.startswith("bill"))
    paid = words("08", "plans").split(";")[0]
    assert offers["deadline met"].tolist() == told
    assert record["Choice"].startswith(plan)
    assert record["Enough"] == enough
    assert record["Days (80 %)"].startswith(f"{offers[DAYS][named]} on {named}")
    assert spare == pytest.approx(deadline - days[named][2], abs=0.06)
    assert record["Configuration"].startswith("open: " * (tied > 1) + "begin with")
    assert re.sub(r"DP \d+", "", begun) == re.sub(r"DP \d+", "", start)
    assert begun.startswith(f"{offers['fastest configuration'][named]}, ZeRO")
    assert degrees == int(named.split()[0].replace(",", ""))
    assert (int(near), int(of)) == (tied, len(steps))
    assert offered in offers.index
    assert record["Bill"].startswith(f"${offers[bill][named]} million by the hour, at {paid}")
    assert spans(*interval(offers[bill][named]), interval(offers[DAYS][named]), record["Bill"])
    assert re.search(r"20\d\d-\d\d", record["Bill"]) is not None
    assert f" % on {named}, with a checkpoint every " in record["Useful time"]
    assert interval(record["Useful time"].split(" %")[0])[0] == pytest.approx(
        interval(waste["useful time [%]"].iloc[0])[0], abs=0.11
    )
    assert waste.index[0].endswith(f" on {firm.split()[0]}")
    assert "slower links or storage than the plan assumes" in record["What would change it"]
    stages, replicas = (int(re.search(rf"{axis} (\d+)", begun)[1]) for axis in ("PP", "DP"))
    chunks, micro = (re.search(words, begun) for words in (r"(\d+) chunks per stage", r"micro-batch (\d+)"))
    fed = int(re.search(r"(\d+) sequences per step", record["Load"])[1]) / replicas / int(micro[1])
    assert chunks is not None
    assert int(chunks[1]) > 1
    assert fed % stages == 0


def test_the_bill_is_that_of_its_days_and_price():
    offers, price = read()["offers"], float(re.match(r"\$([\d.]+)", words("08", "plans"))[1])
    bill = next(name for name in offers if name.startswith("bill"))
    for name, text in offers[bill].items():
        count = int(name.split()[0].replace(",", ""))
        assert interval(text)[0] * 1e6 == pytest.approx(count * 24 * interval(offers[DAYS][name])[0] * price, rel=0.01)


def test_the_record_names_what_it_assumes():
    record = decision("08", "record-form")
    part = int(re.search(r"take all ([\d,]+) ×", record["Choice"])[1].replace(",", "")) // 16
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
    rest = table("08", "goodput")[["writing and recomputing [%]", RESTARTS]].astype(float).sum(axis=1)
    useful = table("08", "goodput")["useful time [%]"].map(lambda text: interval(text)[0])
    apart = rest + useful - 100
    assert 0.15 < apart.max() < 1 and apart.min() > -0.15, "the text says that the two do not add up exactly"


def test_one_measured_step_is_outside_its_interval():
    """The older run of GPT 175B alone is outside, and no row in 16 bits is of the engine of the plan."""
    near, said = table("08", "near"), SAID["cell-17"]
    outside = [
        name
        for name, measured, text in zip(near.index, near["measured [s]"], near["predicted, 80 % [s]"], strict=True)
        for _, low, high in [interval(text)]
        if not low <= float(measured) <= high
    ]
    older = min(name for name in near.index if name.startswith("GPT 175B, 256 GPUs"))
    assert (
        f"One of the {({12: 'twelve'}).get(len(near))} runs is outside its interval: the older run of GPT 175B." in said
    )
    assert outside == [older]
    assert "None of the rows is for Megatron-Core in 16 bits" in said
    assert set(near["precision"][near["software"] == "megatron-core"].str.casefold()) == {"fp8"}


def test_the_engine_of_the_plan_is_judged_in_8_bits():
    """Dense runs of Megatron-Core in 8 bits are as close, by publisher and singly, as the text says."""
    rows, said = cb.accuracy(by="row", kind="transformer"), SAID["cell-17"]
    rows = rows.query("accelerator == 'h100-sxm' and devices >= 64 and software_level == 'megatron-core'")
    dense = rows[~rows.model.str.contains("DeepSeek|Qwen3_235B|GPT OSS")]
    assert "bf16" not in set(dense.precision), "the text says that none is in 16 bits"
    ratio = dense.measured / dense.predicted
    means = 100 * (ratio.groupby(dense.publisher).mean() - 1)
    mean, single = map(int, re.search(r"within (\d) % of our .+ single runs are up to (\d+) % slower", said).groups())
    assert mean - 1 < means.abs().max() <= mean
    assert round(100 * ratio.max() - 100) == single


def slower(near: pd.DataFrame, days: str, words: str) -> bool:
    """Whether the rows of MPT are slower by the share that the text says, and its days are those of such an engine."""
    rows = near[near.index.str.startswith("MPT")]
    late = [100 * float(row.iloc[2]) / interval(row.iloc[3])[0] - 100 for _, row in rows.iterrows()]
    least, most = map(int, re.search(r"runs of MPT are (\d+) to (\d+) % slower than predicted", words).groups())
    share, count, point, top = map(
        int,
        re.search(
            r"(\d+) % slower than predicted, as for MPT, (\d+) GPUs would take (\d+) .+ to (\d+) days by", words
        ).groups(),
    )
    expected = [interval(days)[end] * (1 + share / 100) for end in (0, 2)]
    return (
        (round(min(late)), round(max(late)), len(late)) == (least, most, 4)
        and late[1] < late[2] < late[3]
        and (share, count) == (most, 960)
        and [point, top] == [round(each) for each in expected]
    )


def test_the_rows_of_the_nearest_model_are_all_slower_than_predicted():
    near, days = table("08", "near"), read()["offers"][DAYS]
    words = SAID["cell-17"]
    assert slower(near, days["960 GPUs"], words)
    top = interval(days["1,024 GPUs"])[2]
    assert "before you sign for fewer than 1,024" in words and top * 1.09 <= 30


def test_restarts_cost_more_than_checkpoints_on_many_gpus():
    """The text repeats both losses of the large run, and restarts of five minutes cost their part."""
    waste, words = read()["waste"], SAID["cell-20"]
    written, restarts = waste.iloc[1][["writing and recomputing [%]", RESTARTS]]
    five = re.search(r"took five minutes, restarts would cost ([\d.]+) %", words)[1]
    hours = float(waste.iloc[1]["a failure every [h]"])
    assert "faster restarts would save more than faster checkpoints" in words
    assert f"writing and recomputing together cost {written} %, and restarts {restarts} %" in words
    assert float(restarts) > float(written)
    assert "only one restart time: 11 minutes, the median time between automatic attempts on another cluster" in words
    assert float(five) == pytest.approx(float(restarts) * 5 / 11, abs=0.05)
    assert float(restarts) == pytest.approx(100 * 11 / 60 / hours, rel=0.03)
    assert cb.table("long_runs").restart.dropna().tolist() == [660.0]


def test_the_plan_says_what_storage_it_assumes():
    """Text and record repeat size, seconds and rates of the table, and slow storage misses the deadline."""
    storage, useful = table("08", "storage"), decision("08", "record-form")["Useful time"]
    seconds, top = storage.columns[0], storage.columns[2]
    rate, each = re.fullmatch(r"(\d+) GB/s \((\d+) MB/s per GPU, assumed\)", storage.index[0]).groups()
    size, time = re.search(r"(\d+) GB", seconds)[1], storage[seconds].iloc[0]
    said = f"a checkpoint of Llama 3 70B ({size} GB) takes {time} s if training stops meanwhile and the storage "
    told = f"at 5 GB/s, a checkpoint on 960 GPUs takes {float(storage[seconds]['5 GB/s']):.0f} s"
    late = [name for name, days in storage[top].items() if float(days) > 30]
    assert f"{said}receives {rate} GB/s. That is {each} MB/s per GPU" in SAID["young"]
    assert f"$\\delta$ = {time} s" in SAID["young"]
    assert f"{told}, and 960 GPUs just miss the deadline" in SAID["cell-20"]
    assert (
        f", written in {float(time) * 960 / 1024:.1f} s at {each} MB/s per GPU, assumed, while training stops; from"
        in useful
    )
    assert float(size) / float(time) == pytest.approx(float(rate), rel=0.01)
    assert float(each) * 0.96 == pytest.approx(float(rate), rel=0.01)
    assert late == ["5 GB/s"]
    assert float(storage[top]["5 GB/s"]) < 30.4
    meta = cb.table("long_runs").dropna(subset="storage_write").iloc[0]
    assert meta.storage_write / meta.devices == pytest.approx(122e6, rel=0.002) and meta.devices == 16384


def test_the_order_is_less_certain_on_many_gpus():
    """The printed line and the text count publishers, configurations and the cases on many GPUs as measured."""
    every, line = cb.accuracy(by="layouts", kind="transformer"), words("08", "cell-26")
    said, rows = SAID, len(table("08", "cell-26"))
    wide, share = every[every.devices >= 256], every.groupby("publisher").layouts.sum()
    least, most = (f"{100 * end - 100:.0f}" for end in (wide.chosen.min(), wide.chosen.max()))
    blind = sum(wide.chosen >= wide["median"])
    numbers = {4: "four", 7: "seven"}
    assert (
        line.splitlines()[0] == f"configurations by publisher: {'; '.join(f'{name} {n}' for name, n in share.items())}"
    )
    assert line.splitlines()[1].endswith(f"costs {least} to {most} %, and is no better than a random pick in {blind}")
    assert f"Two publishers, one of which contributes {share.max()} of the {share.sum()} config" in said["cell-09"]
    assert len(share) == 2
    assert (
        f"{numbers.get(len(wide))} of these cases ran on 256 GPUs or more, as your run will. In these cases, our "
        f"first choice takes {least} to {most} % longer than the best, and in {numbers.get(blind)} of the "
        f"{numbers.get(len(wide))} it is no better than a" in said["cell-27"].replace("Seven of", "seven of")
    )
    assert "Each row is the mean of cases that differ in the number of GPUs and in kernels." in said["cell-27"]
    assert len(every[["model", "seq_len"]].drop_duplicates()) == rows < len(every)


def answer(days: float, top: float, deadline: float) -> str:
    """Return by which end a deadline is met; with an estimate within a thousandth of it, the answer is open."""
    edge = abs(days / deadline - 1) < 0.001
    return (
        "by the interval"
        if top <= deadline
        else "on the edge"
        if edge
        else "by the estimate"
        if days <= deadline
        else "no"
    )


def test_the_software_decides_more_than_the_interval():
    """The software of the offers comes first, and the text says which of the others meets the deadline."""
    ways, offers, record, said = (
        table("08", "software"),
        read()["offers"],
        decision("08", "record-form"),
        SAID["cell-14"],
    )
    met = {name.split(",")[0]: row.iloc[1] for name, row in ways.iterrows()}
    assert ways.iloc[0, 0] == offers[DAYS]["1,024 GPUs"]
    assert all(name.endswith(", 1,024 GPUs") for name in ways.index)
    assert all(answer(*interval(row.iloc[0])[::2], 30) == row.iloc[1] for _, row in ways.iterrows())
    assert met == {"megatron-core": "by the interval", "torchtitan": "on the edge", "PyTorch FSDP": "no"}
    assert round(interval(ways.iloc[2, 0])[0] - 30) == 2
    assert "The plan assumes NVIDIA's Megatron-Core" in said
    assert "FSDP shards the gradients as well, so ZeRO 1 is not an option)." in said
    assert "The other two engines use FlashAttention 2 instead of 3." in said
    assert (
        "Even by the estimate, neither is sure to meet the deadline: torchtitan finishes within an hour of the "
        "deadline, and PyTorch FSDP, whose kernels are not fused, finishes two days late." in said
    )
    assert "software = megatron-core" in record["Load"]
    assert "; attention = flash3" in record["Load"]
    assert record["What would change it"].startswith("other software, ")
    for name, row in ways.iterrows():
        job = dict(global_batch=512, software=name.split(",")[0])
        run = cb.planning.plan_run("llama3_70b", "h100-sxm", 1024, 2e12, **job, **WAYS[job["software"]])
        best, split = run.table.iloc[0], run.layouts.table.iloc[0]
        assert row.iloc[0] == f"{best.days:.1f} ({best.days_low:.1f} to {best.days_high:.1f})"
        assert row.iloc[1] == answer(best.days, best.days_high, 30)
        assert abs(best.days - 30) < 1 / 24 or name[:10] != "torchtitan", "the text says within an hour"
        assert split.zero >= 2 or name.startswith("megatron-core"), "FSDP has no ZeRO 1"
    run = cb.planning.plan_run("llama3_70b", "h100-sxm", 1024, 2e12, global_batch=512, software="torchtitan")
    assert "attention = flash2" in run.assumed, "torchtitan's kernel is that of the row of FSDP"


def test_all_gpus_by_the_hour_cost_little_more_and_end_sooner():
    """The text gives what all GPUs cost more by the hour, how much sooner they end, and the cost of a day."""
    said, line = SAID["cell-14"], words("08", "offers")
    more, sooner = re.search(r": \+([\d,]+) dollars, -([\d.]+) days", line).groups()
    day = float(more.replace(",", "")) / float(sooner)
    assert (
        f"1,024 GPUs cost <span>\\$</span>{more} more than 960 (less than 0.1 %) and finish {sooner} days sooner. "
        "Each day gained costs less than <span>\\$</span>1,000." in said
    )
    assert 900 < day < 1000
    few, all_ = (
        cb.planning.plan_run(
            "llama3_70b", "h100-sxm", n, 2e12, global_batch=n // 16 * 2 * round(256 / (n // 16))
        ).table.iloc[0]
        for n in (960, 1024)
    )
    assert 0 < all_.usd - few.usd < 0.001 * few.usd and all_.usd - few.usd == pytest.approx(1400, abs=50)


def written_record(**changed) -> dict[str, str]:
    """Return the decision that the page writes with changed parameters."""
    said, names, told = SAID, {}, []
    for cell in ("cell-01", "cell-02"):
        exec(said[cell], names)
    names |= changed
    for cell in ("cell-07", "layouts", "plans", "offers", "goodput", "storage"):
        exec(said[cell], names)
    panels = SimpleNamespace(record=lambda question, decided: told.append(decided))
    names["cb"] = SimpleNamespace(table=cb.table, panels=panels)
    exec(said["record-form"], names)
    return told[0]


def test_the_record_takes_the_cheaper_and_faster_offer_and_uses_figures_of_the_reader():
    small = dict(model="llama2_7b", machine="a100-sxm-80gb", devices=64, tokens=10**11, deadline=7)
    yours = {"hourly": 1.5, "checkpoint_bandwidth": 5e10, "mtbf_hours": 43_800}
    record = written_record(**small, yours=yours)
    assert record["Choice"].startswith("billed by the hour, take all 64 × a100-sxm-80gb: $9.1")
    assert re.search(r", \$\d+ less than 48, .+; reserved for 7 days, take 48 \(", record["Choice"])
    assert " s at your rate, while training stops; at your own MTBF" in record["Useful time"]
    assert "$1.50 per GPU hour, your quote" in record["Bill"] and "quartiles" not in record["Bill"]
    late = written_record(**small | {"deadline": 2}, yours=yours)
    assert late["Choice"] == "not these 64 × a100-sxm-80gb: they miss the deadline at the top of the interval"


def test_a_reservation_costs_more_than_the_bill_by_the_hour():
    """The text gives the bills of a reservation until the deadline: GPUs times hours times printed price."""
    said, line = SAID["cell-14"], words("08", "plans")
    price, (hours, least, more) = float(re.match(r"\$([\d.]+) per GPU hour", line)[1]), (720, 960, 1024)
    bills = [f"<span>\\$</span>{count * hours * price / 1e6:.2f} million" for count in (least, more)]
    product = f"take only {least}: they cost {least} × {hours} h × <span>\\$</span>{price:.2f} = {bills[0]}"
    product += f", and {more:,} cost {bills[1]}"
    assert f"If you reserve the GPUs for all {hours // 24} days, {product}." in said


def test_the_rows_differ_by_less_than_the_order_is_certain():
    """The text states by how much the rows differ, and that the measured order is less certain than that."""
    short, said = read()["short"], SAID["cell-09"]
    most = max(int(text) for text in short["slower than the first [%]"])
    assert f"in these rows differ by at most about {most} %, which is too little for the order to be certain" in said
    chosen = table("08", "cell-26")["our first choice"].astype(float)
    assert chosen.max() > 1.05


def test_a_checkpoint_in_the_background_comes_before_faster_storage():
    """A checkpoint in the background costs what the text says, and the deadline is met with it."""
    storage, waste, words = table("08", "storage"), read()["waste"], SAID["cell-20"]
    change = decision("08", "record-form")["What would change it"]
    write, hours = float(storage.iloc[4, 0]), float(waste.iloc[0]["a failure every [h]"])
    half = float(waste.iloc[0]["checkpoint every [min]"]) * 60 / 2
    lost = (half + write) / 3600 / hours
    useful = 1 - lost - float(waste.iloc[0][RESTARTS]) / 100
    top = float(storage.iloc[4, 2]) * interval(storage.iloc[4, 1])[0] / 100 / useful
    said = rf"$({half:.0f} + {write:.0f})\ \text{{s}} / {hours}\ \text{{h}}$, or {100 * lost:.1f} % of the time, and"
    assert storage.index[4] == "5 GB/s"
    assert said in words
    assert 0.004 < lost < 0.006
    assert top < 29.5
    assert "The plan does not assume background writes." in words
    assert "write checkpoints in the background, as in [recipe 02]" in words
    assert "checkpoints written in the background" in change


def test_an_interval_of_an_hour_is_that_of_half_as_many_gpus():
    """The figure of the facilitator's page: checkpoint and MTBF are inversely proportional to the number of GPUs."""
    page = (FOLDER / "facilitator" / "08-train-a-transformer.md").read_text(encoding="utf-8")
    assert "For Llama 3 70B, above about 480 GPUs" in page and "30 minutes × 960 / n" in page
    row = cb.planning.plan_run("llama3_70b", "h100-sxm", 480, 2e12, global_batch=480).table.iloc[0]
    assert row.checkpoint_interval_seconds == pytest.approx(3600, rel=0.03)


def test_the_badge_of_failures_counts_the_rates_that_were_read():
    how = list(cb.table("long_runs")["how"])
    read, recalled = (how.count(word) for word in ("seen", "recalled"))
    assert read + recalled == len(how) and f"[failures: {read} read, {recalled} recalled]" in words("08", "panel")
    assert (
        "We have not checked three of the five against their sources"
        in (FOLDER / "08-train-a-transformer.ipynb").read_text()
    )
    assert (recalled, len(how)) == (3, 5)


def test_the_words_before_the_panel_follow():
    """The days to spare are those of the table, and the largest cluster is slower as the text says."""
    said, top = SAID["panel-md"], interval(read()["offers"][DAYS]["1,024 GPUs"])[2]
    job = dict(global_batch=512)
    days = [cb.planning.plan_run("llama3_70b", "h100-sxm", n, 2e12, **job).table.days[0] for n in (8192, 16384)]
    assert f"at the top of the interval, {30 - top:.1f} days remain." in said
    assert days[1] > days[0] and "On 16,384 GPUs, the run is slower than on 8,192" in said
