"""The app: every panel is offered, strangers stay outside, and what has no room or no memory is told in words."""

from __future__ import annotations

import asyncio
import json
import re
import socket
import subprocess
import sys
import textwrap
from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from urllib.error import HTTPError
from urllib.request import HTTPRedirectHandler, Request, build_opener

import psutil
import pytest
from jupyter_server.services.kernels.connection.base import serialize_msg_to_ws_v1
from load_app import Reader, running
from tornado.httpclient import AsyncHTTPClient, HTTPClientError, HTTPRequest
from tornado.websocket import websocket_connect

import cookbook as cb
from cookbook import panels
from cookbook.panels import listing
from cookbook.publish import app, dashboard

TOKEN = "a-token-of-the-test"


class Links(HTMLParser):
    """Addresses that a page links to."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.found: list[str] = []
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: Any) -> None:
        self.found += [value for name, value in attrs if tag == "a" and name == "href"]


def fetched(host: str, path: str = "/", **headers: str) -> tuple[int, str]:
    """Status and text of a page; nothing is followed."""

    class Stay(HTTPRedirectHandler):
        def redirect_request(self, *_: Any) -> None:
            return None

    try:
        with build_opener(Stay).open(Request(f"http://{host}{path}", headers=headers), timeout=120) as answer:
            return answer.status, answer.read().decode()
    except HTTPError as refused:
        return refused.code, refused.read().decode()


@pytest.fixture(scope="module")
def here() -> Iterator[tuple[str, Any]]:
    """An app for this machine alone, with room for one page."""
    with running("--spare", "1", "--most", "1") as found:
        yield found


@pytest.fixture(scope="module")
def room() -> Iterator[tuple[str, Any]]:
    """An app that others reach, with a token."""
    with running("--bind", "0.0.0.0", "--token", TOKEN, "--spare", "1") as found:
        yield found


# The first page.


def test_the_first_page_leads_to_every_panel() -> None:
    links = Links(app.first_page("/")).found
    assert {f"/?panel={name}" for name in panels.RECIPES} == {each for each in links if "panel=" in each}
    assert {name for _, names in app.DECISIONS for name in names} <= set(panels.RECIPES)


def test_a_question_is_the_title_of_its_panel() -> None:
    told = {each.name: each for each in app.questions()}
    assert set(told) == set(panels.RECIPES) and len(app.questions()) == len(told)
    assert told["host"].title == cb.panels.host().shape["title"] and told["host"].recipe == "06"
    for each in told.values():
        assert each.title and each.line and re.fullmatch(r"\d\d", each.recipe), each


def test_what_a_reader_typed_is_text_on_a_page() -> None:
    page = app.problem_page("No", "<script>alert(1)</script>")
    assert "<script" not in page and "&lt;script&gt;" in page


# Who is let in.


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"bind": "somewhere.example"}, ["bind = 'somewhere.example'", "127.0.0.1", "0.0.0.0"]),
        ({"token": "short"}, ["token has 5 letters", "at least 16"]),
        ({"port": 0}, ["port = 0", "1 to 65,535"]),
        ({"spare": 0}, ["spare = 0"]),
        ({"most": -1}, ["most = -1"]),
        ({"memory": 1e6}, ["memory = 1 MB", "500 MB"]),
        ({"memory": float("nan")}, ["memory"]),
    ],
)
def test_an_app_that_cannot_be_is_refused(arguments: dict[str, Any], words: list[str]) -> None:
    with pytest.raises(ValueError) as refused:
        dashboard.serve(**arguments)
    assert all(word in str(refused.value) for word in words), refused.value


def test_a_port_that_is_taken_is_told() -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        with pytest.raises(ValueError, match=f"port = {taken.getsockname()[1]} .*choose another"):
            dashboard.serve(port=taken.getsockname()[1])


def test_a_token_is_made_where_others_get_in() -> None:
    assert dashboard.token_for("127.0.0.1", None) == dashboard.token_for("::1", None) == ""
    assert dashboard.token_for("localhost", None) == ""
    one, other = dashboard.token_for("0.0.0.0", None), dashboard.token_for("0.0.0.0", None)
    assert len(one) >= 32 and one != other
    assert dashboard.token_for("127.0.0.1", TOKEN) == TOKEN


def test_what_the_shell_says() -> None:
    assert dashboard.greeting("127.0.0.1", 8866, "")[0] == "The cookbook's app: http://127.0.0.1:8866/"
    first, warning, _ = dashboard.greeting("192.168.0.7", 80, TOKEN)
    assert first.endswith(f"http://192.168.0.7:80/?token={TOKEN}") and "not encrypted" in warning
    assert dashboard.greeting("localhost", 80, "a&b#c/d")[0].endswith("/?token=a%26b%23c%2Fd")


def listens_at(process: Any) -> set[str]:
    return {each.laddr.ip for each in psutil.Process(process.pid).net_connections("tcp") if each.status == "LISTEN"}


def test_without_a_word_the_app_is_for_this_machine_alone(here: tuple[str, Any], room: tuple[str, Any]) -> None:
    assert listens_at(here[1]) == {"127.0.0.1"}
    assert "0.0.0.0" in listens_at(room[1])


def test_a_page_of_another_site_is_refused(here: tuple[str, Any]) -> None:
    """Its name resolves to this machine, and its script would read the answer."""
    assert fetched(here[0])[0] == 200
    assert fetched(here[0], Host="elsewhere.example")[0] == 403


def test_a_token_is_asked_for(room: tuple[str, Any]) -> None:
    for path in ("/", "/?panel=host", "/?token=wrong", "/?panel=host&token=wrong-wrong-wrong"):
        status, text = fetched(room[0], path)
        assert status in (302, 403) and "What must you decide" not in text and "kernelId" not in text
    status, text = fetched(room[0], f"/?token={TOKEN}")
    assert status == 200 and "What must you decide" in text and TOKEN not in text
    status, text = fetched(room[0], f"/?panel=host&token={TOKEN}")
    kernel = re.search(r'"kernelId": "([^"]+)"', text)
    assert status == 200 and kernel and TOKEN not in text
    channel = f"ws://{room[0]}/api/kernels/{kernel[1]}/channels"
    with pytest.raises(HTTPClientError, match="403"):
        asyncio.run(connected(channel))
    asyncio.run(connected(f"{channel}?token={TOKEN}"))


async def connected(address: str) -> None:
    (await websocket_connect(address)).close()


def test_no_file_is_handed_out(here: tuple[str, Any]) -> None:
    paths = (
        "/voila/files/panel.ipynb",
        "/panel.ipynb",
        "/voila/tree",
        "/api/contents",
        "/voila/render/panel.ipynb",
        "/voila/api/contents/",
        "/api/kernels",
        "/api/sessions",
        "/api/kernelspecs",
        "/api/terminals",
        "/lab",
        "/tree",
        "/terminals/1",
        "/nbconvert/html/panel.ipynb",
        "/edit/panel.ipynb",
        "/metrics",
        "/kernelspecs/python3/kernel.json",
    )
    for path in paths:
        assert fetched(here[0], path)[0] == 404, path


def test_a_page_of_elsewhere_reaches_no_process(here: tuple[str, Any]) -> None:
    async def visit() -> None:
        reader = Reader(here[0], "assembly_line")
        await reader.open()
        address = f"{here[0]}/api/kernels/{reader.kernel}"
        for origin in ("http://elsewhere.example", "null", "http://localhost:1"):
            with pytest.raises(HTTPClientError, match="403"):
                await websocket_connect(HTTPRequest(f"ws://{address}/channels", headers={"Origin": origin}))
        client = AsyncHTTPClient()
        for method in ("POST", "DELETE"):  # without the ticket that the page has
            for path in (f"/voila/api/shutdown/{reader.kernel}", f"/api/kernels/{reader.kernel}"):
                asked = HTTPRequest(f"http://{here[0]}{path}", method=method, body="", allow_nonstandard_methods=True)
                assert (await client.fetch(asked, raise_error=False)).code in (403, 405)
        await reader.press(1)
        await reader.close()

    asyncio.run(visit())


KINDS = (
    "execute_request",
    "inspect_request",
    "complete_request",
    "is_complete_request",
    "history_request",
    "debug_request",
    "input_reply",
    "interrupt_request",
    "create_subshell_request",
)


def test_a_visitor_runs_no_code(here: tuple[str, Any], tmp_path: Path) -> None:
    """By the channel of a page of one's own, in both protocols, on every channel, in messages that pass for others."""
    mark = tmp_path / "mark"
    text = f"open({str(mark)!r}, 'w')"
    code = {"code": text, "user_expressions": {"x": text}, "silent": False}

    def head(kind: str) -> dict[str, str]:
        return {"msg_id": kind, "msg_type": kind, "username": "", "session": "visitor", "version": "5.3"}

    async def visit() -> None:
        reader = Reader(here[0], "assembly_line")
        await reader.open()
        binary = await websocket_connect(
            f"ws://{here[0]}/api/kernels/{reader.kernel}/channels", subprotocols=["v1.kernel.websocket.jupyter.org"]
        )
        assert binary.selected_subprotocol
        for channel in ("shell", "control", "stdin"):
            for kind in KINDS:
                whole = {"parent_header": {}, "metadata": {}, "content": code, "buffers": [], "channel": channel}
                plain = json.dumps({"header": head(kind), **whole})
                await reader.channel.write_message(plain)
                await reader.channel.write_message(plain.replace('"msg_type":', '"msg_type": "comm_msg", "msg_type":'))
                await reader.channel.write_message(json.dumps({"header": head("comm_msg"), "msg_type": kind, **whole}))
                parts = [json.dumps(each).encode() for each in (head(kind), {}, {}, code)]
                await binary.write_message(serialize_msg_to_ws_v1(parts, channel), binary=True)
                hidden = [json.dumps(each).encode() for each in (head("comm_msg"), {}, {}, {})] + [b"<IDS|MSG>", b""]
                await binary.write_message(serialize_msg_to_ws_v1(hidden + parts, channel), binary=True)
        await reader.press(1)  # in order: what stood before it has been read
        await reader.press(2)
        await reader.close()

    asyncio.run(visit())
    assert not mark.exists()


