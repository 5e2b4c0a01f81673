"""The verdicts of "Where this began" follow from its tables."""

import re

import nbformat
import pandas as pd
from bs4 import BeautifulSoup
from records import FOLDER, decision, outputs, table, words

SCALED, GRID, SPLIT = "cell-07", "cell-15", "split"


def interval(text: str) -> tuple[float, float]:
    low, high = re.search(r"\(([\d.]+) to ([\d.]+)\)", text).groups()
    return float(low), float(high)


def slower(split: pd.DataFrame, verdict: str) -> bool:
    """Whether the speed-ups of one split batch, by ring and as in the deck, bear out the verdict and its figures."""
    curves = {gpus: row.map(float) for gpus, row in split.iterrows() if gpus.isdigit()}
    deck, ring = ({gpus: row[f"{way}, InfiniBand"] for gpus, row in curves.items()} for way in ("2 w log2(p)", "ring"))
    peak, last = max(deck.values()), list(curves)[-1]
    found = re.search(
        r"one; with gradients sent as in the deck, ([\d.]+) times on (\d+) and ([\d.]+) on (\d+)$", verdict
    )
    return (
        verdict.startswith("not with a ring: by the formulas")
        and list(ring.values()) == sorted(ring.values())
        and deck[last] < peak
        and f" {last} K40s that share one batch of 1,024 over InfiniBand train {ring[last]:g} times as fast" in verdict
        and found is not None
        and (float(found[1]), float(found[3]), found[4]) == (peak, deck[last], last)
        and deck[found[2]] == peak
    )


def test_the_verdicts_follow_from_the_tables():
    """Intervals, gains of the link, split batches and the count of GPUs say what the verdicts say."""
    scaled, grid, split, record = *(table("where", name) for name in (SCALED, GRID, SPLIT)), decision("where")
    speed, size = scaled.columns[3], scaled.columns[0]
    (_, high), (low, _) = interval(scaled.loc["alexnet", speed]), interval(scaled.loc["googlenet", speed])
    larger, link = (
        record["Larger models scale more easily"],
        record["A fast link matters most for the least compute-intensive models"],
    )
    gains = scaled["NVLink over PCIe"].astype(float)
    most = max(gains.index, key=lambda name: gains[name])
    ten = next(gpus for gpus, side in grid["side p"].items() if side == "10")
    assert larger.startswith("no" if high < low else "open")
    assert all(
        f"{name} with {scaled.loc[name, size]} M parameters {scaled.loc[name, speed]}" in larger
        for name in ("alexnet", "googlenet")
    )
    assert float(scaled.loc["alexnet", size]) > float(scaled.loc["googlenet", size])
    assert link.startswith("by the point predictions, yes")
    assert most == scaled.index[0]
    assert f"{gains[most]:.1f} for {most}" in link
    assert slower(split, record["More workers make training slower"])
    assert f"so {ten} GPUs; {float(grid.loc[ten, 'exact [GB/s]']):g} GB/s" in record["Ten GPUs on a grid need 300 GB/s"]


def test_the_record_names_its_setup():
    setup = decision("where")["Setup"]
    assert all(word in setup for word in ("fp32", "64 samples each", "hpe-apollo-6500-gen9-xl270d", "4 TFLOP/s"))


def test_the_vote_on_speech_names_the_printed_ratio_of_peaks():
    """The vote on the speech network names the ratio of peaks that its cell prints, under a condition."""
    printed, page = words("where", "speech"), (FOLDER / "history" / "where-this-began.ipynb").read_text()
    then = re.search(r"peaks: ([\d.]+)× then", printed)[1]
    assert f"its peak was {then} times that of our stand-in CPU" in page
    assert "If the GPU was a K40" in page


def test_each_objective_has_a_section_that_is_not_optional():
    page = (FOLDER / "history" / "where-this-began.ipynb").read_text()
    sections = re.findall(r'"## (\d)\. (Optional: )?', page)
    assert [number for number, optional in sections if not optional] == ["1", "2", "3"]


def source(cell: str) -> str:
    """Return the text of a cell of the page."""
    pages = nbformat.read(FOLDER / "history" / "where-this-began.ipynb", as_version=4).cells
    return next(each.source for each in pages if each.id == cell)


def errors() -> dict[str, list[float]]:
    """Return each publisher's error and that of perfect scaling on one node, which all publishers have."""
    pages = ("".join(output.get("data", {}).get("text/html", "")) for output in outputs("where", "speedups"))
    rows = BeautifulSoup(next(page for page in pages if "<tbody>" in page), "html.parser").tbody.find_all("tr")
    heads, figures = ([[entry.get_text() for entry in row.find_all(name)] for row in rows] for name in ("th", "td"))
    return {head[0]: [*map(float, row[2:4])] for head, row in zip(heads, figures, strict=True) if head[1:] == ["one"]}


def test_the_publishers_for_whom_perfect_scaling_is_nearer_are_named():
    """The publishers for whom perfect scaling is more accurate than our model are those that the text names."""
    pairs, text = errors(), source("cell-27")
    assert len(pairs) == 5
    names = [publisher.title() for publisher, (ours, ideal) in pairs.items() if ours > ideal]
    assert names == re.findall(r"for one publisher \((\w+)\)", text)


def nearest_batches(seconds: pd.DataFrame, stated: str) -> list[str]:
    """Return the batches whose times of a GPU and a CPU, and whose ratio, are nearest to what Inspur printed."""
    cpu, card = (float(figure) for figure in re.search(r"([\d.]+) s on a CPU, ([\d.]+) s on a GPU", stated).groups())
    aims = {seconds.columns[1]: card, seconds.columns[0]: cpu, "then": cpu / card}
    rows = seconds[seconds.index.str.isdigit()].astype(float)
    return [str((rows[name] - aim).abs().idxmin()) for name, aim in aims.items()]


def test_no_row_shows_all_three_figures_of_inspur():
    seconds, stated = table("where", "speech"), source("speech-text")
    assert nearest_batches(seconds, stated) == ["8192", "512", "32"]
    said = source("explain-speech")
    assert "GPU time is close to our prediction for the largest batch, its CPU time to that for a batch of 512" in said
    assert "and its factor to that for a batch of 32; no row matches all three" in said
    assert nearest_batches(seconds, stated.replace("256.1", "386.1")) == ["8192", "128", "32"]


def test_the_table_of_2017_shows_differences_and_no_rounding():
    ratios = table("where", "deck")["deck / ours"]
    assert (ratios[ratios.str.fullmatch(r"[\d.]+")].astype(float) - 1).abs().min() > 0.005


def test_the_solution_says_whether_eight_gpus_serve_the_network():
    """The solution places 640 MAC per parameter beside AlexNet, and repeats what eight GPUs gain there."""
    page = nbformat.read(FOLDER / "history" / "where-this-began.ipynb", as_version=4)
    solution = next(cell.source for cell in page.cells if cell.id == "solution1")
    scaled = table("where", SCALED)
    ratio, speed = scaled.columns[1], scaled.columns[3]
    own = {name: float(text.replace(",", "")) for name, text in scaled[ratio].items()}
    nearest = min(own, key=lambda name: abs(own[name] - 640))
    gain = scaled.loc["alexnet", speed].split()[0]
    said = f"# a little less than AlexNet, whose eight GPUs are only {gain} times as fast as one: no" in solution
    assert said
    assert nearest == "alexnet"
    assert own["alexnet"] > 640
    assert float(gain) < 5
