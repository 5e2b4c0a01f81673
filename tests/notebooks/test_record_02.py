"""The decision of recipe 02 follows from its tables of options and checkpoints."""

import re
from typing import Any

import pytest
from records import decision, interval, sources, table, words

import cookbook as cb

SAID = sources("02")

GPUS, HOURS = 8, 4000
AFTER = "two 96-core processors after the drive"
JUDGED = AFTER.capitalize()  # the row of the record


def page() -> dict[str, Any]:
    """Return what the stored page shows: options, checkpoints, the rent of a GPU hour, and the record."""
    rent = float(re.search(r"GPU hour: \$([\d.]+)", words("02", "prices"))[1])
    return {"options": table("02", "table"), "writes": table("02", "writes"), "rent": rent, "record": decision("02")}


def verdict(cost: str, rent: float) -> str:
    """Return what a cost per recovered hour means, such as "open" for "7.13 (1.04 to no limit)"."""
    if not cost[0].isdigit():
        return cost
    _, low, high = interval(cost.replace("no limit", "inf"))
    return "they pay" if high < rent else "they do not pay" if low > rent else "open"


def test_the_record_follows_from_the_page():
    """Hours follow from the shares, costs from hours and prices, and the choice from the costs."""
    shown = page()
    options, record, costs, hours_of = shown["options"], shown["record"], {}, {}
    now, driven = (interval(options.iloc[place, 0])[0] for place in (0, 1))
    for name, (busy, won, price, cost) in list(options.iterrows())[1:]:
        point, low, high = interval(won)
        gained = GPUS * HOURS * (interval(busy)[0] - (driven if name == AFTER else now)) / 100
        assert abs(point - gained) <= 400
        assert low <= point <= high
        if "recovered" in cost or "no price" in cost:
            assert high <= 0 or price == "none yet"
            continue
        assert price != "none yet"
        costs[name], hours_of[name] = interval(cost), (point, low, high)
        usd = float(price.replace(",", ""))
        assert all(
            abs(each - usd / hours) <= 0.006 for each, hours in zip(costs[name], (point, high, low), strict=True)
        )
        assert name == AFTER or f"{name} ${cost}" in record["Per recovered GPU hour (80 %)"]
    assert record[JUDGED].startswith(verdict(options.iloc[-1, 3], shown["rent"]))
    costs.pop(AFTER, None)  # only one addition is allowed
    cheapest = min(costs, key=lambda name: costs[name][0])
    ends = {
        name: [least <= 1.01 * usd for least, usd in zip(costs[name], costs[cheapest], strict=True)] for name in costs
    }
    tied = [name for name in costs if any(ends[name]) and costs[name][2] < shown["rent"]]
    tied.sort(key=lambda name: costs[name][0])
    choice = f"open: {' or '.join(tied)}; none is the cheapest throughout" if len(tied) > 1 else "".join(tied)
    lost = float(shown["writes"].loc["file system, pausing", "every 30 min"])
    assert f"GPU hour ${shown['rent']:.2f}" in record["Price"]
    assert f"{lost:.1f} %" in record["Language model"]
    dates = re.search(
        r"20\d\d-\d\d to 20\d\d-\d\d.*drive \$([\d,]+), (20\d\d-\d\d) \(.+\); memory \$([\d,]+), (20\d\d)",
        record["Price"],
    )
    assert [dates[1], dates[3]] == list(options.iloc[1:3, 2])
    if tied == ["a local drive"]:
        usd = {name: float(options.iloc[:, 2][name].replace(",", "")) for name in costs}
        cost = {name: [usd[name] / hours for hours in hours_of[name]] for name in costs}  # at the same ends
        others = [a / b for name in costs if name != cheapest for a, b in zip(cost[name], cost[cheapest], strict=True)]
        holds = min([shown["rent"] / max(cost[cheapest]), *others])
        stated = re.search(r"this drive's price: the choice holds up to ([\d.]+) times that", record["Price"])
        assert holds - 0.1 <= float(stated[1]) <= holds  # rounded down
    choice += f", at prices of {dates[2]} (drive) and {dates[4]} (memory)"
    assert record["Choice"] == choice


def with_quotes(**quotes: float) -> dict[str, Any]:
    """Return the names of the page after it computed its options and its choice with these quotes."""
    values: dict[str, Any] = {}
    for name in ("imports", "parameters", "demand", "memory", "writes", "prices", "options", "table", "decision"):
        exec(SAID[name], values)
        if name == "parameters":
            values["quotes"] = {each.replace("_", " "): usd for each, usd in quotes.items()}
    return values


