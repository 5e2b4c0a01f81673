"""The decision of recipe 06 follows from its tables of cores, cards, memory and worth."""

import re
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from records import FOLDER, decision, interval, sources, table, words

import cookbook as cb

SAID = sources("06")

CONFIGURATION = "TP 2, ZeRO 1"
GPUS, YEARS, HOURS, SHARES = 8, 4, 8766, {"cores": 0.25, "cards": 0.5}
READY = " (if an image takes 3 times the work of decoding)"
TOLERANCE = {"cores": 3000, "cards": 900}  # of a worth [$], because shares of time are shown as whole per cent


def page() -> dict[str, Any]:
    """Return what the stored page shows: tables, the price per GPU hour, and the record."""
    shown = {cell: table("06", cell) for cell in ("utilised", "cards", "memory", "table")}
    price = float(re.search(r"\$([\d.]+) per GPU hour", words("06", "price"))[1])
    return shown | {"price": price, "record": decision("06"), "said": SAID, "cores": words("06", "cores")}


def test_the_record_follows_from_the_page():
    """Each step is worth its waiting, and the record orders, prices or leaves open what the worths say."""
    shown = page()
    busy = {name: interval(text)[0] for name, text in shown["utilised"].iloc[:, 1].items()}
    step = {name: interval(text)[0] for name, text in shown["cards"][CONFIGURATION + ": step (80 %) [s]"].items()}
    ordered, left = [], []
    for name, row in shown["table"].iterrows():
        new, what, old = re.fullmatch(r"(\d+) (\w+) instead of (\d+)", name).groups()
        saved = 1 - (busy[old] / busy[new] if what == "cores" else step[new] / step[old])
        point, low, high = interval(row.iloc[1])
        exact = shown["price"] * GPUS * YEARS * HOURS * SHARES[what] * saved
        assert abs(point - exact) <= 0.05 * exact + TOLERANCE[what]
        assert low <= point <= high
        ordered += [f"{name} at a price below ${low:,.0f}{READY * (what == 'cores')}"] if low > 0 else []
        left += [f"{name}, worth ${row.iloc[1]}"] if low <= 0 < high else []
    need = [float(each.replace(",", "")) for each in shown["memory"].iloc[:, 0]]
    size = next(size for size in (512, 1024, 2048) if size * 2**30 / 1e9 >= need[-1])
    assert abs(sum(need[:-1]) - need[-1]) <= 2
    assert shown["record"]["Choice"] == "; ".join([*ordered, f"{size:,} GB of memory"])
    assert shown["record"]["Open"] == ("; ".join(left) or "nothing")
    assert shown["record"]["Not ordered"] == "nothing"  # no quote is given
    assert CONFIGURATION.replace(",", " and") in shown["record"]["Language model"]
    assert f"${shown['price']:.2f} per GPU hour" in shown["record"]["Price"]
    assert re.search(r"20\d\d-\d\d to 20\d\d-\d\d", shown["record"]["Price"]) is not None


def test_the_interval_of_the_cores_follows():
    """The interval of the cores is what the smallest size reaches of full use, in page, text and record."""
    shown = page()
    size, shares = shown["utilised"].index[0], interval(shown["utilised"].iloc[0, 1])
    line = r"x = (\S+) images.* c = (\S+) ms, n = (\d+) · x · (\d+) · c = (\d+) cores \(80 %: (\d+) to (\d+)\)"
    rate, ms, gpus, factor, point, low, high = re.search(line, shown["cores"]).groups()
    by_hand = float(rate.replace(",", "")) * float(ms) / 1e3 * int(gpus) * int(factor)
    point, low, high = int(point), int(low), int(high)
    from_table = [100 * int(size) / share for share in (shares[0], shares[2], shares[1])]
    assert [point, low, high] == pytest.approx(from_table, rel=0.02)
    assert point == pytest.approx(by_hand, rel=0.01)
    assert (
        f"{factor} times the work of decoding per image: {point} cores (80 %: {low} to {high});"
        in shown["record"]["Images"]
    )
    assert f"{low} to {high} cores" in shown["said"]["hand1"]
    assert f"estimate is {point} cores" in shown["said"]["hand1"]


