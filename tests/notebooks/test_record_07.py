"""The decision of recipe 07 follows from its tables of pairs, repeats and prices."""

import re
from types import SimpleNamespace
from typing import Any

import nbformat
import pandas as pd
import pytest
from records import FOLDER, decision, interval, outputs, sources, table, words

import cookbook as cb

SAID = sources("07")

TASK, PUBLISHER, CLAIM, MULTIPLE = "4,096 tokens", "mosaicml", 2.0, 2.0


def page() -> dict[str, Any]:
    """Return what the stored page shows: pairs, repeats, what the new GPU is worth, prices, and the record."""
    prices = re.findall(
        r"^(\S+): \$([\d.]+) per hour .+? between \$([\d.]+) and \$([\d.]+)", words("07", "prices"), re.M
    )
    shown = {cell: table("07", cell) for cell in ("oursshown", "noise", "worth")}
    return shown | {"prices": {gpu: [float(usd) for usd in each] for gpu, *each in prices}, "record": decision("07")}


def test_the_record_follows_from_the_page():
    """Ratios, noise and verdict are those of the pair named, and limits those of the old GPU's list prices."""
    shown = page()
    (old, (usd, least, most)), (new, _) = shown["prices"].items()
    row, record = shown["oursshown"].loc[TASK], shown["record"]
    rates = [float(text.replace(",", "")) for text in row.iloc[:2]]
    noise = float(shown["noise"].loc[PUBLISHER].iloc[2])
    ratio, low, high = interval(row.iloc[2])
    expected = rates[1] / rates[0], rates[1] / rates[0] / noise, rates[1] / rates[0] * noise
    verdict = "yes" if low >= CLAIM else "no" if high < CLAIM else "not settled"
    limits = interval(shown["worth"].loc[TASK].iloc[1])
    right = all(abs(a - b) < 0.02 for a, b in zip((ratio, low, high), expected, strict=True))
    right &= all(abs(a - usd * b) < 0.012 for a, b in zip(limits, (ratio, low, high), strict=True))
    fate = "yes" if low >= MULTIPLE else "no" if high < MULTIPLE else "open"
    said = re.fullmatch(
        rf"{fate} at {MULTIPLE:g} times the price: {new} pays off at up to {low:.2f} times what you pay for {old}, "
        rf"whatever that is, and not above {high:.2f} times; open between\. With (.+): up to \$([\d.]+) per hour, "
        r"not above \$([\d.]+)",
        record["Choice"],
    )
    ends = [float(end) for end in said.groups()[1:]] if said else []
    assert right
    assert said is not None
    assert ends == pytest.approx([low * least, high * most], abs=0.012)
    assert said[1] == f"{old} at ${least:.2f} to ${most:.2f}, list"
    assert (
        record["Measured"]
        == f"{ratio:.2f} times ({low:.2f} to {high:.2f}); the range is a factor of {noise:.2f}, which one repeat in "
        "ten of this publisher exceeds; it includes any change in the software between dates"
    )
    assert record["At least 2 times as fast"] == verdict == row.iloc[4]
    assert (
        record["Pays off up to"]
        == f"${limits[0]:.2f} ({limits[1]:.2f} to {limits[2]:.2f}) per hour, with {old} at ${usd:.2f}"
    )
    assert TASK in record["Work"]
    assert record["Work"].endswith(f"LLM Foundry (Composer, PyTorch FSDP), published by {PUBLISHER} (2024-01)")
    assert len(re.findall(r"20\d\d-\d\d to 20\d\d-\d\d", record["Price"])) == 2


def test_the_words_on_software_and_date_are_those_of_the_record():
    assert "the software of January 2024" in SAID["explain4"]
    assert "in section 3 date from January 2024" in SAID["summary"]
    assert "LLM Foundry (PyTorch FSDP)" in SAID["loop3"]