@pytest.mark.parametrize(("cores", "expected"), [(9000, "open"), (60_000, "they do not pay")])
def test_the_cores_are_judged_by_what_they_add_to_the_drive(cores, expected):
    """The price of a cheap drive does not hide that of the cores, and the two never win together."""
    found = with_quotes(**{"a_local_drive": 900, "two_96-core_processors": cores, "twice_the_memory": 6000})
    last = found["options"].loc[AFTER]
    assert interval(last.iloc[1])[0] == pytest.approx(1262, abs=30) and last.iloc[2] == f"{cores:,}"
    assert interval(last.iloc[3].replace("no limit", "inf"))[0] == pytest.approx(cores / 1262, rel=0.03)
    assert found["judged"] == verdict(last.iloc[3], found["rent"]) == expected
    assert found["after"].startswith(expected) and found["first"] == "a local drive"


@pytest.mark.parametrize(("share", "sole"), [(0.95, True), (1.05, False)])
def test_the_choice_holds_up_to_the_factor_that_the_record_states(share, sole):
    """The market average, times the unrounded factor: below it the drive is chosen alone, above it not."""
    options = page()["options"].iloc[[1, 2]]
    drives, memories = (interval(each) for each in options.iloc[:, 1])
    drive, memory = (float(each.replace(",", "")) for each in options.iloc[:, 2])
    factor = memory / drive * min(a / b for a, b in zip(drives, memories, strict=True))
    assert f"up to {factor - 0.05:.1f} times that" in page()["record"]["Price"]
    found = with_quotes(a_local_drive=share * factor * drive)
    assert (found["first"] == "a local drive") == sole and found["holds"] == ""


@pytest.mark.parametrize(
    ("drive", "memory", "first"),
    [
        (607, 4700, "a local drive"),
        (4249, 4700, "a local drive"),  # their intervals overlap, but the drive costs less for the same rates
        (5000, 6000, "a local drive"),
        (4700, 4700, "open: a local drive or twice the memory; none is the cheapest throughout"),
        (4856, 4700, "twice the memory"),
    ],
)
def test_the_same_uncertain_rates_tie_no_options(drive, memory, first):
    found = with_quotes(a_local_drive=drive, twice_the_memory=memory)
    assert found["first"] == first
    assert "Overlapping intervals alone do not tie two options here" in SAID["decide"]
    costs = found["each"][:, 1:3]
    assert drive == 607 or costs[1].max() < costs[2].min(), "the intervals overlap all the same"


def test_options_that_are_cheaper_at_different_ends_are_open():
    """Where the hours of one option fall while those of the other rise, neither is the cheapest throughout."""
    found = with_quotes(a_local_drive=4000, twice_the_memory=4700)
    found["ends"][:, 2] = [24_000, 18_872, 14_589]  # GPU hours of the memory
    found["won"][:, 2] = [14_589, 18_872, 24_000]
    for name in ("table", "decision"):
        exec(SAID[name], found)
    assert found["first"].startswith("open: a local drive or twice the memory")


def test_the_estimate_of_the_recovered_hours_is_their_top():
    """The text says that the estimate of drive and memory is the top of its interval, and it is."""
    options = page()["options"]
    hours = [interval(options.iloc[:, 1][name]) for name in ("a local drive", "twice the memory")]
    assert "the estimate of the hours is also the top of its interval" in SAID["explain5"]
    assert all(low < point == high for point, low, high in hours)


def waits_though_cores_suffice(said: str, stages: dict[str, float], utilisation: float) -> bool:
    """Whether the text says how many photographs the cores decode, that they suffice, and what remains lost."""
    cores, most = stages["decoding"], stages["accelerators"]
    return (
        cores > most
        and f"decode {100 * round(cores / 100):,} photographs per second, {100 * (cores / most - 1):.0f} % more" in said
        and f"the GPUs wait {100 * (1 - utilisation):.0f} % of the time" in said
        and "a queue of two batches does not absorb all of that" in said
    )


def test_the_cores_suffice_and_the_gpus_wait_all_the_same():
    """Decoding of plain photographs, which is limited by collating, does not give the rate of augmented ones."""
    cards = cb.table("data_sets").set_index("key")
    on = dict(batch=256, accelerators=8, processor="Xeon Platinum 8480C", memory=2e12)
    found = {}
    for name, work, cores in (("plain", 1, 112), ("three", 3, 112), ("more", 1, 224)):
        card = {"card": "imagenet-21k", "layout": "shards", "decode_work": work * cards.decode_work["imagenet-21k"]}
        found[name] = cb.match_storage(
            "resnet50", "h100-sxm", "nfs-server-10-gbe", card, cores=cores, workers=cores / 8, **on
        )
    three = found["three"]
    assert waits_though_cores_suffice(SAID["explain2"], three.stages, three.utilisation)
    assert three.assumed.taken["prefetch"] == "2"
    assert found["more"].stages["decoding"] < 1.1 * found["plain"].stages["decoding"], "cores are not its limit"


def test_an_hour_at_five_times_the_price():
    """Memory then costs about half of a rented hour, the drive less than a tenth."""
    found = with_quotes(a_local_drive=5 * 607, twice_the_memory=5 * 4700)
    drive, memory = (found["each"][:, place] / found["rent"] for place in (1, 2))
    assert "memory recovers would cost about half" in SAID["explain5"] and "less than a tenth" in SAID["explain5"]
    assert (memory > 0.4).all() and (memory < 0.6).all() and (drive < 0.1).all()


