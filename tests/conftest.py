"""What every test shares: where the project lies, which browser there is, and what to say where there is none."""

import contextlib
import functools
import os
import shutil
import subprocess
import sys
import time
from pathlib import Path

import pytest
from hypothesis import is_hypothesis_test, settings

ROOT = Path(__file__).resolve().parents[1]
# No property is judged by the seconds of this machine. Examples are the same in every run; once a week they are drawn
# anew (`--hypothesis-profile=anew`).
settings.register_profile("cookbook", deadline=None, derandomize=True)
settings.register_profile("anew", deadline=None)
settings.load_profile("cookbook")
# Examples of a property at most; `make test-more` tries as many as each test asks for.
EXAMPLES = 12 if os.environ.get("COOKBOOK_EXAMPLES") != "all" else None
NO_BROWSER = """No Chromium was found, so the browser tests did not run; everything else did.
To run them too:  apt-get install chromium fonts-dejavu-core   (Debian, Ubuntu), or install Chrome or Chromium
from your system's store; if it is not on the path:  CHROMIUM=/path/to/it make test"""


def find_chromium() -> str | None:
    """Path of a Chromium or Chrome, CHROMIUM of the environment first."""
    names = (os.environ.get("CHROMIUM", ""), "chromium", "chromium-browser", "google-chrome", "chrome")
    found = (shutil.which(name) for name in names if name)
    return next((path for path in found if path), None)


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items):
    """Mark what needs the browser or a quiet machine; a missing browser skips its tests and is said at the end."""
    no_browser = pytest.mark.skip(reason="no Chromium")
    for item in items:
        if item.path.is_relative_to(ROOT / "tests" / "browser"):
            item.add_marker(pytest.mark.browser)
        if item.path.is_relative_to(ROOT / "tests" / "benchmarks"):
            item.add_marker(pytest.mark.alone)
        if item.get_closest_marker("browser") and find_chromium() is None:
            item.add_marker(no_browser)
        if EXAMPLES and getattr(item, "function", None) and is_hypothesis_test(item.function):
            shorten(item.function)
    items.sort(key=lambda item: not item.path.as_posix().endswith(LONGEST))


# Files whose tests share nothing go out test by test, the others as a whole, so that what they share is made once. In
# tests/browser only the files whose tests share the pages of a site stay whole. The longest go first.
ONE_BY_ONE = ("test_crawl.py", "test_other_processors.py", "test_hostile.py", "test_hostile_rows.py")
SHARED_PAGES = ("tests/browser/test_site.py", "tests/browser/test_answers.py")
TOGETHER = {"test_validate.py": "calibration", "test_accuracy.py": "calibration"}
LONGEST = (*TOGETHER, *SHARED_PAGES)


def unit_of_work(test: str) -> str:
    """What goes to one worker: tests of one notebook, of one file, of two files that share a fit, or one test."""
    path, _, case = test.partition("::")
    folder, _, file = path.rpartition("/")
    if file == "test_crawl.py" and "[" in case and not case.startswith("test_parameter_sets"):
        return case.partition("[")[2]
    alone = file in ONE_BY_ONE or (folder.endswith("tests/browser") and not path.endswith(SHARED_PAGES))
    return test if alone else TOGETHER.get(file, path)


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config, log):
    """With ``--dist loadgroup`` tests go to workers by `unit_of_work`, in the order in which they stand."""
    from xdist.scheduler import LoadScopeScheduling

    class ByUnit(LoadScopeScheduling):
        def _split_scope(self, nodeid):
            return unit_of_work(nodeid)

    config.option.loadscopereorder = False
    return ByUnit(config, log) if config.getoption("dist") == "loadgroup" else None


def shorten(function):
    """Try no more than `EXAMPLES` examples of a property; everything else stays as its test sets it."""
    given = function._hypothesis_internal_use_settings
    few = settings(given, max_examples=min(given.max_examples, EXAMPLES))
    function._hypothesis_internal_use_settings = few


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_terminal_summary(terminalreporter, config):
    """Say last what did not run, unless it was not asked for."""
    result = yield
    if any("no Chromium" in str(each.longrepr) for each in terminalreporter.stats.get("skipped", [])):
        terminalreporter.section("browser tests did not run")
        terminalreporter.write_line(NO_BROWSER)
    return result


@pytest.fixture(scope="session")
def chromium() -> str | None:
    """Path of the browser; tests that use it do not run where there is none."""
    return find_chromium()


FRONT_PAGE = "# Small\n\n{{ recipes }}\n\n```{toctree}\n:glob:\n\nnotebooks/*\ndocs/*\n```\n"
REFERENCE = """Reference
=========

.. autosummary::
   :toctree: generated
   :template: autosummary/namespace.rst

   cookbook.formulas.memory
"""


@pytest.fixture(scope="session")
def front_page():
    """Function that writes the front page of a small site, and where it has guides a page of the reference."""

    def write(folder: Path) -> None:
        (folder / "index.md").write_text(FRONT_PAGE, encoding="utf-8")
        if (folder / "docs").is_dir():
            (folder / "docs" / "reference.rst").write_text(REFERENCE, encoding="utf-8")

    return write


@pytest.fixture(scope="session")
def build_site():
    """Function that builds the documentation of a folder; where it is `strict`, a warning of Sphinx fails the test."""

    def build(source: Path, out: Path, strict: bool = True) -> Path:
        warnings = ["-W", "--keep-going"] if strict else []
        folders = ["-c", ROOT / "docs", "-d", out.with_name(f"{out.name}-doctrees"), source, out]
        command = [sys.executable, "-m", "sphinx", "-q", *warnings, *map(str, folders)]
        ran = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
        assert ran.returncode == 0, ran.stderr[-3000:]
        return out

    return build


@pytest.fixture(scope="session")
def root() -> Path:
    """Top folder of the project."""
    return ROOT


def counted() -> float:
    """Processor time [s] of counting to ten million: the measure of what a machine does, whatever else runs there."""
    begun, count = time.process_time(), 0
    while count < 10_000_000:
        count += 1
    return time.process_time() - begun


@pytest.fixture(scope="session")
def within():
    """``with within(3):`` what takes no more processor time than counting to ten million three times."""
    unit = functools.cache(counted)

    @contextlib.contextmanager
    def check(counts: float):
        begun = time.process_time()
        yield
        spent = time.process_time() - begun
        assert spent <= counts * unit(), f"{spent / unit():.1f} times counting to ten million; at most {counts}"

    return check


@pytest.fixture(scope="session")
def made_once():
    """``made_once("serving", devices=8)``: a panel that is made once a session, in the state that it was made in."""
    from cookbook import panels

    made = {}

    def panel(name, **values):
        key = name, repr(values)
        if key not in made:
            made[key] = getattr(panels, name)(**values)
        again = made[key]
        again._pinned, again._open, again._seq = None, "", 0
        again.reset()
        return again

    return panel


@pytest.fixture(scope="session")
def refuses():
    """Whether a panel tells in one sentence, with these words, why a change cannot be, and else stays as it was."""

    def check(panel, change, words):
        before, columns = panel.code, panel.columns
        panel.update(**change)
        assert panel.shown["error"] and all(word.lower() in panel.answer.lower() for word in words), panel.answer
        assert "\n" not in panel.answer and panel.answer.endswith("."), panel.answer
        assert panel.code == before and panel.columns is columns
        panel.reset()
        assert panel.shown["error"] == "" and panel.code == before

    return check
