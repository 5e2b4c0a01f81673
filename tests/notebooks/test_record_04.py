"""The decision of recipe 04 follows from the table of its offers."""

import re
from itertools import combinations
from types import SimpleNamespace

import nbformat
import numpy as np
import pandas as pd
import pytest
from records import FOLDER, decision, sources, table, words

import cookbook as cb

SAID = sources("04")


COST = "Per million generated tokens, prompts included (80 %, speed only)"


def apart(offers: pd.DataFrame) -> list[str]:
    """Return what a record says of each pair whose intervals of the time per token do not overlap."""
    ends = offers["per token and user (80 %) [ms]"].str.extract(r"\((\d+) to (\d+)\)").astype(int)
    return [
        f"{a} is faster (its interval ends at {ends[1][a]} ms, that of {b} begins at {ends[0][b]})"
        for a in ends.index
        for b in ends.index
        if ends[1][a] < ends[0][b]
    ]


def test_the_record_follows_from_the_offers():
    """The choice is every offer whose interval overlaps that of the cheapest, and each figure is repeated."""
    offers = table("04", "offers")
    record = decision("04")
    column = "per million generated tokens, prompt included [$, 80 %]"
    costs = {}
    for name, text in offers[column].items():
        if figures := re.fullmatch(r"([\d.]+) \(([\d.]+) to ([\d.]+)\)", text):
            costs[name] = [float(figure) for figure in figures.groups()]
    ranked = sorted(costs, key=lambda name: costs[name][:2])
    tied = [name for name in ranked if costs[name][1] <= costs[ranked[0]][2]]
    several = f"open: {' or '.join(tied)} (their intervals of cost overlap); rent each for a day and measure"
    price = offers.columns[0]
    missing = ", ".join(sorted(set(offers.index) - set(costs)))
    ask = f"; get a quote for {missing}" if missing else ""
    assert all(low <= usd <= high for usd, low, high in costs.values())
    assert record["Choice"] == (several if len(tied) > 1 else tied[0]) + ask
    assert record[COST] == "; ".join(f"{name} ${offers[column][name]}" for name in ranked)
    assert record["Price and engine"] == "; ".join(
        f"{name} ${offers[price][name]}, {offers['engine'][name]}, 16 bits" for name in ranked
    )
    assert record["Speed"] == (
        "; ".join(apart(offers)) + "; if users need that speed, this decides"
        if apart(offers)
        else "open: all intervals of the time per token overlap"
    )
    assert record["Without a price"] == (missing or "none")
    assert record["Per token and user (80 %)"] == "; ".join(
        f"{name} {row['per token and user (80 %) [ms]']} ms, {row['engine']}, {row['how known']}"
        for name, row in offers.iterrows()
    )


def test_the_cost_is_per_generated_token_and_its_time_includes_the_prompts():
    """Neither fewer answers nor a time without prompts gives the figure that the table prints."""
    hour = float(table("04", "offers").loc["h200-sxm"].iloc[0].split()[0])
    whole = cb.generate("llama3_8b", "h200-sxm", input_len=1024, output_len=256, batch=64)
    usd = float(decision("04")[COST].split("$")[1].split()[0])
    assert usd == pytest.approx(hour / 3600 * whole.point / (64 * 256) * 1e6, abs=0.005)
    assert usd > 2 * hour / 3600 * whole.point / (64 * (1024 + 256)) * 1e6


def test_the_time_of_a_token_has_an_interval():
    column = "per token and user (80 %) [ms]"
    load = dict(input_len=1024, output_len=256, batch=64, delay_of="token")
    for offer, text in table("04", "offers")[column].items():
        told = cb.generate("llama3_8b", offer, **load)
        assert text == "{:.0f} ({:.0f} to {:.0f})".format(*(1e3 * s for s in (told.point, told.low80, told.high80)))


def test_the_record_says_how_each_time_is_known():
    for offer, known in table("04", "offers")["how known"].items():
        whole = cb.generate("llama3_8b", offer, input_len=1024, output_len=256, batch=64)
        unseen = ", this model and load not" if not whole.measured and whole.tier != "datasheet only" else ""
        assert known == whole.tier + unseen
    told = decision("04")["Per token and user (80 %)"].split("; ")
    assert [each.endswith(", datasheet only") for each in told] == [False, False, True]
    assert "Its row is computed from the datasheet" in SAID["explain1"]