def test_the_repeats_compare_two_dates_of_equal_software():
    """The medians of the small models and the ends of MPT 7B are those that the text states.

    Repeats have equal software and two dates, on A100s alone, and each in the table was faster in 2024.
    """
    runs, dated = cb.measurements(kind="training", publisher=PUBLISHER), table("07", "dated")
    assert len(dated) == 6
    words = SAID["explain3"]
    facts = ["network", "task", "devices", "precision", "batch_per_device", "accelerator", "data", "unit", "layout"]
    groups = runs[runs.throughput > 0].groupby([*facts, "software"], dropna=False)
    again = groups.throughput.agg(["min", "max", "size"]).join(groups.date.agg(tuple)).query("size > 1")
    middle, tenth = (again["max"] / again["min"]).quantile([0.5, 0.9])
    rates = dated.map(lambda text: float(text.replace(",", "")))
    faster = (rates.iloc[:, 1] > rates.iloc[:, 0]).all()
    assert set(again.index.get_level_values("accelerator")) == {"a100-sxm-80gb"}
    assert {tuple(sorted(dates)) for dates in again.date} == {("2023-05/06", "2024-01")}
    assert [date.split()[1] for date in dated.columns] == ["2023-05/06", "2024-01"]
    assert f"the median difference is {100 * middle - 100:.1f} %;" in words
    ratios = again["max"] / again["min"]
    by, seven = ratios.groupby("network").median(), 100 * ratios["mpt_7b"] - 100
    small = by[["mpt_125m", "mpt_350m", "mpt_760m", "mpt_1b", "mpt_3b"]]
    assert "up to 3 billion parameters, the median difference is about 1 %" in words
    assert small.between(1.005, 1.015).all()
    assert by.drop(small.index).min() > 1.05
    assert f"six settings of MPT 7B differ by {seven.min():.0f} to {seven.max():.0f} %" in words
    assert len(seven) == 6
    assert round(100 * tenth - 100) == int(re.search(r"more than about (\d+) %", words)[1])
    assert faster and "every setting was faster the second time" in words
    assert "repeated settings only on A100s, with one run in mid-2023 and one in January 2024" in words
    assert int(table("07", "noise").loc[PUBLISHER].iloc[0]) == 55


def test_a_noise_of_10_per_cent_changes_no_verdict():
    rows = table("07", "oursshown")
    assert "With 10 % instead of 9 %, no verdict" in SAID["explain3"]
    for _, row in rows.iterrows():
        ratio = interval(row.iloc[2])[0]
        assert row.iloc[4] == ("yes" if ratio / 1.10 >= CLAIM else "no" if ratio * 1.10 < CLAIM else "not settled")


def test_the_batch_shrinks_as_the_sequences_grow():
    """The GPUs of each pair process the tokens per step that the words state, by length and batch."""
    runs = cb.measurements(kind="training", network="mpt_7b", devices=8, publisher=PUBLISHER, precision="bf16")
    runs, tasks = runs[runs.accelerator.isin(["a100-sxm-80gb", "h100-sxm"])], table("07", "oursshown").index
    assert len(tasks) == 5
    stated = int(re.search(r"always processes ([\d,]+) tokens per step", SAID["loop3"])[1].replace(",", ""))
    for task in tasks:
        length = int(task.split()[0].replace(",", ""))
        pair = runs[(runs.task == task) & (runs.date == "2024-01")]
        assert set(pair.accelerator) == {"a100-sxm-80gb", "h100-sxm"}
        assert set(length * pair.batch_per_device) == {stated}