@pytest.mark.parametrize(
    "path",
    [
        f"{front}{back}"
        for front in (
            "/voila/static/",
            "/voila/labextensions/",
            "/voila/api/themes/",
            "/voila/files/",
            "/voila/templates/lab/static/",
            "/voila/templates/",
            "/static/",
            "/files/",
            "/",
        )
        for back in (
            "../" * 12 + "etc/passwd",
            "..%2f" * 12 + "etc%2fpasswd",
            "/etc/passwd",
            "%2fetc%2fpasswd",
            "%2e%2e/" * 12 + "etc/passwd",
        )
    ],
)
def test_no_address_leads_out_of_the_app(here: tuple[str, Any], path: str) -> None:
    status, text = fetched(here[0], path)
    assert status >= 400 and "root:" not in text and "Traceback" not in text


# Pages, and when there is no room.


def test_a_page_answers_and_the_next_waits_for_room(here: tuple[str, Any]) -> None:
    async def visit() -> None:
        reader = Reader(here[0], "assembly_line")
        await reader.open()
        before = reader.shown["answer"]
        await reader.press(1)
        await reader.press(2)
        assert before and reader.shape["title"] == "Who waits in a pipeline?"
        status, text = fetched(here[0], "/?panel=host")
        assert status == 503 and "started for 1 page at once" in text and "--most" in text
        await reader.close()

    asyncio.run(visit())
    asyncio.run(visit())  # no process waits for it: one is started