def test_why_twice_the_peak_gains_less_than_twice():
    """The matmuls pass from arithmetic to memory with twice the peak, whose ridge the text states.

    Norms alone would leave a larger gain than the one shown: the matmuls themselves begin to wait for memory.
    """
    h100 = cb.accelerator("h100-sxm")
    strong = cb.accelerator(like="h100-sxm", peak_bf16=2 * h100.peaks["peak_bf16"])
    tables = {name: cb.roofline_table("llama3_8b", gpu, 512, 1) for name, gpu in (("now", h100), ("strong", strong))}
    ridge = 2 * h100.peaks["peak_bf16"] / h100.mem_bandwidth
    said = SAID["kept"]
    bounds = [set(each[each.kind == "linear"].bound_by) for each in (tables["now"], tables["strong"])]
    rest = tables["now"].query("kind != 'linear'")
    assert bounds == [{"compute"}, {"memory"}]
    assert set(rest.bound_by) == {"memory"}
    assert f"twice the peak moves the ridge to {ridge:.0f} tokens per pass" in said
    assert "at 512 tokens memory becomes the limit of the matmuls" in said
    now = tables["now"].seconds.sum()
    matmuls = tables["now"].query("kind == 'linear'").seconds.sum()
    assert float(table("04", "twice")["twice the peak"].iloc[2]) < 0.9 * now / (now - matmuls / 2)


def test_the_gain_from_bf16_depends_on_the_batch():
    """The vote names its batch, its answer is right there, and vote and text name what others give."""
    factors = {}
    for batch in (1, 4, 32):
        both = [
            cb.planning.compare("gpt2_medium", ["h100-sxm"], phase="training", batch=batch, precision=name).iloc[0]
            for name in ("fp32", "bf16")
        ]
        factors[batch] = both[1].samples_per_s / both[0].samples_per_s
    step = {name: cb.train_step("gpt2_medium", "h100-sxm", batch=1, precision=name) for name in ("fp32", "bf16")}
    assert "megatron-core" in step["bf16"].assumed.taken["software"]
    assert step["bf16"].by_part["launch"] > 0.5 * sum(step["bf16"].by_part.values()), "launches take most of it"
    asked, said = words("04", "predict2"), SAID["explain2"]
    assert "with 4 sequences of 1,024 tokens per step, in Megatron-Core" in asked
    assert "Answer: b) between 4 and 8" in asked
    assert 4 < factors[4] < 8
    assert "true with a single sequence per step" in asked
    assert (
        f"factor is {factors[4]:.1f}. With one sequence per step, it is {factors[1]:.1f}, because launches do not "
        f"get faster; with 32, it is {factors[32]:.1f}." in said
    )


def test_the_errors_of_two_devices_are_mostly_their_own():
    """Runs of one case on two devices: the correlation of the logarithms of predicted over published."""
    case = ["source", "model", "software", "number_format", "devices", "tp"]
    case += ["input_len", "output_len", "batch", "scenario", "metric"]
    error = cb.table("validation_generation_rows").set_index("id").full.clip(lower=-0.95)
    runs = cb.table("inference").set_index("id").join(np.log1p(error), how="inner")
    means = runs.groupby([*case, "accelerator"], dropna=False).full.mean().unstack()
    pairs = [means[[a, b]].dropna().to_numpy() for a, b in combinations(means.columns, 2)]
    found = np.corrcoef(np.concatenate(pairs).T)[0, 1]
    assert f"their correlation is only {found:.1f}" in SAID["decide"] and found < 0.35


def test_largest_shares_of_a_single_shape_are_named():
    matmuls = cb.table("matmul").query("device_fraction == 1 and number_format == 'bf16'")
    best = matmuls.sort_values("efficiency").groupby("accelerator").shape_kind.last()
    assert best[["mi300x", "tpu-v6e"]].eq("single").all()
    assert not best[["a100-sxm-80gb", "h100-sxm", "b200-sxm", "gaudi2"]].eq("single").any()
    assert "Those for MI300X and TPU v6e come from a single shape" in SAID["explain2"]


