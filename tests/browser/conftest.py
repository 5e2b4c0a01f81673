"""A JupyterLab of our own on a free port, and a Chromium that counts every request."""

from __future__ import annotations

import json
import os
import shutil
import socket
import subprocess
import sys
import time
from pathlib import Path
from typing import Any
from urllib.parse import urlparse
from urllib.request import urlopen

import pytest

ROOT = Path(__file__).parents[2]
BUILD = ROOT / "build"
FLAGS = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
]
# A kernel left over sends the next page of its notebook every panel that it ever drew.
SHUT_DOWN = "() => window.jupyterapp?.serviceManager.sessions.shutdownAll()"
HERE = ("127.0.0.1", "localhost", "::1")


def free_port() -> int:
    """A port that nobody listens on."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


@pytest.fixture(scope="session")
def notebooks(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of the notebooks, so that running them changes nothing."""
    source = Path(os.environ.get("COOKBOOK_NOTEBOOKS", ROOT / "notebooks"))
    copy = tmp_path_factory.mktemp("lab") / "notebooks"
    shutil.copytree(source, copy, ignore=shutil.ignore_patterns(".ipynb_checkpoints"))
    return copy


@pytest.fixture(scope="session")
def lab(notebooks: Path, tmp_path_factory: pytest.TempPathFactory) -> Any:
    """Address of a JupyterLab that serves the copy; settings and workspaces are fresh."""
    home, port = tmp_path_factory.mktemp("jupyter"), free_port()
    settings = home / "settings"
    settings.mkdir()
    overrides = {"@jupyterlab/apputils-extension:notification": {"fetchNews": "false", "checkForUpdates": False}}
    (settings / "overrides.json").write_text(json.dumps(overrides))
    environment = {
        **os.environ,
        "JUPYTER_CONFIG_DIR": str(home / "config"),
        "JUPYTERLAB_SETTINGS_DIR": str(home / "user"),
        "JUPYTERLAB_WORKSPACES_DIR": str(home / "work"),
        "JUPYTER_RUNTIME_DIR": str(home / "run"),
        "IPYTHONDIR": str(home / "ipython"),
        "COOKBOOK_STATIC": "0",
    }
    command = [
        sys.executable,
        "-m",
        "jupyterlab",
        "--no-browser",
        "--allow-root",
        "--ServerApp.ip=127.0.0.1",
        f"--ServerApp.port={port}",
        "--ServerApp.port_retries=0",
        "--IdentityProvider.token=",
        f"--ServerApp.root_dir={notebooks}",
        f"--LabApp.app_settings_dir={settings}",
        "--LabApp.extension_manager=readonly",
        "--LabApp.expose_app_in_browser=True",
        "--MappingKernelManager.default_kernel_name=python3",
    ]
    log = (home / "lab.log").open("w")
    server = subprocess.Popen(command, env=environment, stdout=log, stderr=log, cwd=notebooks)
    try:
        yield _ready(f"http://127.0.0.1:{port}", server, home / "lab.log")
    finally:
        server.terminate()
        server.wait(20)
        log.close()


def _ready(address: str, server: subprocess.Popen[bytes], log: Path) -> str:
    for _ in range(240):
        if server.poll() is not None:
            break
        try:
            urlopen(f"{address}/api/status", timeout=2).close()
            return address
        except OSError:
            time.sleep(0.25)
    raise RuntimeError(f"JupyterLab did not start:\n{log.read_text()[-3000:]}")


@pytest.fixture(scope="session")
def browser(chromium: str) -> Any:
    """A headless Chromium."""
    from playwright.sync_api import sync_playwright

    with sync_playwright() as driver:
        running = driver.chromium.launch(executable_path=chromium, headless=True, args=FLAGS)
        yield running
        running.close()


@pytest.fixture
def own_page(browser: Any, chromium: str) -> Any:
    """A page of a Chromium of its own: one that has run for long may keep nothing from page to page."""
    running = browser.browser_type.launch(executable_path=chromium, headless=True, args=FLAGS)
    yield running.new_page(viewport={"width": 1300, "height": 1000})
    running.close()


@pytest.fixture(scope="session")
def patience(browser: Any) -> float:
    """Milliseconds that a page may take for one thing: a minute, and more where opening an empty one takes long."""
    start = time.monotonic()
    browser.new_context().new_page().context.close()
    return max(60_000, 200_000 * (time.monotonic() - start))


@pytest.fixture
def page(browser: Any, patience: float) -> Any:
    """A page in a fresh profile; `page.outside` lists requests that left this machine, `page.received` counts bytes."""
    context = browser.new_context(viewport={"width": 1300, "height": 1000})
    opened = context.new_page()
    opened.set_default_timeout(patience)
    opened.patience = patience / 3
    opened.outside, opened.received, opened.problems = [], [0], []
    opened.on("request", lambda request: _note(opened, request.url))
    opened.on("websocket", lambda socket: socket.on("framereceived", lambda frame: _count(opened, frame)))
    opened.on("pageerror", lambda error: opened.problems.append(str(error)))
    yield opened
    if not opened.is_closed():
        opened.evaluate(SHUT_DOWN)
    context.close()


def _note(page: Any, url: str) -> None:
    parts = urlparse(url)
    if parts.scheme.startswith(("http", "ws")) and parts.hostname not in HERE:
        page.outside.append(url)


def _count(page: Any, frame: Any) -> None:
    page.received[0] += len(frame)


@pytest.fixture
def figures() -> Any:
    """Keeps what was measured of a recipe in build/browser-figures."""
    folder = BUILD / "browser-figures"

    def keep(recipe: str, measured: dict[str, Any]) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        (folder / f"{Path(recipe).stem}.json").write_text(json.dumps(measured, indent=1, sort_keys=True) + "\n")

    return keep
