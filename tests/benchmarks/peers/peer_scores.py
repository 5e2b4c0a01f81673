"""Scores of answers: errors of each tool on the rows that it answered, beside ours on the same rows, and the page.

Three tables lie beside this module. ``tools.csv`` states what is asked and how. ``answers.csv`` contains what each tool
answered, one row per question and one column per tool, beside the outcome that was measured and our prediction by
constants that have not seen the publisher of the row. ``scores.csv`` is computed from it, one row per tool and kind.
"""

import csv
import math
from pathlib import Path

import numpy as np
import pandas as pd
from peer_exchange import UNITS

from cookbook.evidence import figures, paired

FOLDER = Path(__file__).parent
TOOLS, ANSWERS, SCORES = (FOLDER / name for name in ("tools.csv", "answers.csv", "scores.csv"))
PAGE = FOLDER.parents[2] / "docs" / "peers.md"
OURS = "cookbook"
KINDS = tuple(UNITS)
NEAR = 0.25
OUR_SETTINGS = "constants fitted without the publisher of the row, each publisher in turn (outer loop)"
QUESTION_COLUMNS = ("id", "kind", "publisher", "unit", "measured", OURS)
# What a run records of a tool besides its answers; scoring alone keeps it.
RECORDED = ("version", "licence", "settings", "us_per_answer", "reasons", "date", "url")
COLUMNS = (
    "tool",
    "kind",
    "asked",
    "answered",
    "publishers",
    "median_error",
    "mean_of_medians",
    "within_25",
    "median_ratio",
    "our_median_error",
    "our_mean_of_medians",
    "our_within_25",
    "nearer",
    "worse_by",
    "worse_by_low",
    "worse_by_high",
    *RECORDED,
)
MIN_ANSWERS = 5


def read(path):
    """Return the rows of a table as text."""
    with path.open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


def write(path, rows, columns):
    """Write rows of a table; numbers with four digits, a missing one blank."""
    with path.open("w", encoding="utf-8", newline="") as file:
        lines = csv.DictWriter(file, columns, lineterminator="\n")
        lines.writeheader()
        lines.writerows({name: _cell(row.get(name, "")) for name in columns} for row in rows)


def _cell(value):
    if isinstance(value, float):
        return "" if math.isnan(value) else f"{value:.4g}"
    return value


def answers():
    """Return the table of answers; numbers as such, blank where a tool refused."""
    table = pd.read_csv(ANSWERS, dtype={"id": str, "kind": str, "publisher": str, "unit": str})
    return table.astype({name: float for name in table.columns if name not in QUESTION_COLUMNS[:4]})


def errors(predicted, measured, group):
    """Return the error statistics of predictions of measured outcomes, as the package defines them, and our own two.

    `within_25`: share with an error of at most 25 %; `median_ratio`: median of predicted over measured.
    """
    ratio = np.asarray(predicted, dtype=float) / np.asarray(measured, dtype=float)
    result = figures(np.log(ratio), np.asarray(group, dtype=str))
    shares = {"within_25": float(np.mean(np.abs(ratio - 1) <= NEAR)), "median_ratio": float(np.median(ratio))}
    return {name: float(result[name]) for name in ("median_error", "mean_of_medians")} | shares


def score(table, tool, kind):
    """Return the scores of a tool on the questions of one kind that it answered, and ours on the same questions."""
    asked = table[table["kind"] == kind]
    values = asked[tool] if tool in asked else pd.Series(np.nan, asked.index)
    rows = asked[values.notna()]
    line = {"tool": tool, "kind": kind, "asked": len(asked), "answered": len(rows)}
    line["publishers"] = rows["publisher"].nunique()
    if not len(rows):
        return line
    line |= errors(rows[tool], rows["measured"], rows["publisher"])
    if tool == OURS:
        return line
    ours = errors(rows[OURS], rows["measured"], rows["publisher"])
    ratios = {name: np.log(rows[name] / rows["measured"]).to_numpy() for name in (tool, OURS)}
    excess = paired(ratios[tool], ratios[OURS], rows["publisher"].to_numpy(dtype=str))
    return (
        line
        | {f"our_{name}": ours[name] for name in ("median_error", "mean_of_medians", "within_25")}
        | {"nearer": float(np.mean(np.abs(ratios[tool]) < np.abs(ratios[OURS])))}
        | dict(zip(("worse_by", "worse_by_low", "worse_by_high"), excess, strict=True))
    )


def scores(table, recorded):
    """Return all scores: ours first, then each tool that was asked; `recorded`: what a run noted, by tool and kind."""
    tools = [OURS, *(name for name in table.columns if name not in QUESTION_COLUMNS)]
    lines = [score(table, tool, kind) for tool in tools for kind in KINDS]
    return [line | recorded.get((line["tool"], line["kind"]), {}) for line in lines]