def test_the_optimiser_gains_little_from_fewer_bits():
    """The feedback halves the bytes of norms but not the states, as the predicted times of the optimiser do."""
    parts = {
        name: cb.train_step("gpt2_medium", "h100-sxm", batch=4, precision=name).by_part for name in ("fp32", "bf16")
    }
    slow, fast = (parts[name]["optimiser"] for name in ("fp32", "bf16"))
    assert "so only their bytes halve, and the optimiser's states stay in 32 bits" in words("04", "predict2")
    assert fast > 0.8 * slow


@pytest.mark.parametrize(("rate", "named"), [(2000 / 64, "the rate is divided"), (2000 * 64, "the rate is multiplied")])
def test_the_third_exercise_names_the_mistake_that_was_made(rate, named):
    told: list[dict[str, float]] = []
    check = SimpleNamespace(check=lambda answer, expected, unit, slips: told.append(slips))
    exec(SAID["check3"], {"cb": check, "answer": 0})
    found = [words for words, value in told[0].items() if value == pytest.approx(2.5 / (rate * 3600) * 1e6)]
    assert len(found) == 1 and found[0].startswith(named)


def test_the_offers_are_what_the_title_says():
    """The title is right on the price of the older GPU, the second offer, against that of the current one."""
    prices = table("04", "offers").iloc[:2, 0]
    hours = {offer: float(text.split()[0]) for offer, text in prices.items()}
    current, older = list(hours.values())[:2]
    assert "an older one at less than half the price" in SAID["title"]
    assert older < current / 2
    assert "this year" not in SAID["title"]
    assert "divide the price of a GPU" in SAID["decide"] and "[recipe 09]" in SAID["decide"]


def test_prompts_follow_the_peaks_only_roughly():
    """The rates of prompts rise with the peaks in the main, and yet not in their order."""
    assert "prompt rates follow the peaks only roughly" in SAID["explain1"]
    tokens = table("04", "tokens")
    peaks = pd.Series({name: cb.accelerator(name).peaks["peak_bf16"] for name in tokens.index})
    rates = tokens["prompt [tokens/s]"].str.split().str[0].str.replace(",", "").astype(float)
    assert 0.7 < rates.rank().corr(peaks.rank()) < 0.99


def test_the_traps_are_asked_of_a_peak_that_is_printed_nowhere():
    """The exercise on sparsity: its answer cannot be read off the page."""
    every = nbformat.read(FOLDER / "04-accelerator-comparison.ipynb", as_version=4).cells
    dense = float(re.search(r"promises ([\d,]+) TFLOP/s in FP8", SAID["turn"])[1].replace(",", "")) / 4
    shown = "\n".join(cell.source for cell in every if cell.cell_type == "markdown")
    assert not re.search(rf"\b({dense:.0f}|{dense:,.0f}) TFLOP/s", shown)


def helps(gains: pd.DataFrame, contexts: pd.DataFrame) -> bool:
    """Whether peak helps the matmuls of 512 users, then short contexts, and bandwidth few users and long contexts."""
    wide, strong = (gains[column].astype(float) for column in ("twice the bandwidth", "twice the peak"))
    wider, stronger = (contexts[column].astype(float) for column in ("twice the bandwidth", "twice the peak"))
    return (
        (wide.iloc[:2] > strong.iloc[:2]).all()
        and (wide.iloc[2:] < strong.iloc[2:]).all()
        and wider.is_monotonic_increasing
        and stronger.is_monotonic_decreasing
        and wider.iloc[0] < stronger.iloc[0]
        and abs(wider.iloc[1] - stronger.iloc[1]) < 0.05
        and wider.iloc[-1] > stronger.iloc[-1] + 0.05
    )


def test_what_helps_many_users_depends_on_their_contexts():
    """Recomputed with both peaks of 16 bits doubled: a device doubled in another precision would gain nothing."""
    assert helps(table("04", "twice"), table("04", "context"))
    h100 = cb.accelerator("h100-sxm")
    wide = cb.accelerator(like="h100-sxm", mem_bandwidth=2 * h100.mem_bandwidth)
    strong = cb.accelerator(like="h100-sxm", **{peak: 2 * h100.peaks[peak] for peak in ("peak_bf16", "peak_fp16")})
    for name, row in table("04", "context").iterrows():
        how = dict(input_len=int(name.split()[0]), batch=512, delay_of="token")
        now, more, faster = (cb.generate("llama3_8b", device, **how).point for device in (h100, wide, strong))
        assert [float(row.iloc[1]), float(row.iloc[2])] == pytest.approx([now / more, now / faster], abs=0.006)
        assert "answered at a time" not in cb.generate("llama3_8b", h100, **how).assumed.taken, "512 users do not fit"
    assert 'answer="twice the peak"' in SAID["predict3"] and "Leave keys and values aside" in SAID["predict3"]
    for cell in ("byhand", "summary"):
        assert "speed of the matmuls; above it, arithmetic does. Keys and values" in SAID[cell]


