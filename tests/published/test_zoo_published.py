"""Every network of the zoo against the counts its row cites: the row may claim no more than what holds."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import pytest

from cookbook import catalog
from cookbook.workloads import zoo
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
    claims = [c for f, phrase, c in CLAIMS if f == figure and phrase in row["note"]]
    return sum(claim(zoo.model(row["name"]).ops) for claim in claims) if claims else None


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


def of_the_pyramid(ops: Ops) -> float:
    """Two numbers for each channel of the last stage, less the convolutions of the pyramid, whose bias has 256."""
    convs = ops.column("parameters", 1, 128)[np.char.startswith(ops.name.astype(str), "pyramid")]
    return float(2 * (convs[-1] - 256) / 256 - convs.sum())


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
    ("parameters", "its trunk with one norm more, without the pyramid", of_the_pyramid),
    ("parameters", "The first layer lacks one norm", lambda ops: -float(ops.parameters[ops.kind == "norm"][0])),
    (
        "parameters",
        "one more norm in each layer",  # of two, beside that after the last
        lambda ops: float((of_norms(ops, "parameters") - ops.parameters[ops.kind == "norm"][-1]) / 2),
    ),
]


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


def test_at_least_sixty_networks_are_verified() -> None:
    assert sum(row["how"] == "verified" for row in ROWS) >= 60


def test_names_and_aliases_lead_to_one_network() -> None:
    for row in ROWS:
        aliases = [] if blank(row["aliases"]) else row["aliases"].split(";")
        for name in [row["name"], row["title"], *aliases]:
            assert catalog.lookup("models", name) == row["name"], name
