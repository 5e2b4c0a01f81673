"""Answers a reader's table of scenarios row by row: a number with its interval, or the reason why there is none."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TextIO

import numpy as np

from cookbook.prediction import generation, inference_rows
from cookbook.prediction import transformer_text as words
from cookbook.prediction.cells import impossible
from cookbook.prediction.inference import seconds_of
from cookbook.prediction.intake import Intake, read_scenarios
from cookbook.prediction.measurements import KINDS, as_scenarios, module_of, without_outcomes
from cookbook.prediction.record import Prediction
from cookbook.prediction.step import predict_scenarios
from cookbook.prediction.storage import COLUMNS as STORAGE_COLUMNS
from cookbook.prediction.storage import storage_table

if TYPE_CHECKING:
    from pathlib import Path

    import pandas as pd

COLUMNS = ("id", "predicted", "unit", "low80", "high80", "low90", "high90", "tier", "why")
MEMORY_COLUMNS = ("memory_bytes", "fits")
# Beyond `COLUMNS`, by kind.
MORE = {"training_transformer": MEMORY_COLUMNS, "storage": STORAGE_COLUMNS}
ASKED = (*KINDS, "storage")
BLOCK = 4096
# Kinds whose rows say what the rate counts.
COUNTED = ("training_classic",)


def answer_file(path: str | Path, kind: str, neighbours: bool = True) -> pd.DataFrame:
    """Predict every row of a CSV file; see `answer`.

    Parameters
    ----------
    path : str or Path
        The table; any encoding and any of the usual delimiters.
    kind : str
        "training_classic", "training_transformer", "inference" or "storage".
    neighbours : bool
        Whether similar measurements correct the points.
    """
    taken = read_scenarios(path)
    return answer(taken.frame, kind, neighbours, taken)


def answer(frame: pd.DataFrame, kind: str, neighbours: bool = True, taken: Intake | None = None) -> pd.DataFrame:
    """Predict every row of a table, in its order; a row that cannot be predicted has blank numbers and a reason.

    Parameters
    ----------
    frame : pandas.DataFrame
        Scenarios, text or numbers, under the column names of the table of that kind; outcomes are not looked at.
    kind : str
        As for `answer_file`.
    neighbours : bool
        Whether similar measurements correct the points.
    taken : Intake, optional
        What reading said about single rows.

    Returns
    -------
    pandas.DataFrame
        Columns `COLUMNS`, and those of `MORE`; numbers are NaN where there is no prediction.
    """
    import pandas as pd

    if kind not in ASKED:
        raise ValueError(f"kind = {kind!r} is not known; take one of {', '.join(ASKED)}")
    ids = frame["id"].astype(str).tolist() if "id" in frame else [""] * len(frame)
    asked = without_outcomes(as_scenarios(frame)).reset_index(drop=True)
    known = [""] * len(frame) if taken is None else taken.why
    cells = impossible(asked, formats=kind != "inference")
    known = [first or second for first, second in zip(known, cells, strict=True)]
    blocks = [_block(asked.iloc[at : at + BLOCK], kind, neighbours) for at in range(0, len(asked), BLOCK)]
    found = pd.concat(blocks, ignore_index=True) if blocks else _columns(kind, 0)
    found["id"] = ids
    return _refuse(found, known)


def write_answers(found: pd.DataFrame, path: str | Path | TextIO) -> None:
    """Write answers as CSV, six digits, blanks for what is not known.

    Parameters
    ----------
    found : pandas.DataFrame
        From `answer`.
    path : str, Path or file
        The file to write.
    """
    found.to_csv(path, index=False, float_format="%.6g", lineterminator="\n", encoding="utf-8")


def _refuse(found: pd.DataFrame, reasons: list[str]) -> pd.DataFrame:
    """Rows that could not be read as meant get the reason instead of a number."""
    bad = np.array([bool(reason) for reason in reasons], dtype=bool)
    if bad.any():
        found.loc[bad, _numbers(found)] = np.nan
        found.loc[bad, [name for name in ("tier", "fits") if name in found]] = ""
        found.loc[bad, "why"] = [reason for reason in reasons if reason]
    return found


def _numbers(found: pd.DataFrame) -> list[str]:
    return [name for name in found if name not in ("id", "unit", "tier", "why", "fits")]


def _columns(kind: str, rows: int) -> pd.DataFrame:
    import pandas as pd

    names = COLUMNS + MORE.get(kind, ())
    empty = pd.DataFrame("", index=range(rows), columns=list(names))
    return empty.astype({name: float for name in _numbers(empty)} if not rows else {}).replace(
        {name: {"": np.nan} for name in _numbers(empty)}
    )


def _block(frame: pd.DataFrame, kind: str, neighbours: bool) -> pd.DataFrame:
    """Predict a block; where it cannot be done, halve it until the rows that stop it stand alone."""
    import pandas as pd

    try:
        with np.errstate(all="ignore"):
            if kind == "storage":
                return storage_table(frame).assign(id="")[list(_columns(kind, 0))]
            scenarios = module_of(kind).scenarios(frame.reset_index(drop=True))
            found = _table(kind, predict_scenarios(kind, scenarios, neighbours))
        if kind == "inference":
            return _served(frame, _in_metrics(found, words.texts(frame, "metric")))
        return found.assign(unit=frame["unit"].to_numpy()) if kind in COUNTED and "unit" in frame else found
    except Exception as problem:
        if len(frame) > 1:
            half = len(frame) // 2
            return pd.concat([_block(part, kind, neighbours) for part in (frame.iloc[:half], frame.iloc[half:])])
        return _columns(kind, 1).assign(why=f"the row could not be understood: {problem}"[:300])


def _in_metrics(found: pd.DataFrame, metrics: list[str]) -> pd.DataFrame:
    """Rates of passes as delays where the metric is one: a delay is long where the rate is low."""
    names = ["predicted", "low80", "high80", "low90", "high90"]
    scale = np.array([seconds_of(metric) for metric in metrics], dtype=float)
    delays = (1 / scale)[:, None] / found[["predicted", "high80", "low80", "high90", "low90"]].to_numpy(dtype=float)
    numbers = np.where(np.isfinite(scale)[:, None], delays, found[names].to_numpy(dtype=float))
    return found.assign(**dict(zip(names, numbers.T, strict=True)), unit=[each or "samples/s" for each in metrics])


def _served(frame: pd.DataFrame, found: pd.DataFrame) -> pd.DataFrame:
    """Static batches of language models, which are more than one pass."""
    at = np.flatnonzero(found["why"] == inference_rows.SERVED_TOKENS)
    if len(at):
        for name, values in generation.answers(frame.iloc[at].reset_index(drop=True)).items():
            found.loc[found.index[at], name] = values
    return found


def _table(kind: str, found: Prediction) -> pd.DataFrame:
    import pandas as pd

    rows = len(found.why)
    seconds = np.column_stack([found.point, found.low80, found.high80, found.low90, found.high90])
    ratio = seconds / found.point[:, None]
    rate = np.asarray(found.rate, dtype=float)
    # A rate falls where the time rises.
    numbers = rate[:, None] / ratio[:, [0, 2, 1, 4, 3]] if kind != "training_transformer" else seconds
    predicted = np.isfinite(numbers[:, 0])
    table: dict[str, Any] = {"id": [""] * rows}
    table |= dict(zip(("predicted", "low80", "high80", "low90", "high90"), numbers.T, strict=True))
    table["unit"] = np.broadcast_to(np.asarray(found.unit, dtype=object), (rows,))
    table["tier"] = np.where(predicted, found.tier, "")
    table["why"] = found.why
    if kind == "training_transformer":
        table["memory_bytes"] = np.broadcast_to(found.memory_bytes, (rows,))
        table["fits"] = np.broadcast_to(found.fits, (rows,))
    return pd.DataFrame(table)[list(_columns(kind, 0))]