def test_a_pass_for_512_users_by_hand():
    gpu, shape, weights = cb.accelerator("h100-sxm"), cb.model("llama3_8b").arguments, 7.5e9
    kept = 2 * shape["depth"] * shape["kv_heads"] * (shape["width"] // shape["heads"]) * 2
    arithmetic = 1e3 * 2 * weights * 512 / gpu.peaks["peak_bf16"]
    assert kept == 128 * 1024 and "128 KiB per token of context" in SAID["kept"]
    assert f"arithmetic of the matmuls takes {arithmetic:.1f} ms" in SAID["explain3"]
    assert f"{kept * 512 * 512 / 1e9:.0f} GB of keys and values" in SAID["explain3"]
    assert f"another {1e3 * kept * 512 * 512 / gpu.mem_bandwidth:.1f} ms" in SAID["explain3"]
    parts = cb.generate("llama3_8b", gpu, input_len=512, batch=512, precision="bf16", delay_of="token").parts
    half = f"about half of the peak ({1e3 * parts['products']:.0f} ms)"
    longer = f"lengthen the contexts ({1e3 * parts['cache']:.0f} ms for keys and values)"
    for part in (half, longer, f"launches and scheduling take {1e3 * parts['launch']:.0f} ms"):
        assert part in SAID["explain3"]
    assert 0.4 < arithmetic / 1e3 / parts["products"] < 0.6
    assert arithmetic > 1e3 * 2 * weights / gpu.mem_bandwidth, "the weights arrive while the matmuls compute"


def widths(tokens: pd.DataFrame) -> pd.Series:
    """Return by which factor the interval of a prompt reaches up from its point, by device."""
    prompts = tokens["prompt [tokens/s]"].str.replace(",", "").str.extract(r"([\d.]+) \([\d.]+ to ([\d.]+)\)")
    return prompts[1].astype(float) / prompts[0].astype(float)


def test_the_interval_of_a_device_that_nobody_measured_is_narrower():
    """The device that nobody has measured has the narrowest interval of the prompts."""
    today = table("04", "tokens").index.tolist()
    each = cb.planning.compare("llama3_8b", today, phase="inference", batch=1).set_index("key")
    ranked = each.sort_values("samples_per_s", ascending=False)
    assert ranked.index[1] == "gaudi3" and ranked.high["gaudi3"] > ranked.low.iloc[0], "second, and overlapping"
    reach = each.high / each.samples_per_s
    assert reach["gaudi3"] < reach[each.evidence == "measured here"].min()
    assert each.evidence["gaudi3"] == "datasheet only"
    factors = widths(table("04", "tokens"))
    assert factors["gaudi3"] < 0.95 * factors.drop("gaudi3").min()
    tiers = cb.accuracy(by="tier", kind="generation").set_index("tier").publishers
    assert tiers["datasheet only"] == 2 < tiers["prompts and first tokens"]
    assert "*narrower*" in SAID["explain4"] and "only two publishers set its width" in SAID["explain4"]


def test_users_that_do_not_fit_are_not_counted():
    """An RTX 4090 answers 47 of 64 users at a time, so 64 tokens per pass would be too many."""
    shown = table("04", "tokens")["64 users [tokens/s]"].str.split().str[0].str.replace(",", "").astype(float)
    for device, rate in shown.items():
        told = cb.generate("llama3_8b", device, input_len=1024, batch=64, delay_of="token")
        assert rate == pytest.approx(told.tokens_per_s, abs=0.6), device
        places = told.assumed.taken.get("answered at a time")
        assert (rate < 0.8 * 64 / told.point) == (places is not None) == (device == "rtx-4090")
        assert places is None or f"memory for only {places} of these users at a time" in SAID["explain1"]
