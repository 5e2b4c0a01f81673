"""What a public host runs: a reader's commands, fixed versions of what others wrote, and no more rights than needed."""

import re
import tomllib
from pathlib import Path

import pytest
import yaml

from cookbook.panels import specs

ROOT = Path(__file__).resolve().parents[2]
WORKFLOWS = sorted((ROOT / ".github" / "workflows").glob("*.yml"))
JOBS = [
    pytest.param(path, name, id=f"{path.stem}-{name}")
    for path in WORKFLOWS
    for name in yaml.safe_load(path.read_text(encoding="utf-8"))["jobs"]
]
MAY_WRITE = {
    "site-publish": {"pages": "write", "id-token": "write"},
    "release-publish": {"id-token": "write"},
    "prices-propose": {"contents": "write", "pull-requests": "write"},
}

each_job = pytest.mark.parametrize(("path", "name"), JOBS)


def job(path: Path, name: str) -> dict:
    return yaml.safe_load(path.read_text(encoding="utf-8"))["jobs"][name]


@pytest.mark.parametrize("path", WORKFLOWS, ids=lambda path: path.stem)
def test_a_workflow_may_only_read(path):
    assert yaml.safe_load(path.read_text(encoding="utf-8"))["permissions"] == {"contents": "read"}


@each_job
def test_a_job_writes_pages_proposals_and_releases_alone(path, name):
    assert job(path, name).get("permissions", {}) == MAY_WRITE.get(f"{path.stem}-{name}", {})


@pytest.mark.parametrize("path", WORKFLOWS, ids=lambda path: path.stem)
def test_actions_are_of_one_commit_whose_version_is_said(path):
    lines = [line for line in path.read_text(encoding="utf-8").splitlines() if "uses:" in line]
    assert lines
    for line in lines:
        assert re.fullmatch(r" +(- )?uses: actions/[a-z-]+@[0-9a-f]{40} # v\d+\.\d+\.\d+", line), line


@each_job
def test_a_checkout_keeps_no_token(path, name):
    for step in job(path, name)["steps"]:
        if step.get("uses", "").startswith("actions/checkout@"):
            assert step["with"]["persist-credentials"] is False


def test_a_token_is_of_the_step_that_opens_a_change_alone():
    """What reads catalogues of others, and runs recipes, has no right to write; and nothing reaches the main branch."""
    steps = job(ROOT / ".github" / "workflows" / "prices.yml", "propose")["steps"]
    assert [list(step.get("env", {})) for step in steps] == [[]] * (len(steps) - 1) + [["GH_TOKEN"]]
    pushed = re.findall(r"git push (.+)", steps[-1]["run"])
    assert pushed == ["--force origin prices"] and "git switch -c prices" in steps[-1]["run"]


@each_job
def test_commands_are_those_of_a_reader(path, name):
    """Nothing of an event is pasted into a shell: only what the file itself lists."""
    targets = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(encoding="utf-8"), re.M))
    for step in job(path, name)["steps"]:
        command = step.get("run", "")
        assert {*re.findall(r"\bmake ([a-z-]+)", command)} <= targets, command
        assert all(each.startswith("matrix.") for each in re.findall(r"\$\{\{ *(.+?) *\}\}", command)), command


def test_each_python_from_the_oldest_on_is_tried():
    oldest = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["requires-python"]
    folder = ROOT / ".github" / "workflows"
    pythons, steps = job(folder / "weekly.yml", "pythons"), job(folder / "ci.yml", "test")["steps"]
    assert pythons["env"]["PYTHON"] == "python", "else the Makefile takes the oldest that the host has"
    weekly = pythons["strategy"]["matrix"]["python"]
    (change,) = {step["with"]["python-version"] for step in steps if "python-version" in step.get("with", {})}
    assert oldest == f">={change}"
    assert job(folder / "release.yml", "try")["strategy"]["matrix"]["python"] == [change, *weekly]
    minors = [int(version.removeprefix("3.")) for version in (change, *weekly)]
    assert minors == [*range(minors[0], minors[0] + len(minors))] and minors[-1] >= 14


def test_make_rebuilds_the_specs_after_an_edit_of_any_chart_or_panel():
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    for pattern in specs._CODE:
        assert f"cookbook/{pattern}" in makefile and list(specs._PACKAGE.glob(pattern)), pattern
