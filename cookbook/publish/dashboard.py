"""The server of the app: Voila, with its own first page, a limit of pages, and nothing fetched from elsewhere."""

import asyncio
import ipaddress
import os
import secrets
import socket
import sys
from collections.abc import Callable
from contextvars import ContextVar
from http import HTTPStatus
from pathlib import Path
from tempfile import TemporaryDirectory, gettempdir
from typing import Any
from urllib.parse import quote

import nbformat
import psutil
import tornado.web
from jupyter_server.utils import url_path_join
from traitlets import Int, Set
from traitlets.config import Config
from voila.app import Voila
from voila.tornado.handler import TornadoVoilaHandler

from cookbook.panels.text import counted
from cookbook.publish.app import first_page, notebook, problem_page, questions
from cookbook.units import human

PORT = 8866
LOOPBACK = "127.0.0.1"
# Spare processes, concurrent pages, memory per page [B], and the minimum length of a token.
SPARE, MOST, MEMORY, TOKEN = 2, 30, 1e9, 16
# Memory kept free [B]; pages that start at the same time; time after which an idle page is closed [s].
MIN_FREE, AT_ONCE, IDLE = 5e8, 4, 600
# The request being answered: simultaneous readers are counted before any of them has a process.
REQUEST: ContextVar[object] = ContextVar("REQUEST")
REQUIRED_EXTENSIONS = ("@jupyter-widgets/jupyterlab-manager", "@voila-dashboards/widgets-manager8", "anywidget")


class Page(TornadoVoilaHandler):
    """Handler of the first page and of the panel that the address names; else it explains why it cannot be opened."""

    @tornado.web.authenticated
    async def get(self, path: str | None = None) -> None:
        """Answer a reader; `path` is always empty."""
        app: Dashboard = self.settings["voila"]
        name = self.get_argument("panel", "")
        _ = self.xsrf_token  # sets the cookie without which a page that is closed could not end its process
        if not name:
            self.finish(first_page(self.base_url))
        elif name not in {entry.name for entry in questions()}:
            self._sorry(404, "There is no such panel", f"The address asks for {name[:60]!r}. These are the panels:")
        else:
            async with app.gate:
                if why := app.full():
                    self.set_header("Retry-After", "60")
                    self._sorry(503, "No room for another page", why)
                    return
                request = object()
                REQUEST.set(request)
                app.opening.add(request)
                try:
                    await super().get(None)
                finally:
                    app.opening.discard(request)

    def write_error(self, status_code: int, **_: Any) -> None:
        """Explain in words that a page could not be made, with `status_code`."""
        self._sorry(
            status_code,
            HTTPStatus(status_code).phrase,
            "This page could not be opened. Reload it; the log of the app says more.",
        )

    def _sorry(self, status: int, title: str, words: str) -> None:
        self.set_status(status)
        self.set_header("Content-Type", "text/html; charset=UTF-8")
        self.finish(problem_page(title, words, self.base_url))


class Dashboard(Voila):
    """Voila with one notebook, which makes the page of any panel."""

    most = Int(1, config=True, help="Pages that may be open at once.")
    opening: set[object] = Set(help="Requests for pages to which no process is given yet.")  # type: ignore[assignment]

    def setup_template_dirs(self) -> None:
        """Put our page before Voila's, which would fetch styles from elsewhere."""
        super().setup_template_dirs()
        self.template_paths.insert(0, str(Path(__file__).parent / "voila"))
        self.gate = asyncio.Semaphore(AT_ONCE)

    def init_settings(self) -> dict[str, Any]:
        """Return Voila's settings; the manager notes which kernels have a page, and prepares no more than allowed."""
        defaults, manager = super().init_settings(), self.kernel_manager
        give, begin, fill = manager.get_rendered_notebook, manager.start_kernel, manager.fill_if_needed
        self.given = set[str]()

        def noted(kernel: str) -> None:  # a page from now on, and no longer one that is being opened
            self.given.add(kernel)
            # Where its process dies, one without a panel replaces it and informs the reader; it is not counted as a
            # page.
            manager.add_restart_callback(kernel, lambda: self.given.discard(kernel))
            self.opening.discard(REQUEST.get(None))

        async def given(**more: Any) -> Any:
            page = await give(**more)
            noted(page[2])
            return page

        async def begun(**more: Any) -> str:  # where none waits
            kernel = str(await begin(**more))
            noted(kernel)
            filled(notebook_name=Path(self.notebook_path).name)
            return kernel

        def filled(delay: float | None = None, notebook_name: str = "", **more: Any) -> None:
            if self.pages() + manager.get_pool_size(notebook_name) + 1 < self.most:
                fill(delay, notebook_name, **more)

        manager.get_rendered_notebook, manager.start_kernel, manager.fill_if_needed = given, begun, filled
        return dict(defaults)

    def pages(self) -> int:
        """Return the number of open pages."""
        return len(self.given.intersection(self.kernel_manager.list_kernel_ids()))

    def init_handlers(self) -> list[Any]:
        """Return Voila's handlers, with ours for the notebook's page; no file and no query is served."""
        *others, (_, __, options) = super().init_handlers()
        allowed = [
            handler for handler in others if "/voila/files/" not in handler[0] and "/voila/query/" not in handler[0]
        ]
        return [*allowed, (url_path_join(self.server_url, "/"), Page, options)]

    def full(self) -> str:
        """Return the reason why no further page can be opened; "" where one can."""
        if self.pages() + len(self.opening) >= self.most:
            return (
                f"This app was started for {counted(self.most, 'page')} at once, and as many are open. Close one "
                "that you no longer need and try again in a minute, or ask whoever started it for more (--most)."
            )
        free = psutil.virtual_memory().available
        if free < MIN_FREE:
            return (
                f"The memory of this machine is exhausted: {human(free, 'B')} are left, and a page needs "
                f"{human(MIN_FREE, 'B')}. Close pages that you no longer need and try again."
            )
        return ""