def test_the_feedback_on_bert_names_the_networks_that_scale():
    """The networks named keep their ratio from one GPU to eight, and GNMT loses its own as BERT-Large does."""
    runs = cb.measurements(kind="training", versus="accelerator", publisher="lambda")
    runs = runs[runs.accelerator.isin(["a100-sxm-80gb", "h100-sxm"])]
    place = ["network", "precision", "batch_per_device", "devices"]
    pairs = runs.pivot_table("throughput", place, "accelerator").dropna()
    rates = (pairs["h100-sxm"] / pairs["a100-sxm-80gb"]).unstack("devices")
    words = SAID["predict2"]
    grown = (rates[8] / rates[1]).groupby("network").agg(["min", "max"])
    keep = {"ResNet": "resnet50_v1.5", "SSD": "ssd300_resnet50", "Transformer-XL": "transformer_xl_large"}
    assert re.search(r"Transformer-XL keep their ratio \"\s+\"from one GPU to eight to within 14 %", words) is not None
    assert "GNMT shows the same on that machine" in words
    assert round(100 * grown["max"][list(keep.values())].max() - 100) == 14
    assert grown["min"][list(keep.values())].min() > 0.99
    assert all(grown["min"][name] > 1.5 for name in ("gnmt_v2", "bert_large_squad"))


def gained(rates: pd.DataFrame, words: str) -> bool:
    """Whether the text gives the ends of what BERT-Large and GNMT gain on eight GPUs, and TF32 gains most."""
    eight = rates.loc[["bert_large_squad", "gnmt_v2"], 8].unstack("precision").groupby("network").max()
    said = f"On eight GPUs, BERT-Large and GNMT gain a factor of {eight.min().min():.1f} to {eight.max().max():.1f}"
    return f"{said}, with the largest gains in TF32." in words and (eight["tf32"] > eight["amp_fp16"]).all()


def test_what_eight_gpus_gain_is_said_with_its_precision():
    runs = cb.measurements(kind="training", versus="accelerator", publisher="lambda")
    place = ["network", "precision", "batch_per_device", "devices"]
    pairs = runs.pivot_table("throughput", place, "accelerator")[["a100-sxm-80gb", "h100-sxm"]].dropna()
    rates, said = (pairs["h100-sxm"] / pairs["a100-sxm-80gb"]).unstack("devices"), SAID
    assert gained(rates, said["explain2"]) and "BERT-Large in TF32 trains" in said["predict2"]
    assert all("BERT-Large, TF32, on" in name for name in table("07", "scaling"))


def test_the_new_gpu_is_cheaper_for_short_sequences_at_median_prices_alone():
    """Short sequences alone are cheaper on the new GPU, at the medians and not at its upper quartile."""
    assert "At the **median** list prices, the H100 is cheaper per token for short sequences" in SAID["explain5"]
    assert "upper quartile of its prices, the H100 is more expensive, even if the noise favours it" in SAID["explain5"]
    shown = page()
    (_, (usd, _, _)), (new, (median, _, upper)) = shown["prices"].items()
    column = "cheaper per token, at median prices"
    ratios = {task: interval(text) for task, text in shown["oursshown"].iloc[:, 2].items()}
    said = {task: new if median / usd / low < 1 else "open" for task, (_, low, _) in ratios.items()}
    point, _, high = ratios["1,024 tokens"]
    assert shown["worth"][column].to_dict() == said
    assert [task for task, which in said.items() if which == new] == ["1,024 tokens", "4,096 tokens"]
    assert upper / usd / point > 1
    assert upper / usd / high > 1


def record(**changed: Any) -> dict[str, str]:
    """Return the decision that the page writes with changed parameters."""
    every = nbformat.read(FOLDER / "07-explore-measurements.ipynb", as_version=4).cells
    source, names = {cell.id: cell.source for cell in every}, dict[str, Any]()
    for cell in ("imports", "parameters"):
        exec(source[cell], names)
    names |= changed
    written: list[dict[str, str]] = []
    names["cb"] = SimpleNamespace(
        measurements=cb.measurements,
        planning=cb.planning,
        panels=SimpleNamespace(record=lambda question, decided: written.append(decided)),
    )
    for cell in ("pairs", "noise", "ours", "prices", "worth", "chosen", "decision"):
        exec(source[cell], names)
    return written[0]


