"""What it takes to add a device, a field of a scenario, and a panel: made in a copy, files counted, and then asked for.

Files that `make data-readme` writes are not counted: nobody edits them by hand.
"""

from __future__ import annotations

import csv
import filecmp
import os
import shutil
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
WRITTEN = {"data/README.md", "data/schema/_tables.csv"}
FILES = {"device": 3, "field": 4, "panel": 3}


class Copy:
    """The package and its tables in a folder of their own, as a contributor edits them."""

    def __init__(self, root: Path) -> None:
        self.root = root
        for name in ("cookbook", "data", "tests"):
            shutil.copytree(
                ROOT / name, root / name, ignore=shutil.ignore_patterns("__pycache__", "browser", "published")
            )
        for name in ("README.md", "CONTRIBUTING.md", "pyproject.toml"):
            shutil.copy(ROOT / name, root)

    def append(self, table: str, **cells: str) -> None:
        """Append a row to a table; cells that are not given are blank."""
        path = self.root / table
        with path.open(encoding="utf-8", newline="") as file:
            columns = next(csv.reader(file))
        assert set(cells) <= set(columns)
        with path.open("a", encoding="utf-8", newline="") as file:
            csv.writer(file, lineterminator="\n").writerow([cells.get(column, "") for column in columns])

    def insert(self, name: str, after: str, line: str) -> None:
        """Insert a line below the only one that is `after`, as deep as that one."""
        path = self.root / name
        lines = path.read_text(encoding="utf-8").splitlines()
        (at,) = [number for number, text in enumerate(lines) if text.strip() == after]
        depth = lines[at][: len(lines[at]) - len(lines[at].lstrip())]
        path.write_text("\n".join([*lines[: at + 1], depth + line, *lines[at + 1 :]]) + "\n", encoding="utf-8")

    def write(self, name: str, text: str) -> None:
        (self.root / name).write_text(textwrap.dedent(text).lstrip(), encoding="utf-8")

    def run(self, *command: str) -> str:
        """Run Python with the copy's package, and return what it printed."""
        environment = {**os.environ, "PYTHONPATH": str(self.root), "PYTHONDONTWRITEBYTECODE": "1"}
        process = subprocess.run(
            [sys.executable, *command], cwd=self.root, env=environment, capture_output=True, text=True
        )
        assert process.returncode == 0, process.stdout + process.stderr
        return process.stdout

    def test(self, *arguments: str) -> None:
        """Run tests of the copy; they fail here where they fail there."""
        self.run("-m", "pytest", "-q", "-p", "no:cacheprovider", *arguments)

    def ask(self, code: str) -> list[str]:
        """Run a script that begins with ``import cookbook as cb``, and return the lines that it printed."""
        return self.run("-c", "import cookbook as cb\n" + textwrap.dedent(code)).splitlines()

    def touched(self) -> set[str]:
        """Files that differ from those of the project, or are new."""
        files = (path for path in self.root.rglob("*") if path.is_file() and "__pycache__" not in path.parts)
        names = {path.relative_to(self.root).as_posix(): path for path in files}
        return {
            name
            for name, path in names.items()
            if not (ROOT / name).is_file() or not filecmp.cmp(path, ROOT / name, shallow=False)
        } - WRITTEN


@pytest.fixture
def copy(tmp_path: Path) -> Copy:
    return Copy(tmp_path)


DEVICE = {"mem_bandwidth": ("5000", "GB/s"), "peak_bf16": ("2000", "TFLOP/s"), "memory_bytes": ("160", "GiB")}


@pytest.mark.all
def test_a_device_is_rows_of_three_tables(copy):
    copy.append(
        "data/sources.csv",
        key="example-datasheet",
        source_group="example",
        title="Datasheet of the Example 9000",
        url="https://example.org/9000.pdf",
        seen="yes",
    )
    copy.append(
        "data/accelerators.csv",
        key="example-9000",
        name="Example 9000",
        vendor="Example",
        kind="gpu",
        generation="example",
        how="datasheet",
        source="example-datasheet",
        **{field: value for field, (value, _) in DEVICE.items()},
    )
    for field, (value, unit) in DEVICE.items():
        copy.append(
            "data/accelerator_provenance.csv",
            accelerator="example-9000",
            field=field,
            value=value,
            unit=unit,
            status="used",
            how="datasheet",
            source="example-datasheet",
        )
    copy.run("-m", "cookbook", "dev", "data-readme")
    copy.run("-m", "cookbook", "dev", "check-data")
    told = copy.ask("""
        step = cb.train_step("llama2_7b", "Example 9000", devices=8)
        print(step.fits, step.tier, step.point > 0)
        print(cb.provenance("example-9000", "peak_bf16").source)
    """)
    assert told == ["yes datasheet only True", "example-datasheet"]
    assert len(copy.touched()) == FILES["device"], copy.touched()