def settings(path: Path, bind: str, port: int, token: str, spare: int, most: int) -> Config:
    """Return the server's configuration from the notebook at `path` and `serve`'s `bind`, `port`, `token`, `spare`,
    `most`.
    """
    return Config(
        {
            "Dashboard": {"most": most},
            "Voila": {
                "notebook_path": str(path),
                "root_dir": str(path.parent),
                "ip": bind,
                "port": port,
                "token": token,
                "port_retries": 0,
                "open_browser": False,
                "log_level": "WARN",
                # Without a token, pages of other sites must not reach the app under their own host name.
                "tornado_settings": {"allow_remote_access": bool(token), "local_hostnames": [bind, "localhost"]},
            },
            "VoilaConfiguration": {
                "preheat_kernel": True,
                "default_pool_size": spare,
                "extension_allowlist": list(REQUIRED_EXTENSIONS),
                "allow_template_override": "NO",
                "allow_theme_override": "NO",
            },
            # Files that no other user may open, in place of ports, where their names are not too long for the system.
            "KernelManager": {"transport": "ipc" if sys.platform == "linux" and len(gettempdir()) < 25 else "tcp"},
            "MappingKernelManager": {"cull_idle_timeout": IDLE, "cull_interval": 60},
            "VoilaKernelManager": {"fill_delay": 0.2},
        }
    )


def token_for(bind: str, token: str | None) -> str:
    """Return `token`, a new one where `bind` lets other machines in, or none on this machine alone.

    Raises
    ------
    ValueError
        If the address is invalid, or the token can be guessed.

    Examples
    --------
    >>> token_for("127.0.0.1", None), len(token_for("0.0.0.0", None))
    ('', 32)
    """
    if token is not None and len(token) < TOKEN:
        raise ValueError(
            f"token has {len(token)} letters: give at least {TOKEN}, or none, and one is made where one is needed"
        )
    return token or ("" if is_loopback(bind) else secrets.token_urlsafe(24))


def is_loopback(bind: str) -> bool:
    """Return True if the address `bind` is reached from this machine alone.

    Raises
    ------
    ValueError
        If it is not an address.

    Examples
    --------
    >>> is_loopback("localhost"), is_loopback("::1"), is_loopback("0.0.0.0")
    (True, True, False)
    """
    if bind == "localhost":
        return True
    try:
        return ipaddress.ip_address(bind).is_loopback
    except ValueError:
        raise ValueError(
            f"bind = {bind[:60]!r} is not an address: give {LOOPBACK} for this machine alone, 0.0.0.0 for everybody "
            "who reaches it, or the address of one of its networks"
        ) from None


def serve(
    bind: str = LOOPBACK,
    port: int = PORT,
    token: str | None = None,
    spare: int = SPARE,
    most: int = MOST,
    memory: float = MEMORY,
    tell: Callable[[str], None] = print,
) -> None:
    """Serve all panels until interrupted.

    Parameters
    ----------
    bind : str
        Address on which to listen; by default that of this machine alone.
    port : int
        Port on which to listen, 1 to 65535.
    token : str, optional
        The secret with which readers get access; by default generated if `bind` admits other machines.
    spare : int
        Processes kept ready for the next readers, at least 1.
    most : int
        Pages that may be open at once, at least 1.
    memory : float
        Memory that the process of one page may allocate [B], at least 500 MB.
    tell : callable
        Called with each line of the shell's output.

    Raises
    ------
    ValueError
        If an argument is out of its range, or the port is in use.
    """
    ranges = {"port": (port, 1, 65535), "spare": (spare, 1, 100), "most": (most, 1, 10_000)}
    for name, (value, low, high) in ranges.items():
        if not low <= value <= high:
            raise ValueError(f"{name} = {value} is out of range: give {low:,} to {high:,}")
    if not 5e8 <= memory <= 1e13:
        raise ValueError(f"memory = {human(memory, 'B')} is out of range: give 500 MB, which a page needs, to 10 TB")
    token = token_for(bind, token or os.environ.get("COOKBOOK_TOKEN") or None)
    _free(bind, port)
    for line in greeting(bind, port, token):
        tell(line)
    with TemporaryDirectory(prefix="cookbook-app-") as folder:
        path = Path(folder) / "panel.ipynb"
        nbformat.write(notebook(memory if sys.platform == "linux" else None), path)
        app = Dashboard(config=settings(path, bind, port, token, min(spare, most), most))
        app.initialize([])
        app.start()


def greeting(bind: str, port: int, token: str) -> list[str]:
    """Return the shell's message: the address by `bind`, `port` and `token`, who can reach it, and how to stop."""
    host = socket.gethostname() if bind in ("0.0.0.0", "::") else f"[{bind}]" if ":" in bind else bind
    key = f"?token={quote(token, safe='')}" if token else ""
    lines = [f"The cookbook's app: http://{host}:{port}/{key}"]
    if not is_loopback(bind):
        lines.append(
            "Everybody who reaches this machine and has the token can use it. The connection is not "
            "encrypted: put a proxy with TLS before it on a network that you do not trust."
        )
    return [*lines, "Stop it with Ctrl+C."]


def _free(bind: str, port: int) -> None:
    family, kind, protocol, _, address = socket.getaddrinfo(bind, port, type=socket.SOCK_STREAM)[0]
    with socket.socket(family, kind, protocol) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(address)
        except OSError as problem:
            raise ValueError(f"port = {port} at {bind} cannot be used ({problem.strerror}): choose another") from None
