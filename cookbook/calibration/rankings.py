"""Do predictions put layouts of the same run in the right order? Judged where one publisher measured several."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from cookbook import catalog

if TYPE_CHECKING:
    import pandas as pd

LEAST = 5
SAME = ("publisher", "model", "accelerator", "devices", "seq_len", "global_batch", "precision", "software",
        "attention_kernel", "fused_norm")  # fmt: skip
TOLD = ("publisher", "model", "devices", "seq_len", "attention_kernel", "fused_norm")
LAYOUT = ("tp", "pp", "vp", "cp", "ep", "dp", "zero_stage", "sequence_parallel", "micro_batch", "activation_recompute")


def ranked_layouts(rows: pd.DataFrame) -> pd.DataFrame:
    """How good the layout is that the predictions call fastest, of those that a publisher measured for one run.

    Parameters
    ----------
    rows : pandas.DataFrame
        Judged runs with predicted and measured step times, as `cookbook.accuracy(by="row")` gives them.

    Returns
    -------
    pandas.DataFrame
        One line a run of which at least five layouts were measured: publisher, model, devices, seq_len,
        attention_kernel, fused_norm, layouts; rank_correlation (Spearman) of measured and predicted; and over the
        fastest measured layout: chosen (the one predicted fastest), median and slowest, 1 where it is the fastest.
    """
    import pandas as pd

    table = catalog.table("training_transformer")
    inputs = ["id", *(name for name in (*SAME, *LAYOUT) if name not in rows)]
    runs = rows.merge(table[inputs], on="id")
    lines: list[dict[str, Any]] = []
    for _, group in runs.groupby(list(SAME), dropna=False):
        steps = group.groupby(list(LAYOUT), dropna=False)[["measured", "predicted"]].median().reset_index()
        if len(steps) < LEAST:
            continue
        over = steps["measured"] / steps["measured"].min()
        first = group.iloc[0]
        lines.append({
            **{name: first[name] for name in TOLD}, "layouts": len(steps),
            "rank_correlation": steps["measured"].rank().corr(steps["predicted"].rank()),
            "chosen": over[steps["predicted"].idxmin()], "median": over.median(), "slowest": over.max(),
        })  # fmt: skip
    return pd.DataFrame(lines, columns=[*TOLD, "layouts", "rank_correlation", "chosen", "median", "slowest"])