def ran(cell: str, old: str, new: str, *before: str) -> dict[str, Any]:
    """Return the names of the page after one of its cells ran with a Tweak, and after the cells `before` it."""
    said, names = page()["said"], dict[str, Any]()
    for each in ("imports", "parameters", *before):
        exec(said[each], names)
    assert said[cell].count(old) == 1
    exec(said[cell].replace(old, new), names)
    return names


def test_the_tweak_of_decoding_changes_the_factor_and_not_the_core(capsys):
    """Its factor is printed, the time of a core stays, and the smallest size is enough."""
    assert "change `decode_work` to 1" in page()["said"]["serving"]
    names = ran("cores", '"decode_work": 3', '"decode_work": 1')
    pattern = r"c = (\S+) ms, n = 8 · x · (\d+) · c = (\d+) cores"
    (ms, one, few), (usual, three_times, many) = (
        re.search(pattern, each).groups() for each in (capsys.readouterr().out, words("06", "cores"))
    )
    assert float(ms) == pytest.approx(float(usual), rel=0.03)
    assert (one, three_times) == ("1", "3") and names["work"] == 1
    assert 3 * int(few) == pytest.approx(int(many), abs=2) and int(few) < 64


def test_the_tweak_of_the_configuration_changes_its_labels(capsys):
    names = ran("cards", "tp=2", "tp=4", "cores", "utilised")
    assert names["other"] == "TP 4, ZeRO 1" and "TP 4, ZeRO 1 sends 2" in capsys.readouterr().out
    assert CONFIGURATION in page()["cards"].columns[-1] and "Set `tp` back" in page()["said"]["explain3"]


def test_the_second_card_under_fsdp_is_worth_what_the_record_says():
    """The record values the second card under FSDP by the steps of the table."""
    shown = page()
    steps = [interval(text)[0] for text in shown["cards"]["FSDP: step (80 %) [s]"]]
    exact = shown["price"] * GPUS * YEARS * HOURS * SHARES["cards"] * (1 - steps[1] / steps[0])
    said = re.search(r"FSDP \(the second card is then worth \$([\d,]+)\)", shown["record"]["What would change it"])[1]
    assert float(said.replace(",", "")) == pytest.approx(exact, rel=0.05)


def test_the_words_on_cards_follow_from_the_tables():
    """The prose on cards quotes the table, its example is right, and two cards beat eight with FSDP."""
    shown = page()
    cards, said = shown["cards"], shown["said"]
    lean, fsdp = ([interval(text)[0] for text in cards[f"{way}: step (80 %) [s]"]] for way in (CONFIGURATION, "FSDP"))
    saved = [float(interval(row.iloc[0])[0]) for name, row in shown["table"].iterrows() if "cards" in name]
    share, hours = (
        interval(shown["table"].loc["2 cards instead of 1"].iloc[0])[0],
        round(YEARS * HOURS * SHARES["cards"]),
    )
    rounded = 0.05 + 100 * 0.005 * sum(lean[:2]) / lean[0] ** 2  # of the share, and of both steps in the words
    assert share == pytest.approx(100 * (1 - lean[1] / lean[0]), abs=rounded)
    usd = round(shown["price"] * GPUS * hours * share / 100, -2)
    assert "{:.2f}, {:.2f}, {:.2f} and {:.2f} s".format(*lean) in said["explain3"]
    assert "two cards with this configuration beat eight with FSDP" in said["explain3"]
    assert lean[1] < fsdp[-1]
    assert f"from {lean[0]} to {lean[1]} s, which saves {share} %" in said["loop3"]
    assert f"{hours:,} hours" in said["loop3"]
    assert said["loop3"].split("about <span>\\$</span>")[1].startswith(f"{usd:,.0f}.")
    assert usd == interval(shown["table"].loc["2 cards instead of 1"].iloc[1])[0]
    assert f"save {min(saved)} to {max(saved)} %" in said["explain5"]


