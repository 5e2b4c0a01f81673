"""Install other tools, ask them the same questions, score them: ``make peers``.

    python tests/benchmarks/peers/peer_run.py [TOOL ...]    # all by default; needs the network
    python tests/benchmarks/peers/peer_run.py --score       # score the stored answers again, and write the page

Each tool is installed in an environment of its own under build/peers, at the version of ``tools.csv``, and asked by its
adapter there. Not a test: no test needs a tool.
"""

import collections
import datetime
import json
import os
import shutil
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pandas as pd
import peer_scores
from peer_exchange import UNITS
from peer_scores import ANSWERS, COLUMNS, KINDS, OUR_SETTINGS, OURS, PAGE, QUESTION_COLUMNS, SCORES, TOOLS

from cookbook.publish.refresh import put

FOLDER = Path(__file__).parent
BUILD = FOLDER.parents[2] / "build" / "peers"
UV = shutil.which("uv") or str(Path(sys.executable).with_name("uv"))
# Reasons listed of a tool and kind, the most frequent first.
LISTED_REASONS = 3
TIMED_ROWS = 20
OFFLINE = {"HF_HUB_OFFLINE": "1", "TRANSFORMERS_OFFLINE": "1", "TRANSFORMERS_VERBOSITY": "error"}


def install(tool):
    """Make the environment of a tool; return its interpreter, and the folder of its source where there is one."""
    folder = BUILD / tool["tool"]
    python, source = folder / "bin" / "python", folder / "source"
    wanted = folder / "requirements.txt"
    if wanted.exists() and wanted.read_text() == tool["requirements"]:
        return python, source
    subprocess.run([UV, "venv", "--quiet", "--clear", "--python", sys.executable, folder], check=True)
    packages = []
    for requirement in tool["requirements"].split():
        address, _, commit = requirement.removeprefix("git+").partition("@")
        if requirement.startswith("git+"):
            subprocess.run(["git", "clone", "--quiet", address, source], check=True)
            subprocess.run(["git", "-C", source, "checkout", "--quiet", commit], check=True)
            packages.append(str(source))
        else:
            packages.append(requirement)
    subprocess.run([UV, "pip", "install", "--quiet", "--python", python, *packages], check=True)
    wanted.write_text(tool["requirements"])
    return python, source


def ask(tool, lines):
    """Return a tool's answers to questions, as records of the exchange; None where it cannot be installed or stops."""
    try:
        python, source = install(tool)
    except (subprocess.CalledProcessError, OSError) as problem:
        print(f"{tool['tool']}: not installed ({problem})")
        return None
    kept = {name: value for name, value in os.environ.items() if name not in ("PYTHONPATH", "VIRTUAL_ENV")}
    environment = kept | OFFLINE | {"PEER_SOURCE": str(source)}
    command = [str(python), str(FOLDER / tool["adapter"])]
    run = subprocess.run(command, input="\n".join(lines), capture_output=True, text=True, env=environment)
    if run.returncode:
        print(f"{tool['tool']}: stopped with {run.returncode}: {run.stderr[-300:]}")
        return None
    return [json.loads(line) for line in run.stdout.splitlines()]


def notes(tool, records, rows):
    """Return what is recorded of a tool besides its answers, by kind: settings, speed, reasons of refusals."""
    by_kind = collections.defaultdict(list)
    for record, kind in zip(records, rows["kind"], strict=True):
        by_kind[kind].append(record)
    recorded = {}
    for kind in KINDS:
        seconds = [record["seconds"] for record in by_kind[kind] if "value" in record]
        reasons = collections.Counter(record["refused"] for record in by_kind[kind] if "refused" in record)
        words = "; ".join(f"{reason} ({count})" for reason, count in reasons.most_common(LISTED_REASONS))
        recorded[tool["tool"], kind] = {
            **{name: tool[name] for name in ("version", "licence", "settings", "url")},
            "us_per_answer": float(np.median(seconds) * 1e6) if seconds else "",
            "reasons": words.replace("|", "/"),
            "date": datetime.date.today().isoformat(),
        }
    return recorded


