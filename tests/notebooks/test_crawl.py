"""Every notebook of the cookbook, each parameter set; a new recipe is covered by being there.

Papermill executes each notebook once; what it gave is compared with what is stored, by bytes and by nbval. A change
executes those of `EXECUTED` and those that it edits; the long run executes all of them.
"""

import json
import shutil
import subprocess
from functools import cache
from pathlib import Path

import nbformat
import pytest
import yaml
from strict import compare, spoil, without_pictures

from cookbook.publish.notebook import lint, normalise, run_with, student

FOLDER = Path(__file__).resolve().parents[2] / "notebooks"
NOTEBOOKS = [*sorted(FOLDER.glob("[0-9][0-9]-*.ipynb")), *sorted(FOLDER.glob("history/*.ipynb"))]
RECIPES = [path for path in NOTEBOOKS if path.name[:2].isdigit() and not path.name.startswith("00-")]
SETS = [(path, file) for path in RECIPES for file in sorted((FOLDER / "parameters").glob(f"{path.name[:3]}*.yaml"))]
# `make test` runs the first small set, `make test-all` all of them.
RUN = [
    pytest.param(path, file, id=file.stem, marks=() if file.stem == "01-small" else pytest.mark.all)
    for path, file in SETS
]

# The first steps with a panel, and inference; `make test` opens recipe 03 in a browser, if there is one.
EXECUTED = ("00-", "10-")
NBVAL = ("00-",)  # strict nbval says of one what the bytes say of each; in the long run it is asked of all
GIT = ["git", "diff", "--name-only", "--relative", "HEAD", "--", "."]


def edited() -> set[str]:
    """Notebooks that differ from those of the last commit; none where there is no git."""
    found = subprocess.run(GIT, cwd=FOLDER, capture_output=True, text=True, check=False)
    return {Path(line).name for line in found.stdout.splitlines()}


def at_a_change(names: tuple[str, ...], more: set[str]) -> pytest.MarkDecorator:
    """Each notebook: those of such names in the tests of a change, the others in the long run."""
    return pytest.mark.parametrize(
        "path",
        [
            pytest.param(
                path, id=path.stem, marks=() if path.name.startswith(names) or path.name in more else pytest.mark.all
            )
            for path in NOTEBOOKS
        ],
    )


each_notebook = pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
each_recipe = pytest.mark.parametrize("path", RECIPES, ids=lambda path: path.stem)


@pytest.fixture(scope="session")
def executed(tmp_path_factory):
    """The notebook as papermill has executed it, once a session, whoever asks."""

    @cache
    def once(path: Path) -> Path:
        done = tmp_path_factory.mktemp("executed") / path.name
        nbformat.write(run_with(path), done)
        return done

    return once


@at_a_change(EXECUTED, edited())
def test_running_again_changes_nothing(path, executed, tmp_path):
    again = Path(shutil.copy(executed(path), tmp_path))
    assert without_pictures(normalise(again)) == without_pictures(path), "run `make notebooks`"


@at_a_change(NBVAL, set())
def test_stored_outputs_pass_strict_nbval(path, executed, tmp_path):
    stored = Path(shutil.copy(path, tmp_path))
    assert compare(executed(path), stored)[stored.name] == []


@each_recipe
def test_a_reader_and_a_test_can_check_a_stored_number(path):
    notebook = json.loads(path.read_text(encoding="utf-8"))
    assert spoil(notebook) != notebook


def test_one_changed_number_fails_nbval(tmp_path):
    """Compared with itself and with a copy in which one digit differs; nothing is executed."""
    stored = Path(shutil.copy(RECIPES[0], tmp_path))
    spoilt = tmp_path / f"spoilt-{stored.name}"
    spoilt.write_text(json.dumps(spoil(json.loads(stored.read_text(encoding="utf-8")))), encoding="utf-8")
    found = compare(stored, stored, spoilt)
    assert found[stored.name] == []
    (wrong,) = found[spoilt.name]
    assert "Cell outputs differ" in wrong


@pytest.mark.all
def test_nbval_refuses_a_cell_that_papermill_never_saw(tmp_path):
    cells = [nbformat.v4.new_code_cell(source, execution_count=1) for source in ("pass", "2 + 2")]
    stored, done = tmp_path / "stored.ipynb", tmp_path / "done.ipynb"
    nbformat.write(nbformat.v4.new_notebook(cells=cells), stored)
    nbformat.write(nbformat.v4.new_notebook(cells=cells[:1]), done)
    (wrong,) = compare(done, stored)["stored.ipynb"]
    assert "never ran this cell" in wrong and "2 + 2" in wrong


@pytest.mark.parametrize(("path", "file"), RUN)
def test_parameter_sets_run(path, file):
    notebook = run_with(path, **yaml.safe_load(file.read_text(encoding="utf-8")))
    errors = [output for cell in notebook.cells for output in cell.get("outputs", []) if output.output_type == "error"]
    assert not errors


@each_recipe
def test_each_recipe_has_small_and_extreme_parameter_sets(path):
    kinds = {file.stem[3:].split("-")[0] for recipe, file in SETS if recipe == path}
    assert {"small", "extreme"} <= kinds, f"notebooks/parameters lacks {path.name[:2]}-small.yaml or -extreme*.yaml"


@each_recipe
def test_unknown_parameter_is_refused(path):
    with pytest.raises(ValueError, match="no_such_parameter"):
        run_with(path, no_such_parameter=1)


@each_notebook
def test_page_budgets(path):
    assert lint(path) == []


@each_notebook
def test_stored_form_is_normal(path, tmp_path):
    copy = Path(shutil.copy(path, tmp_path))
    assert normalise(copy).read_bytes() == path.read_bytes(), "run `make notebooks`"


@each_notebook
def test_stored_solutions_are_right(path):
    for cell in nbformat.read(path, 4).cells:
        if "solution" in cell.metadata.get("tags", []):
            said = "".join(str(output.get("data", {}).get("text/plain", "")) for output in cell.get("outputs", []))
            assert "Not yet" not in said, f"{path.name}: {cell.source} -> {said}"


@each_notebook
def test_student_copy_has_no_solution(path, tmp_path):
    solved = nbformat.read(path, as_version=4)
    copy = nbformat.read(student(path, tmp_path), as_version=4)
    assert len(copy.cells) == len(solved.cells)
    text = nbformat.writes(copy)
    for cell in solved.cells:
        if "solution" in cell.metadata.get("tags", []):
            assert json.dumps(cell.source)[1:-1] not in text


@each_recipe
def test_facilitator_page(path):
    page = FOLDER / "facilitator" / f"{path.stem}.md"
    assert page.is_file(), "each recipe has a facilitator page"
    text = page.read_text(encoding="utf-8").lower()
    for part in ("schedule", "questions", "votes", "stumbles", "25-minute", "network"):
        assert part in text, f"{page.name} does not speak of: {part}"