def test_no_gpu_waits_for_cores_that_the_formula_does_not_ask_for():
    """The GPUs never wait where the formula gives fewer cores than there are, and the words name the buffer."""
    shown = page()
    said, record, rows = shown["said"], shown["record"], shown["utilised"]
    need = int(re.search(r"c = (\d+) cores", shown["cores"])[1])
    deep = {int(size): interval(text)[0] for size, text in rows.iloc[:, 1].items()}
    shallow = {int(size): float(text) for size, text in rows.iloc[:, 2].items()}
    depth = int(re.search(r"prefetch=(\d+)\)", said["cores"])[1])
    assert rows.columns[2] == "with 2 batches in advance"
    assert all((share >= 99) == (size >= need) for size, share in deep.items())
    assert deep[112] - shallow[112] > 2
    assert all(shallow[size] <= deep[size] for size in deep)
    assert f"two batches prepared in advance, the estimate would be {shallow[112]:.0f} %" in said["explain1"]
    assert f"down to {interval(rows.loc['112'].iloc[1])[1]:.0f} %" in said["explain1"]
    assert "up to eight batches per GPU in advance" in said["loop1"]
    assert depth == 8
    assert f", {depth} batches per GPU in advance, " in record["Images"]
    assert "; fewer batches in advance" in record["What would change it"]


def test_the_memory_of_the_record_is_named_and_enough_for_twice_the_states():
    """The record says what its memory is counted for, and twice the states and copy need what the text says."""
    shown = page()
    uses, said = shown["memory"], shown["said"]["explain2"]
    yours, large = ([float(each.replace(",", "")) for each in uses.iloc[:, column]] for column in (0, 1))
    size = int(re.search(r"([\d,]+) GB of memory", shown["record"]["Choice"])[1].replace(",", ""))
    told = f"{uses.iloc[-1, 0]} GB counted with llama3_8b: {'; '.join(uses.index[:-1])}; the operating system"
    assert shown["record"]["Memory"].startswith(told)
    assert "DeepSpeed's estimator also counts gradients and buffers, which doubles that" in shown["said"]["loop2"]
    assert f"{size} GB is still enough for the 8B model" in said
    assert yours[-1] + yours[-2] < size
    assert f"all four uses with a 70B model would need {large[-1] + large[-2]:,.0f} GB" in said
    assert f"sold as 2,048 GB and stores {2048 * 2**30 / 1e9:,.0f} GB" in said
    assert 0 < 2048 * 2**30 / 1e9 - large[-1] - large[-2] < 50  # almost nothing is left


def test_each_server_copies_photographs_fast_enough():
    """Photographs as bytes and as 32-bit numbers take the bandwidth that the appendix says."""
    shown = page()
    links = table("06", "links").iloc[:, 0].astype(float)
    rate = float(re.search(r"x = (\S+) images", shown["cores"])[1].replace(",", ""))
    whole, four = rate * 3 * 224**2 / 1e9, 4 * rate * 3 * 224**2 / 1e9
    said = re.search(r"at ([\d.]+) GB/s as bytes, or at ([\d.]+) GB/s if", shown["said"]["explain4"])
    assert [float(said[1]), float(said[2])] == pytest.approx([whole, four], abs=0.1)
    assert four < links.min()


PARTS = "switch ports, transceivers and cables"


def test_the_price_of_a_step_up_in_cards_includes_ports_and_optics():
    """The limits for cards, their explanation and the facilitator's page say what a step up in cards buys."""
    shown = page()
    facilitator = (FOLDER / "facilitator" / "06-right-size-the-host.md").read_text(encoding="utf-8")
    record, said = shown["record"], shown["said"]
    assert "cards instead of" in record["Choice"]
    assert record["Price"].endswith(f"is proportional to it; a step up in cards includes its {PARTS}")
    assert f"it includes the {PARTS} that they need." in said["explain5"]
    assert f"For cards, it includes {PARTS}." in facilitator


def allowance_follows(record: dict[str, str], said: dict[str, str], cores: str) -> bool:
    """Whether the factor of augmentation is left open, with the factors below which the smallest size may be enough."""
    factor, point, low = map(int, re.search(r"· x · (\d+) · c = (\d+) cores \(80 %: (\d+)", cores).groups())
    enough, perhaps = (f"{64 * factor / need:.1f}" for need in (point, low))
    return (
        record["Choice"].startswith("112 cores instead of 64 at a price below ")
        and READY in record["Choice"].split("; ")[0]
        and record["Images"].endswith(
            "this factor is an allowance outside the interval: 64 cores are enough by the estimate up to "
            f"{enough} times, and may be enough up to {perhaps}"
        )
        and record["What would change it"].startswith("above all a measured time per image of your own loader")
        and f"With a factor below {perhaps}, the first row is open as well, and at {enough} the estimate is that 64"
        in said["explain5"]
    )