def our_notes(table):
    """Return the same of ours; the time of a call is that of reading and estimating one row."""
    import cookbook
    from cookbook.prediction.engine import estimate
    from cookbook.prediction.parsing import tables

    recorded = {}
    for kind in KINDS:
        name = "training_transformer" if "step" in kind else "inference"
        ids = table[table["kind"] == kind]["id"].head(TIMED_ROWS)
        frame = tables.measured_table(name)
        frame = tables.without_outcomes(frame[frame["id"].isin(ids)].reset_index(drop=True))
        seconds = []
        for at in range(len(frame)):
            start = time.perf_counter()
            estimate(tables.read(name, frame.iloc[[at]].reset_index(drop=True)))
            seconds.append(time.perf_counter() - start)
        recorded[OURS, kind] = {
            "version": cookbook.__version__,
            "licence": "MIT",
            "settings": OUR_SETTINGS,
            "us_per_answer": float(np.median(seconds) * 1e6) if seconds else "",
            "date": datetime.date.today().isoformat(),
        }
    return recorded


def with_current_outcomes(table):
    """Return the answers with the outcomes and our predictions as they are in the tables of today."""
    from peer_questions import questions

    rows = questions(per_publisher=None).set_index("id")
    gone = ~table["id"].isin(rows.index)
    current = rows.reindex(table["id"])
    changed = {"measured": current["measured"].to_numpy(), OURS: current["predicted"].to_numpy()}
    return table.assign(**changed)[~gone.to_numpy()].reset_index(drop=True)


def new_table(rows):
    """Return a table of answers with the columns that a question has."""
    units = [UNITS[kind] for kind in rows["kind"]]
    table = rows[["id", "kind", "publisher", "measured", "predicted"]].rename(columns={"predicted": OURS})
    return table.assign(unit=units)[list(QUESTION_COLUMNS)]


def write(table, recorded):
    """Write answers, scores, and the tables of the page."""
    order = [name for name in table.columns if name not in QUESTION_COLUMNS]
    peer_scores.write(ANSWERS, table.to_dict("records"), [*QUESTION_COLUMNS, *sorted(order)])
    table = peer_scores.answers()
    peer_scores.write(SCORES, peer_scores.scores(table, recorded), COLUMNS)
    for part, text in peer_scores.parts_of_page(peer_scores.read(SCORES), peer_scores.read(TOOLS)).items():
        put(PAGE, part, text)


def main(words):
    """Ask the tools named, or all, and write the tables; with --score, only score what is stored."""
    if words == ["--score"]:
        write(with_current_outcomes(peer_scores.answers()), peer_scores.recorded_before())
        return
    from peer_questions import questions

    tools = [row for row in peer_scores.read(TOOLS) if row["adapter"]]
    unknown = sorted(set(words) - {row["tool"] for row in tools})
    if unknown:
        raise SystemExit(f"no adapter of {', '.join(unknown)}; choose from {', '.join(row['tool'] for row in tools)}")
    rows, recorded = questions(), peer_scores.recorded_before()
    table = new_table(rows)
    if ANSWERS.exists():
        before = peer_scores.answers().set_index("id")
        earlier = [name for name in before.columns if name not in QUESTION_COLUMNS]
        if words and set(table["id"]) != set(before.index):
            raise SystemExit("the questions have changed: ask all tools, so that none is scored on those of before")
        table = table.join(before[earlier], on="id")
    for tool in tools:
        if words and tool["tool"] not in words:
            continue
        records = ask(tool, rows["question"])
        if records is None:
            continue
        values = pd.Series({record["id"]: record.get("value", np.nan) for record in records})
        table = table.assign(**{tool["tool"]: values.reindex(table["id"]).to_numpy(dtype=float)})
        recorded |= notes(tool, records, rows)
        print(f"{tool['tool']}: {int(values.notna().sum())} of {len(rows)} answered")
    write(table, recorded | our_notes(table))


if __name__ == "__main__":
    BUILD.mkdir(parents=True, exist_ok=True)
    main(sys.argv[1:])
