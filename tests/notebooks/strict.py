"""Running strict nbval on what papermill executed, and spoiling one stored number of a notebook."""

import configparser
import copy
import json
import os
import re
import subprocess
import sys
from pathlib import Path
from xml.etree import ElementTree

HERE = Path(__file__).parent
SANITIZE = HERE / "sanitize.cfg"
NUMBER = re.compile(r"\d+(?:\.\d+)?")


def nbval(path: Path, *more: str, executed: Path | None = None) -> subprocess.CompletedProcess:
    """Strict nbval with the guard, in a process of its own, blind to the settings of the outer run.

    With `executed`, which papermill has run, it compares those outputs and starts no kernel.
    """
    environment = {key: value for key, value in os.environ.items() if not key.startswith("PYTEST_")}
    environment["PYTHONPATH"] = os.pathsep.join(filter(None, [str(HERE), environment.get("PYTHONPATH")]))
    environment["PYTEST_DISABLE_PLUGIN_AUTOLOAD"] = "1"
    plugins = ["no:cacheprovider", "nbval.plugin", "guard"]
    if executed is not None:
        environment["COOKBOOK_EXECUTED"] = str(executed)
        plugins.append("replay")
    command = [
        sys.executable,
        "-m",
        "pytest",
        "-q",
        "-c",
        os.devnull,
        "--rootdir",
        str(path.parent),
        *(word for plugin in plugins for word in ("-p", plugin)),
        "--nbval",
        f"--nbval-sanitize-with={SANITIZE}",
        str(path),
        *more,
    ]
    return subprocess.run(command, capture_output=True, text=True, env=environment, timeout=300)


def compare(executed: Path, *stored: Path) -> dict[str, list[str]]:
    """What strict nbval finds wrong in stored notebooks beside one that papermill has executed, by name of the file."""
    report = stored[0].parent / "nbval.xml"
    ran = nbval(stored[0], *map(str, stored[1:]), f"--junitxml={report}", executed=executed)
    if ran.returncode not in (0, 1):  # nothing was compared: no test, a notebook that never ran, an error of pytest
        raise RuntimeError(ran.stdout + ran.stderr)
    found: dict[str, list[str]] = {path.name: [] for path in stored}
    for case in ElementTree.parse(report).iter("testcase"):
        wrong = [each.text or "" for each in case if each.tag in ("failure", "error")]
        found[next(name for name in found if case.attrib["classname"].startswith(name))] += wrong
    return found


def sanitise(text: str) -> str:
    """`text` as nbval compares it."""
    rules = configparser.ConfigParser(interpolation=None)
    rules.read(SANITIZE)
    for name in rules.sections():
        text = re.sub(rules[name]["regex"], rules[name]["replace"], text)
    return text


def spoil(notebook: dict) -> dict:
    """A copy of the notebook with the first stored number that nbval compares changed in one digit.

    Raises LookupError if no output holds such a number: then there is nothing a reader or a test could check.
    """
    notebook = copy.deepcopy(notebook)
    for holder, key in _texts(notebook):
        text = "".join(holder[key])
        for match in NUMBER.finditer(text):
            digit = str((int(match[0][-1]) + 1) % 10)
            changed = text[: match.end() - 1] + digit + text[match.end() :]
            if sanitise(changed) != sanitise(text):
                holder[key] = changed
                return notebook
    raise LookupError("no stored number to check")


def without_pictures(path: Path) -> str:
    """Stored notebook as text, without what fonts of a machine decide and what nbval would not compare."""
    notebook = json.loads(path.read_text(encoding="utf-8"))
    for cell in notebook["cells"]:
        for output in cell.get("outputs", []):
            output.get("data", {}).pop("image/png", None)
    return sanitise(json.dumps(notebook, indent=1, sort_keys=True))


def _texts(notebook: dict):
    for cell in notebook["cells"]:
        ignored = "nbval-ignore-output" in cell["metadata"].get("tags", [])
        for output in [] if ignored else cell.get("outputs", []):
            if output.get("name") == "stdout":
                yield output, "text"
            if "text/plain" in output.get("data", {}):
                yield output["data"], "text/plain"
