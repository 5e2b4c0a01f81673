"""Every network of the zoo against the counts its row cites: the row may claim no more than what holds."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from cookbook import catalog
from cookbook.workloads import zoo
from cookbook.workloads.builders import sequence
from cookbook.workloads.ops import Ops

ROWS = catalog.table("models").to_dict("records")
NAMES = [row["name"] for row in ROWS]


def blank(value: object) -> bool:
    return value is None or value == "" or (isinstance(value, float) and math.isnan(value))


def agrees(row: dict, figure: str, computed: float) -> bool | None:
    """Whether the published figure is met within its printed rounding; None where nothing is published."""
    published = row[f"published_{figure}"]
    if blank(published):
        return None
    adjustment = row[f"{figure}_adjustment"]
    rounding = row[f"{figure}_rounding"]
    total = computed + (0.0 if blank(adjustment) else adjustment)
    return abs(total - published) <= rounding * (1 + 1e-9)


def evidence(row: dict) -> str:
    """What the published figures allow the row to say of itself."""
    workload = zoo.model(row["name"])
    macs = float(workload.ops.total("macs", 1, workload.seq))
    parameters = agrees(row, "parameters", workload.ops.parameter_count)
    if parameters and agrees(row, "macs", macs):
        return "verified"
    return "parameters only" if parameters else "unverified"


def recomputed(row: dict, figure: str) -> float | None:
    """The adjustment that the note explains, from the operations themselves; None where it explains another."""
    if figure == "parameters" and row["name"] in BESIDE:
        return float(BESIDE[row["name"]](row["name"]))
    claims = [c for f, phrase, c in CLAIMS if f == figure and phrase in row["note"]]
    return sum(claim(zoo.model(row["name"]).ops) for claim in claims) if claims else None


def sizes(name: str) -> dict:
    return json.loads(ROWS[NAMES.index(name)]["arguments"])


def count(name: str, **changes: object) -> float:
    return zoo.model(name, **changes).ops.parameter_count


def layer(name: str, tail: str) -> float:
    """Parameters of one more layer of a hybrid, whose branches are `tail`."""
    return count(name, pattern=2 * tail, repeats=1) - count(name, pattern=tail, repeats=1)


def projected(width: int) -> int:
    """What leads to a layer that predicts further ahead, and leaves it: two widths to one, and three norms."""
    return 2 * width * width + 3 * width


def ahead(name: str, copies: int = 0, **changes: object) -> float:
    """A layer that predicts further ahead, with copies of embedding or output matrix."""
    more = count(name, predict_ahead=1, **changes) - count(name, **changes)
    return more + copies * sizes(name)["vocab"] * sizes(name)["width"]


def qwen_tower(layers: int, width: int, hidden: int, out: int) -> int:
    """Patches of 2 x 16 x 16 pixels, 2,304 positions, layers with biases; then 2 x 2 patches become one token."""
    block = 4 * (width * width + width) + 2 * width * hidden + hidden + width + 4 * width
    merger = 2 * width + (4 * width) ** 2 + 4 * width + 4 * width * out + out
    return 3 * 2 * 16 * 16 * width + width + 2304 * width + layers * block + merger


def qwen3_5(name: str, layers: int = 27, width: int = 1152, hidden: int = 4304) -> float:
    own = sizes(name)
    predicted = layer(name, own["pattern"][-2:]) + projected(own["width"])
    return predicted + qwen_tower(layers, width, hidden, own["width"])


def pixtral_tower(out: int, layers: int = 24, width: int = 1024, hidden: int = 4096) -> int:
    """Patches of 14 x 14 pixels without biases; four become one, which two matrices lead to the language model."""
    block = 4 * width * width + 3 * width * hidden + 2 * width
    return 3 * 14 * 14 * width + width + layers * block + width + 4 * width * width + width * out + out * out


def llama4_tower(out: int = 5120, layers: int = 34, width: int = 1408, hidden: int = 5632, joint: int = 4096) -> int:
    """Patches of 14 x 14 of 336 x 336 pixels; adapter and projector without biases."""
    block = 4 * (width * width + width) + 2 * width * hidden + hidden + width + 4 * width
    tokens = (336 // 14) ** 2 + 1
    head = 4 * width + hidden * joint + joint * joint + joint * out
    return 3 * 14 * 14 * width + width + tokens * width + layers * block + head


def deepseek_v4(name: str, chosen: int = 6, hashed: int = 3, streams: int = 4) -> float:
    """The predicting layer attends to its window alone; three layers look experts up by token, the others and that
    layer have an offset per expert; the streams are mixed once more."""
    own = sizes(name)
    near = {key: size for key, size in own["branches"]["h"].items() if key != "ratio"}
    built = {**own, "branches": {**own["branches"], "l": near}}
    once, twice = (sequence.hybrid(**{**built, "pattern": times * "lE"}).parameter_count for times in (1, 2))
    predicted = twice - once + projected(own["width"])
    layers, experts = len(own["pattern"]) // 2, own["experts"]["number"]
    mixed = streams * streams * own["width"] + streams + 1
    return predicted + mixed + hashed * own["vocab"] * chosen + (layers - hashed + 1) * experts


def pyramid(*channels: int, out: int = 256) -> int:
    """One more norm of the last stage, less a convolution to `out` channels, with bias, from each stage."""
    return 2 * channels[-1] - sum(out * width + out for width in channels)


def of_norms(ops: Ops, quantity: str) -> float:
    values = ops.count if quantity == "count" else ops.column(quantity, 1, 128)
    return float(values[ops.kind == "norm"].sum())


def of_attention(ops: Ops) -> float:
    """Less the products inside attention, and one operation for each weight that its softmax makes, of five."""
    core = ops.kind == "attention"
    return float((ops.column("vector_flop", 1, 128) / 5 - ops.column("macs", 1, 128))[core].sum())


def of_products(ops: Ops) -> float:
    return float(ops.column("macs", 1, 128)[ops.kind == "attention"].sum())


def of_biases(ops: Ops) -> float:
    """One operation for each output of a convolution, of which each has a bias once its norm is folded in."""
    return float(ops.column("writes", 1, 128)[ops.kind == "conv2d"].sum())


def of_both_norms(ops: Ops) -> float:
    """Batch norms are told from layer norms by their work on each element, of 4 and 7."""
    read, work, norm = ops.column("reads", 1, 128), ops.column("vector_flop", 1, 128), ops.kind == "norm"
    batch = norm & np.isclose(work, 4 * read)
    return float(2 * read[batch].sum() + 5 * read[norm & ~batch].sum())


def of_look_ups(ops: Ops) -> float:
    """Rows, then columns of each head's (2 w - 1)^2 biases, picked by products with one-hot matrices."""
    core = ops.kind == "attention"
    side = np.sqrt(ops.window[core])
    table = 2 * side - 1
    return float((ops.groups[core] * ops.count[core] * (table**2 * side**2 + side**4 * table)).sum())


