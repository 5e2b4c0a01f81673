"""What Binder will build, read from the Dockerfile that repo2docker prints; neither Docker nor network is needed."""

import json
import shutil
import subprocess
import sys

import pytest


@pytest.fixture(scope="module")
def dockerfile(root, tmp_path_factory) -> str:
    """The Dockerfile for a copy that holds only what Binder looks at."""
    copy = tmp_path_factory.mktemp("binder")
    shutil.copytree(root / "binder", copy / "binder")
    shutil.copy(root / "pyproject.toml", copy)
    command = [sys.executable, "-m", "repo2docker", "--no-build", "--debug", "."]
    result = subprocess.run(command, cwd=copy, capture_output=True, text=True, timeout=120)
    assert result.returncode == 0, result.stderr[-2000:]
    return result.stdout + result.stderr


def test_python_is_the_oldest_that_the_package_supports(root, dockerfile):
    assert (root / "binder" / "runtime.txt").read_text().strip() == "python-3.11"
    assert 'requires-python = ">=3.11"' in (root / "pyproject.toml").read_text()
    assert "environment-2epy-2d3-2e11" in dockerfile, "repo2docker chose another Python"


def test_requirements_come_before_the_content_so_that_edits_do_not_reinstall(dockerfile):
    install = dockerfile.index('pip install --no-cache-dir -r "binder/requirements.txt"')
    assert install < dockerfile.index("COPY --chown=0:0 src/ ${REPO_DIR}/") < dockerfile.index("RUN ./binder/postBuild")


def test_environment_is_small(root):
    locked = (root / "binder" / "requirements.txt").read_text()
    for heavy in ("vl-convert-python", "torch", "playwright", "scipy", "matplotlib"):
        assert f"\n{heavy}==" not in locked, f"{heavy} would be carried to every reader"
    assert "\nlark==" not in locked, "jsonschema would build a grammar each time that JupyterLab starts: see HELD_BACK"
    assert {path.name for path in (root / "binder").iterdir()} == {
        "overrides.json",
        "postBuild",
        "requirements.txt",
        "runtime.txt",
    }


def test_post_build_installs_the_package_and_silences_the_news(root):
    script = root / "binder" / "postBuild"
    assert script.stat().st_mode & 0o111, "postBuild is not executable"
    assert "pip install --no-cache-dir --no-deps ." in script.read_text()
    subprocess.run(["bash", "-n", str(script)], check=True)
    settings = json.loads((root / "binder" / "overrides.json").read_text())
    assert settings["@jupyterlab/apputils-extension:notification"]["fetchNews"] == "false"


def test_readme_has_the_marked_region(root):
    text = (root / "README.md").read_text()
    assert text.count("<!-- binder-links: start -->") == text.count("<!-- binder-links: end -->") == 1
