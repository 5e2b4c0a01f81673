"""What was predicted for each measured row, as tables: the rows behind the report of `validate`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from cookbook.calibration.fit import Rows
from cookbook.calibration.folds import LeftOut
from cookbook.calibration.strata import row_widths
from cookbook.prediction.widths import LEVELS

if TYPE_CHECKING:
    import pandas as pd

FULL, NO_NEIGHBOURS, ROW = "full", "without neighbours", "row"
DIGITS = 3


def table_name(kind: str) -> str:
    """Table that holds the predictions of a kind.

    Examples
    --------
    >>> table_name("training_classic")
    'validation_classic_rows'
    """
    return f"validation_{kind.removeprefix('training_')}_rows"


def column_of(model: str) -> str:
    """Column of a model or rule.

    Examples
    --------
    >>> column_of("llm-analysis 2023")
    'llm_analysis_2023'
    """
    return model.replace(" ", "_").replace("-", "_")


def row_table(rows: Rows, frame: pd.DataFrame, judged: Mapping[str, LeftOut]) -> pd.DataFrame:
    """One row for each measurement of which it is clear what was run.

    Parameters
    ----------
    rows : Rows
        The measured rows.
    frame : pandas.DataFrame
        Their table.
    judged : mapping of str to LeftOut
        Predictions by model, publishers left out; `full` among them, and `row` where single rows were left out.

    Returns
    -------
    pandas.DataFrame
        Columns of the tables ``validation_classic_rows`` and ``validation_transformer_rows``; ratios are logarithms
        of predicted over measured outcome.
    """
    import pandas as pd

    full, half, keys = judged[FULL], row_widths(rows, judged[FULL]), rows.keys
    found: dict[str, Any] = {
        "id": frame["id"], "software_level": keys["engine"], "scale": keys["scale"], "tier": full.tier,
        "neighbours": full.neighbours, "measured": [f"{value:.6g}" for value in rows.measured],
        "unit": frame.get("unit", "s"),
    }  # fmt: skip
    found |= {f"half_{level}": _short(half[level]) for level in LEVELS}
    found |= {column_of(name): _short(folds.error) for name, folds in judged.items()}
    return pd.DataFrame(found)[rows.usable].reset_index(drop=True)


def _short(values: np.ndarray) -> list[str]:
    return ["" if np.isnan(value) else f"{value:.{DIGITS}f}" for value in values]


def schema_rows(kind: str, terms: Sequence[str], rules: Sequence[str]) -> list[dict[str, str]]:
    """Schema of the table of a kind; its columns follow the terms that the kind has.

    Parameters
    ----------
    kind : str
        "training_classic" or "training_transformer".
    terms, rules : sequence of str
        Terms that can be switched off, and rules to beat.
    """
    known = [
        ("id", f"key:{kind}", "yes", "The measured row"),
        ("software_level", "text", "yes", "Level of software that the words of the row lead to"),
        ("scale", "text", "yes", "1 device, 1 node or multi-node"),
        ("tier", "text", "yes", "How well the measurements of the other publishers cover the row"),
        ("neighbours", "integer", "yes", "Similar measurements of other publishers that corrected the prediction"),
        ("measured", "number", "yes", "Measured outcome, in unit"),
        ("unit", "text", "yes", "Unit of the outcome; s is the time of one step"),
        *((f"half_{level}", "number", "no", f"Half-width of the {level} % interval that the other publishers gave, "
           "in the logarithm") for level in LEVELS),
        (FULL, "signed", "no", "Logarithm of predicted over measured, by constants that have not seen the publisher"),
        ("without_neighbours", "signed", "no", "The same without correction by similar measurements"),
        ("without_software_levels", "signed", "no", "The same, one level of software for all, no correction"),
        *((column_of(f"without {term}"), "signed", "no", f"The same, fitted without the term {term}, no correction")
          for term in terms),
        *((column_of(rule), "signed", "no", f"What the rule to beat called {rule} says") for rule in rules),
        (ROW, "signed", "no", "By all other rows, those of its own publisher too; blank where nothing corrects"),
        ("how", "choice:derived", "yes", "derived: computed from other tables"),
        ("source", "keys:sources", "yes", "Who computed it"),
    ]  # fmt: skip
    return [
        {"column": name, "type": kind_, "unit": "", "required": required, "description": words}
        for name, kind_, required, words in known
    ]