def recorded_before():
    """Return what earlier runs noted, by tool and kind."""
    rows = read(SCORES) if SCORES.exists() else []
    return {(row["tool"], row["kind"]): {name: row[name] for name in RECORDED} for row in rows}


# --- the page -------------------------------------------------------------------------------------------------


def percent(cell):
    """Return a share of the table as a percentage, a dash where there is none."""
    return f"{100 * float(cell):.0f} %" if cell else "–"


def points(row):
    """Return the excess of a tool's mean error over ours in percentage points, with its interval."""
    if not row["worse_by"]:
        return "–"
    middle, low, high = (100 * float(row[name]) for name in ("worse_by", "worse_by_low", "worse_by_high"))
    return f"{middle:+.0f} ({low:+.0f} to {high:+.0f})"


def markdown(head, rows):
    """Return a table in Markdown."""
    lines = [head, ["---"] * len(head), *rows]
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)


def tools_table(rows):
    """Return the table of tools: what was asked, what was answered, how fast, and why not."""
    lines = []
    for tool in dict.fromkeys(row["tool"] for row in rows):
        own = [row for row in rows if row["tool"] == tool]
        asked, answered = (sum(int(row[name]) for row in own) for name in ("asked", "answered"))
        first = own[0]
        name = f"[{tool}]({first['url']})" if first["url"] else tool
        times = [float(row["us_per_answer"]) for row in own if row["us_per_answer"]]
        speed = f"{np.median(times):,.0f}" if times else "–"
        lines.append(
            [name, first["version"], first["licence"], f"{asked:,}", f"{answered:,}", speed, first["settings"]]
        )
    head = ["tool", "version", "licence", "asked", "answered", "µs per answer", "settings"]
    return markdown(head, lines)


def not_asked_table(tools):
    """Return the table of tools that could not be asked, with the reason."""
    rows = [row for row in tools if row["not_asked"]]
    lines = [[f"[{row['tool']}]({row['url']})", row["version"] or "–", row["not_asked"]] for row in rows]
    return markdown(["tool", "version", "reason"], lines)


def kind_table(rows, kind):
    """Return the table of one kind of question: those that answered it, ours first, then by median error."""
    own = [row for row in rows if row["kind"] == kind and int(row["answered"])]
    ours = [row for row in own if row["tool"] == OURS]
    others = sorted((row for row in own if row["tool"] != OURS), key=lambda row: float(row["median_error"]))
    lines = []
    for row in [*ours, *others]:
        lines.append(
            [
                row["tool"],
                f"{row['answered']} of {row['asked']}",
                percent(row["median_error"]),
                percent(row["within_25"]),
                f"{float(row['median_ratio']):.2f}",
                percent(row["our_median_error"]),
                percent(row["our_within_25"]),
                percent(row["nearer"]),
                points(row),
            ]
        )
    head = ["tool", "answered", "median error", "within 25 %", "predicted / measured"]
    return markdown([*head, "our median error, same rows", "ours within 25 %", "nearer than ours", "worse by"], lines)


def reasons_table(rows):
    """Return the reasons of refusals, by tool and kind; without kinds that a tool does not predict at all."""
    refused = [row for row in rows if row["reasons"] and not row["reasons"].startswith(f"predicts no {row['kind']}")]
    lines = [
        [row["tool"], row["kind"], f"{int(row['asked']) - int(row['answered'])}", row["reasons"]] for row in refused
    ]
    return markdown(["tool", "kind", "refused", "most frequent reasons"], lines)


def losses(rows):
    """Return sentences about where another tool is better: a lower median error, or nearer on half of its answers."""
    lines = []
    for row in rows:
        if row["tool"] == OURS or int(row["answered"]) < MIN_ANSWERS:
            continue
        theirs, ours, nearer = (float(row[name]) for name in ("median_error", "our_median_error", "nearer"))
        if theirs < ours or nearer >= 0.5:
            lines.append(
                f"- **{row['kind']}, {row['tool']}**: on the {row['answered']} questions that it answers, its median "
                f"error is {percent(row['median_error'])} and ours {percent(row['our_median_error'])}; it is nearer on "
                f"{percent(row['nearer'])} of them. Its mean error is worse by {points(row)} points.\n"
            )
    return "".join(lines) or "On these questions, no other tool with at least five answers has a lower median error.\n"


def parts_of_page(rows, tools):
    """Return what stands between the marks of the page, by mark."""
    parts = {"peers-losses": losses(rows), "peers-tools": tools_table(rows), "peers-not-asked": not_asked_table(tools)}
    parts |= {f"peers-{kind.lower().replace(' ', '-')}": kind_table(rows, kind) for kind in KINDS}
    return parts | {"peers-reasons": reasons_table(rows)}
