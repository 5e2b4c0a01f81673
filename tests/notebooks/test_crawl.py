"""Every notebook of the cookbook, each parameter set; a new recipe is covered by being there."""

import json
import shutil
from pathlib import Path

import nbformat
import pytest
import yaml
from strict import nbval, spoil, without_pictures

from cookbook.publish.lint import lint
from cookbook.publish.notebook import normalise, run_with, student

FOLDER = Path(__file__).resolve().parents[2] / "notebooks"
NOTEBOOKS = sorted(FOLDER.glob("[0-9][0-9]-*.ipynb"))
RECIPES = [path for path in NOTEBOOKS if not path.name.startswith("00-")]
SETS = [(path, file) for path in RECIPES for file in sorted((FOLDER / "parameters").glob(f"{path.name[:3]}*.yaml"))]

each_notebook = pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
each_recipe = pytest.mark.parametrize("path", RECIPES, ids=lambda path: path.stem)


@each_notebook
def test_running_again_changes_nothing(path, tmp_path):
    again = tmp_path / path.name
    nbformat.write(run_with(path), again)
    assert without_pictures(normalise(again)) == without_pictures(path), "run `make notebooks`"


@each_notebook
def test_stored_outputs_pass_strict_nbval(path, tmp_path):
    result = nbval(Path(shutil.copy(path, tmp_path)))
    assert result.returncode == 0, result.stdout + result.stderr


@each_recipe
def test_one_changed_number_fails_nbval(path, tmp_path):
    spoilt = tmp_path / path.name
    spoilt.write_text(json.dumps(spoil(json.loads(path.read_text(encoding="utf-8")))), encoding="utf-8")
    result = nbval(spoilt)
    assert result.returncode == 1 and " 1 failed" in result.stdout.replace("\n1 failed", " 1 failed"), result.stdout


@pytest.mark.parametrize(("path", "file"), SETS, ids=[file.stem for _, file in SETS])
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