@pytest.mark.all
def test_a_process_that_died_makes_room(here: tuple[str, Any]) -> None:
    async def visit() -> None:
        reader = Reader(here[0], "assembly_line")
        await reader.open()
        for process in psutil.Process(here[1].pid).children(recursive=True):
            if any(reader.kernel in word for word in process.cmdline()):
                process.kill()
        while (await reader.next())["content"].get("execution_state") not in ("restarting", "autorestarting"):
            pass  # the page is told
        other = Reader(here[0], "assembly_line")
        await other.open()
        await other.close()

    asyncio.run(visit())


@pytest.mark.all
def test_readers_who_come_together_are_counted(here: tuple[str, Any]) -> None:
    """Four ask while no page has a process yet: there is room for one."""

    async def come() -> None:
        readers = [Reader(here[0], "assembly_line") for _ in range(4)]
        told = await asyncio.gather(*(each.open() for each in readers), return_exceptions=True)
        opened = [each for each, seconds in zip(readers, told, strict=True) if isinstance(seconds, float)]
        for each in opened:
            await each.close()
        assert len(opened) == 1, told
        assert [getattr(each, "code", each) for each in told if not isinstance(each, float)] == [503] * 3

    asyncio.run(come())
    asyncio.run(come())  # whoever was refused holds no place