def test_a_factor_that_nobody_measured_leaves_the_first_step_open(capsys):
    """Just below the larger factor the low end of the worth is nothing, and just above it is more."""
    shown = page()
    record, said, cores = shown["record"], shown["said"], shown["cores"]
    assert allowance_follows(record, said, cores)
    for factor, is_open in ((2.6, True), (2.75, False)):
        names = ran("cores", '"decode_work": 3', f'"decode_work": {factor}')
        exec(said["utilised"], names)
        assert (names["busy"][2, 0] > 0.999) == is_open


def test_gradients_in_32_bits_make_cards_worth_more():
    """Page and record name the precision of the reduced gradients, and what 32 bits send and make worth."""
    shown, ports = page(), np.array([1, 2, 4, 8])
    how = dict(devices=64, global_batch=512, micro_batch=1, seq=8192, pp=1, zero=1, tp=2, sequence_parallel=True)
    slow = cb.train_step("llama3_8b", "dgx-h100", **how, network=ports * 50e9 / 8 / 1.5).point
    worths = [shown["price"] * GPUS * YEARS * HOURS * SHARES["cards"] * (1 - slow[i + 1] / slow[i]) for i in range(3)]
    record, said, printed = shown["record"], shown["said"], words("06", "cards")
    told = re.search(
        r"gradients reduced in 32 bits \(by .+ are then worth (.+?)\), FSDP", record["What would change it"]
    )
    sent = re.search(r"= (\d+) GB; (\d+) GB if gradients are reduced in 32 bits", printed)
    steps = {name: interval(row.iloc[1])[0] for name, row in table("06", "table").iterrows() if "cards" in name}
    more = [slow / usual for slow, usual in zip(worths, steps.values(), strict=True)]
    ends = re.search(r"a step up in cards is worth ([\d.]+) to ([\d.]+) times as much", said["explain3"])
    assert "bf16, gradients reduced in bf16, " in record["Language model"]
    assert told is not None
    assert [float(usd.strip("$").replace(",", "")) for usd in told[1].split(", ")] == pytest.approx(worths, abs=51)
    assert int(sent[2]) == pytest.approx(1.5 * int(sent[1]), abs=1)
    assert f"Megatron-LM reduces gradients in 32 bits. Each server then sends {sent[2]} GB" in said["explain3"]
    assert [float(end) for end in ends.groups()] == pytest.approx([min(more), max(more)], abs=0.06)


def test_the_tuned_engine_is_as_much_faster_as_the_text_says():
    """Every submission to MLPerf is more than two and a half times as fast as every ordinary run."""
    measured, said = table("06", "measured"), page()["said"]["explain1"]
    rates = {
        name: [float(end.replace(",", "")) for end in text.split(" to ")] for name, text in measured.iloc[:2, 0].items()
    }
    ordinary, tuned = (next(each for name, each in rates.items() if who in name) for who in ("Lambda", "MLPerf"))
    assert "more than two and a half times as fast" in said
    assert 2.5 < tuned[0] / ordinary[1] < 3


def test_the_summary_counts_photographs():
    """The summary agrees with section 2: a network for images moves more photographs than gradients."""
    said = page()["said"]
    gradients, photographs = map(
        int, re.search(r"(\d) GB/s of gradients and (\d) GB/s of ph", said["explain3"]).groups()
    )
    assert gradients < photographs
    assert "photographs are the larger part of an image network's traffic" in said["summary"]


def test_what_a_quote_rules_out_is_named():
    """Quotes above the worth of a step up are refused by name, as in the table."""
    names, said, told = dict[str, Any](), page()["said"], list[dict[str, str]]()
    for cell in ("imports", "parameters", "cores", "utilised", "memory", "cards", "price", "worth", "table", "room"):
        if cell == "cores":
            names["quotes"] = {"4 cards": 24000, "2 cards": 9000}
        if cell == "price":
            names["chip"] = cb.machine("dgx-h100").accelerator
        exec(said[cell], names)
    panels = SimpleNamespace(record=lambda question, decided: told.append(decided))
    names["cb"] = SimpleNamespace(train_step=cb.train_step, panels=panels)
    exec(said["decision"], names)
    assert told[0]["Not ordered"] == "4 cards instead of 2" and "4 cards" not in told[0]["Choice"]
    assert "2 cards instead of 1 at your quote" in told[0]["Choice"]