def test_the_copy_of_a_checkpoint_is_what_the_vote_says():
    saving = cb.match_storage(
        "llama3_8b",
        "h100-sxm",
        "nfs-server-10-gbe",
        "c4-en-tokens",
        accelerators=8,
        checkpoint_interval=1800,
        asynchronous=1,
    )
    seconds, part = 1800 * saving.checkpoint_stall, saving.checkpoint_bytes / 8
    asked = words("02", "predict3")
    assert f"{part / 1e9:.0f} GB, in {seconds:.2f} s" in asked and f"about {part / seconds / 1e9:.0f} GB/s" in asked
    assert f"about {100 * saving.checkpoint_stall:.2f} %" in asked
    lost = table("02", "writes").iloc[:, 1].astype(float)
    assert f"{lost.iloc[1]:.2f} %" in asked and f"{lost.iloc[2]:.1f} %" in asked


def test_the_server_that_the_page_names_contains_local_drives():
    row = cb.table("systems").set_index("key").loc["dgx-h100"]
    assert "8x 3.84TB NVMe" in row.local_storage and "a DGX H100 has eight of 3.84 TB" in SAID["left-out"]
    work = decision("02")["Work"]
    assert row.cores == 112 and row.cpu_sockets == 2 and row.cpu == "Xeon Platinum 8480C"
    assert (
        "112 cores (two Xeon Platinum 8480C), 1 TB of memory, of which 70 %" in work
        and "two 56-core processors" in SAID["explain5"]
    )


def test_the_third_workload_has_its_own_limit():
    said = "at least {:.0f} % of the time", "*cosmoflow*, whose threshold is {:.0f} %"
    rows = cb.table("storage_workloads").dropna(subset="utilisation_required").set_index("workload")
    usual, third = (set(100 * rows.utilisation_required[names]) for names in (["resnet50", "unet3d"], ["cosmoflow"]))
    assert len(usual) == len(third) == 1
    assert said[0].format(*usual) in SAID["explain3"] and said[1].format(*third) in SAID["explain4"]


def test_a_language_model_reads_whole_sequences():
    """The row of text is sequences times tokens of four bytes, and text and vote compare its rate rightly."""
    asked = words("02", "predict1")
    demand = table("02", "demand")
    said = SAID["explain1"]
    kilobytes, rate, megabytes = demand.loc["text: Llama 3 8B"].astype(float)
    photographs = float(demand.loc["photographs: ResNet-50"].iloc[2].replace(",", ""))
    assert abs(megabytes - GPUS * rate * kilobytes / 1e3) < 0.01
    assert "about seven sequences per second" in said
    assert f"At {kilobytes:.0f} kB each, that is about {1e3 * megabytes:.0f} kB/s" in said
    assert round(GPUS * rate) == 7
    assert 2e3 < photographs / megabytes < 1e4
    assert "Answer: d) the photographs, more than a thousand times as many" in asked
    assert f"a photograph {1e3 * float(demand.loc['photographs: ResNet-50'].iloc[0]):,.0f} bytes for about 25" in asked
    fast = {"read_bandwidth": "1 PB/s", "read_iops": 1e12, "local": 1}
    alone = cb.match_storage("llama3_8b", "h100-sxm", fast, "c4-en-tokens", batch=1, accelerators=GPUS)
    seq = int(re.search(r"seq = (\d+)", alone.assumed.taken["step"])[1])
    row = table("02", "demand").loc["text: Llama 3 8B"].astype(float)
    assert [row.iloc[0], row.iloc[1]] == [round(4 * seq / 1e3), round(alone.stages["accelerators"] / GPUS, 2)]


def test_a_token_takes_four_bytes_where_two_cannot_number_the_vocabulary():
    """Two bytes number 65,536 entries; a token costs 6 FLOP per parameter, a photograph three forward passes."""
    vocabulary, said = cb.model("llama3_8b").arguments["vocab"], SAID["loop1"]
    assert vocabulary > 2**16
    assert f"4 if the vocabulary has more than {2**16:,} entries (the vocabulary of Llama 3 has {vocabulary:,})" in said
    assert "4 * 8192, " in SAID["demand"] and "# 8,192 tokens of 4 bytes in a sequence" in SAID["demand"]
    token, photograph = 6 * cb.model("llama3_8b").ops.parameter_count, 6 * cb.model("resnet50").ops.macs.sum()
    assert [round(flop / 5e9) * 5 for flop in (token, photograph)] == [50, 25]
    assert "4 bytes for about 50 GFLOP of training" in words("02", "predict1")


def test_the_page_says_that_the_cores_come_after_the_drive():
    assert "The last row counts only what the cores add once the drive is in." in SAID["explain5"]
    assert "dates from 2016" in SAID["derive"] and "(2016, one seller" in words("02", "prices")