def test_the_record_decides_only_by_quotes_for_both_gpus():
    """A quote for the new GPU alone leaves the old one at list, so limits remain; that of the old one narrows them."""
    without = record()["Choice"]
    assert without == decision("07")["Choice"] == record(quotes={"h100-sxm": 3.10})["Choice"]
    ratio, low, high = interval(table("07", "oursshown").loc[TASK].iloc[2])
    own = record(quotes={"a100-sxm-80gb": 1.30})["Choice"]
    assert "open between. With a100-sxm-80gb at $1.30, your quote: " in own
    assert [float(usd) for usd in re.findall(r"\$([\d.]+)", own)[1:]] == pytest.approx(
        [1.30 * low, 1.30 * high], abs=0.012
    )
    for usd, said in ((1.30 * low - 0.05, "take the offer"), (1.30 * ratio, "open: "), (1.30 * high + 0.05, "stay")):
        assert record(quotes={"a100-sxm-80gb": 1.30, "h100-sxm": usd})["Choice"].startswith(said)


def test_a_multiple_of_the_price_needs_no_price():
    """It is answered by the ends of the ratio alone, and quotes at that multiple lead to the same answer."""
    ratio, low, high = interval(table("07", "oursshown").loc[TASK].iloc[2])
    assert f"up to {low:.2f} times what you pay for the A100, whatever that is" in SAID["explain5"]
    for multiple, fate, quoted in (
        (low - 0.02, "yes", "take the offer"),
        (ratio, "open", "open"),
        (high + 0.02, "no", "stay"),
    ):
        assert record(multiple=multiple)["Choice"].startswith(f"{fate} at {multiple:g} times the price: ")
        quotes = {"a100-sxm-80gb": 1.49, "h100-sxm": 1.49 * multiple}
        assert record(quotes=quotes)["Choice"].startswith(quoted)


def test_networks_of_a_pair_without_three_pairs_are_shown_whole():
    """The Tweak of section 3: the table of networks is complete, or says that there is none."""
    said, names = SAID, dict[str, Any]()
    for old, new, count in (("h100-sxm", "h200-sxm", None), ("h100-sxm", "jetson-nano", 0)):
        for cell in ("imports", "parameters"):
            exec(said[cell], names)
        names |= {"old": old, "new": new}
        for cell in ("pairs", "networks"):
            exec(said[cell], names)
        few = names["few"]
        assert not few.isin(["nan"]).to_numpy().any() and not few.isna().to_numpy().any() and count in (None, len(few))
    assert said["networks"].endswith('if len(few) else "no network with three pairs"')


def test_a_pair_that_is_measured_elsewhere_only_is_called_so(capsys):
    """The Tweak of section 3: its record repeats the count and the median of the line above, and names no publisher."""
    tweaked = record(old="h100-sxm", new="h200-sxm")
    line = capsys.readouterr().out.splitlines()[0]
    counted = r"\d+ pairs; in (\d+) of them, one publisher measured both GPUs; median ratio ([\d.]+), .+"
    one, median = re.fullmatch(counted, line).groups()
    assert tweaked["Choice"] == (
        f"open: nobody measured this pair on mpt_7b, {TASK}; elsewhere {one} pairs, median {median}; "
        "ask the vendor for a trial"
    )
    assert tweaked["Work"].endswith("no pair published") and tweaked["Measured"] == "no pair"
    nowhere = record(old="gaudi2", new="jetson-nano", work={"network": "x", "task": "y", "devices": 8})
    assert nowhere["Choice"] == "open: nobody measured this pair on x, y; ask the vendor for a trial"


def test_pairs_of_one_publisher_are_fewer_than_all_pairs():
    said = "".join(output.get("text", "") for output in outputs("07", "pairs"))
    every, one = re.match(r"(\d+) pairs; in (\d+) of them, one publisher measured both GPUs;", said).groups()
    assert int(one) < int(every)