def test_a_panel_that_is_not_there_is_told(here: tuple[str, Any]) -> None:
    status, text = fetched(here[0], "/?panel=%3Cb%3E")
    assert status == 404 and "no such panel" in text and "<b>" not in text
    assert {f"/?panel={name}" for name in panels.RECIPES} <= set(Links(text).found)


@pytest.mark.parametrize(
    ("pages", "free", "words"),
    [
        (3, 4e9, "This app was started for 3 pages at once"),
        (2, 4e9, ""),
        (2, 1e8, "The memory of this machine is exhausted: 100 MB are left"),
    ],
)
def test_when_the_app_is_full(pages: int, free: float, words: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A process that waits for a page is none, nor is one that has ended."""
    manager = SimpleNamespace(list_kernel_ids=lambda: [*map(str, range(pages)), "waits"])
    monkeypatch.setattr(dashboard.psutil, "virtual_memory", lambda: SimpleNamespace(available=free))
    server = dashboard.Dashboard(most=3)
    server.kernel_manager, server.given = manager, {*map(str, range(pages)), "ended"}
    told = server.full()
    assert told.startswith(words) and bool(told) == bool(words)
    server.opening.add(object())  # a page to come counts as well
    assert bool(server.full()) == (bool(words) or pages + 1 >= 3) and not dashboard.Dashboard(most=3).opening


# What a page does in its process.


def test_a_page_becomes_the_panel_that_its_address_names() -> None:
    box = listing.page()
    assert listing.opened(box, {"panel": "storage"}) and box.children[0].name == "storage"
    for strange in ("<b>", None, 7, "shell", "__class__"):
        assert not listing.opened(box, {"panel": strange})
        assert "There is no panel" in box.children[0].value and "<b>" not in box.children[0].value


def test_exhausted_memory_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    panel = cb.panels.assembly_line()
    before = panel.code

    def exhausted(*_: Any) -> Any:
        raise MemoryError

    monkeypatch.setattr(panel, "_draw", exhausted)
    panel.update(**dict([next(iter(panel.values.items()))]))
    assert "not enough memory" in panel.answer and panel.answer.endswith(".") and panel.code == before
    monkeypatch.setattr(panels, "host", exhausted)
    box = listing.page()
    assert not listing.opened(box, {"panel": "host"}) and "not enough memory" in box.children[0].value


@pytest.mark.all
@pytest.mark.skipif(sys.platform != "linux", reason="the limit is one of Linux")
def test_a_process_gets_no_more_memory_than_it_may() -> None:
    code = """
        import numpy as np
        from cookbook.panels.listing import keep_within
        assert keep_within(2e9)
        np.ones(10**7)
        try:
            np.ones(10**9)
        except MemoryError:
            print("refused")
    """
    told = subprocess.run([sys.executable, "-c", textwrap.dedent(code)], capture_output=True, text=True, check=True)
    assert told.stdout.strip() == "refused"