# Figure, what a note says, and the adjustment that follows from the operations.
CLAIMS: list[tuple[str, str, Callable[[Ops], float]]] = [
    ("macs", "2 operations for each element that a batch norm reads", lambda ops: 2 * of_norms(ops, "reads")),
    ("macs", "4 operations for each input of a batch norm", lambda ops: 4 * of_norms(ops, "reads")),
    ("macs", "one operation for the bias of each output of a convolution", of_biases),
    ("macs", "The published count leaves out the two products of attention", lambda ops: -of_products(ops)),
    ("macs", "2 operations for each input of a batch norm and 5 for each of a layer norm", of_both_norms),
    ("macs", "the look-ups of the position biases as two products", of_look_ups),
    ("macs", "5 operations for each element that a layer norm reads", lambda ops: 5 * of_norms(ops, "reads")),
    ("macs", "With pooler, no task head. DeepSpeed's counter leaves out the two products", of_attention),
    (
        "parameters",
        "the mean and variance of every norm channel and one scale factor for each norm",
        lambda ops: of_norms(ops, "parameters") + of_norms(ops, "count"),
    ),
    (
        "parameters",
        "counts the mean, the variance and one scale factor of each norm",
        lambda ops: of_norms(ops, "parameters") + of_norms(ops, "count"),
    ),
    ("parameters", "and 64 biases of the first convolution", lambda ops: 64.0),
    (
        "parameters",
        "leave out the scale and shift of the frozen batch norms",
        lambda ops: -of_norms(ops, "parameters"),
    ),
    ("parameters", "(2 numbers a channel) folded into one bias", lambda ops: -of_norms(ops, "parameters") / 2),
    ("parameters", "The first layer lacks one norm", lambda ops: -float(ops.parameters[ops.kind == "norm"][0])),
    (
        "parameters",
        "one more norm in each layer",  # of two, beside that after the last
        lambda ops: float((of_norms(ops, "parameters") - ops.parameters[ops.kind == "norm"][-1]) / 2),
    ),
]


