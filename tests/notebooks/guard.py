"""A pytest plugin that nbval lacks: refuse a notebook that was never executed, since strict nbval would pass it."""

import json

import pytest


def pytest_collection_modifyitems(config, items):
    """Look at every notebook once, before a kernel starts."""
    for path in {item.path for item in items if item.path.suffix == ".ipynb"}:
        cells = json.loads(path.read_text(encoding="utf-8"))["cells"]
        if any(cell["cell_type"] == "code" and cell["execution_count"] is None for cell in cells):
            raise pytest.UsageError(f"{path.name} has cells that were never executed; run `make notebooks`")