@pytest.mark.all
def test_a_field_is_a_row_a_plan_a_default_and_a_use(copy):
    """Seconds that each step waits for the loop around it: of a call, a sweep and a table, checked everywhere."""
    copy.append(
        "data/schema/scenario.csv",
        name="pause",
        type="number",
        unit="s",
        allowed="0..1e3",
        default="0",
        phases="training_transformer",
        description="Time that each step waits for the loop around it",
    )
    copy.insert("cookbook/prediction/api.py", "optimiser: Names | None", "pause: Amounts | None")
    before = "pod: np.ndarray  # devices of a pod, above which the network is oversubscribed; else `domain` [-]"
    after = "pause: np.ndarray  # time that a step waits [s]"
    copy.insert("cookbook/prediction/kinds/transformer.py", before, after)
    before, after = 'fill("pod", v["domain"], False)', 'fill("pause", 0.0, False)'
    copy.insert("cookbook/prediction/kinds/transformer.py", before, after)
    before = 'step["stragglers"] = formulas.straggler_seconds(total, s.nodes, c["straggler_share"]) * on["stragglers"]'
    after = 'step["stragglers"] = step["stragglers"] + s.pause'
    copy.insert("cookbook/prediction/kinds/transformer_step.py", before, after)
    told = copy.ask("""
        import pandas as pd
        from cookbook.prediction.answer import answer
        plan = {"devices": 8, "tp": 1, "micro_batch": 1, "global_batch": 64, "zero": 3, "recompute": "full"}
        step = lambda pause: cb.train_step("llama2_7b", "h100-sxm", **plan, pause=pause, neighbours=False).point
        print(round(step(2) - step(None), 9))
        try:
            step(-1)
        except ValueError as problem:
            print(problem.refusal.field, problem)
        swept = cb.sweep("train_step", model="llama2_7b", accelerator="h100-sxm", **plan, pause=[0, 2])
        print(round(swept["seconds"].diff()[1], 9))
        rows = pd.DataFrame({"model": "llama2_7b", "accelerator": "h100-sxm", "devices": 8, "pause": ["0", "2"]})
        print(round(float(answer(rows, "training_transformer", neighbours=False)["predicted"].diff()[1]), 9))
    """)
    assert told[0] == told[2] == told[3] == "2.0", told
    copy.test("tests/house/test_budgets.py", "-k", "small or short")
    assert told[1].startswith("pause pause = -1") and "0 to 1" in told[1]
    assert len(copy.touched()) == FILES["field"], copy.touched()


@pytest.mark.all
def test_a_panel_is_a_module_its_name_and_a_test(copy):
    shutil.copy(ROOT / "tests/house/example_panel.py", copy.root / "cookbook/topics/devices/memory_panel.py")
    place = '"memory": "topics.devices.memory_panel",'
    copy.insert("cookbook/panels/__init__.py", '"accelerators": "topics.devices.panel",', place)
    copy.write(
        "tests/topics/devices/test_memory_panel.py",
        """
        import cookbook as cb


        def test_more_samples_take_more_memory():
            panel = cb.panels.memory()
            before = panel.answer
            panel.update(batch=64)
            assert panel.answer != before
        """,
    )
    copy.test("tests/topics/devices/test_memory_panel.py")
    copy.test("tests/panels/test_conformance.py", "-k", "memory and not all", "-m", "not all")
    copy.test("tests/house/test_budgets.py", "-k", "small or short")
    told = copy.ask("""
        from cookbook.publish import app
        print([each.title for each in app.questions() if each.name == "memory"])
    """)
    assert told == ["['How much memory does training take?']"]
    assert len(copy.touched()) == FILES["panel"], copy.touched()