# Parameters that the published count has beside those of the row, by hand or by the builder.
BESIDE: dict[str, Callable[[str], float]] = {
    **dict.fromkeys((f"qwen3.5_{size}" for size in ("397b_a17b", "122b_a10b", "35b_a3b", "27b", "9b")), qwen3_5),
    **dict.fromkeys(("qwen3.5_4b", "qwen3.5_2b"), lambda name: qwen3_5(name, 24, 1024, 4096)),
    "qwen3.5_0.8b": lambda name: qwen3_5(name, 12, 768, 3072),
    **dict.fromkeys(("glm_4.5", "glm_5", "glm_5.2", "mimo_7b", "hy3"), ahead),
    **dict.fromkeys(("glm_4.5_air", "glm_4.7_flash"), lambda name: ahead(name, copies=2)),
    "k_exaone_236b_a23b": lambda name: ahead(name, experts=None),
    "nemotron_3_super_120b_a12b": lambda name: layer(name, "*E") + projected(4096),
    "step_3.5_flash": lambda name: 3 * (layer(name, "w-") + projected(4096) + 128896 * 4096),
    "longcat_flash": lambda name: layer(name, "L-") + projected(6144) + 131072 * 6144 - 28 * 6144,
    **dict.fromkeys(("deepseek_v4_flash", "deepseek_v4_pro"), deepseek_v4),
    **dict.fromkeys(("llama4_scout", "llama4_maverick"), lambda _: llama4_tower()),
    "ministral_3_8b": lambda _: pixtral_tower(4096),
    # Of each of 36 layers, 128 experts of two matrices and eight matrices more have a factor of weights and of inputs.
    "mistral_small_4": lambda _: pixtral_tower(4096) + 36 * 2 * (2 * 128 + 8),
    **dict.fromkeys(("sam2_hiera_tiny", "sam2_hiera_small"), lambda _: pyramid(96, 192, 384, 768)),
    "sam2_hiera_base_plus": lambda _: pyramid(112, 224, 448, 896),
    "sam2_hiera_large": lambda _: pyramid(144, 288, 576, 1152),
}
# Towers and layers that no claim counts: their parameters are what closes the gap to the published count.
INFERRED = {
    "deepseek_ocr",
    "gemma4_31b",
    "gemma4_26b_a4b",
    "gemma4_12b",
    "gemma4_e4b",
    "gemma4_e2b",
    "kimi_k3",
    "mimo_v2_flash",
    "minimax_m3",
}


def test_towers_and_layers_left_out_are_counted_but_for_a_few() -> None:
    """An adjustment that no claim counts would pass whatever it is: only these may, and they are named."""
    left_out = {
        row["name"]
        for row in ROWS
        if not blank(row["parameters_adjustment"])
        and any(part in row["note"] for part in ("ahead", "tower", "images", "encoders of"))
    }
    assert left_out - set(BESIDE) == INFERRED
    assert set(BESIDE) <= left_out


def test_most_adjustments_for_norms_are_recomputed() -> None:
    """A note about norms that no claim covers would pass unread."""
    adjusted = [
        (row, figure)
        for row in ROWS
        for figure in ("parameters", "macs")
        if not blank(row[f"{figure}_adjustment"]) and "norm" in row["note"]
    ]
    unread = {row["name"] for row, figure in adjusted if recomputed(row, figure) is None}
    # The auxiliary classifier is counted by hand in test_convnets; GPT-J's copies of sharded vectors are inferred.
    assert unread == {"inception_v3", "gpt_j_6b"}
    assert len(adjusted) - len(unread) >= 40


@pytest.mark.parametrize("row", ROWS, ids=NAMES)
def test_counts_equal_the_published_figures(row: dict) -> None:
    assert evidence(row) == row["how"]


@pytest.mark.parametrize("row", ROWS, ids=NAMES)
def test_every_figure_has_source_and_rounding(row: dict) -> None:
    for figure in ("parameters", "macs"):
        published = row[f"published_{figure}"]
        if blank(published):
            assert blank(row[f"{figure}_adjustment"]), "an adjustment needs a published figure"
            continue
        assert not blank(row[f"{figure}_source"])
        assert 0 <= row[f"{figure}_rounding"] <= 0.08 * published, (
            "too coarse a figure: leave it blank, say so in the note"
        )
        if not blank(row[f"{figure}_adjustment"]):
            assert row["note"], "an adjustment must be explained in the note"
            assert float(row[f"{figure}_adjustment"]).is_integer()
            assert recomputed(row, figure) in (None, row[f"{figure}_adjustment"])
    unmet = row["how"] != "verified" and not blank(row["published_macs"])
    if row["how"] == "unverified" or unmet:
        assert row["note"], "say in the note why the row is not verified"


def test_the_change_log_counts_the_networks() -> None:
    told = (Path(__file__).parents[2] / "CHANGELOG.md").read_text(encoding="utf-8").replace("\n", " ")
    equal = sum(row["how"] != "unverified" for row in ROWS)
    assert re.findall(r"a zoo of (\d+) networks .*?, +(\d+) of", told) == [(str(len(ROWS)), str(equal))]


def test_at_least_sixty_networks_are_verified() -> None:
    assert sum(row["how"] == "verified" for row in ROWS) >= 60


def test_names_and_aliases_lead_to_one_network() -> None:
    for row in ROWS:
        aliases = [] if blank(row["aliases"]) else row["aliases"].split(";")
        for name in [row["name"], row["title"], *aliases]:
            assert catalog.lookup("models", name) == row["name"], name
        known = {row["name"].casefold(), row["title"].casefold()}
        assert len({name.casefold() for name in aliases} - known) == len(aliases), f"{row['name']}: differ in case only"


def test_networks_whose_layers_keep_a_state_are_of_one_family() -> None:
    for row in ROWS:
        if row["builder"] == "sequence.hybrid":
            own = json.loads(row["arguments"])
            kinds = {branch["kind"] for branch in own.get("branches", {}).values()}
            kept = "M" in own["pattern"] or bool(kinds & {"delta", "convolution"})
            assert row["family"] == ("state_space" if kept else "moe" if "E" in own["pattern"] else "transformer")
