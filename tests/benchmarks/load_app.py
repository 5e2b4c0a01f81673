"""So many readers of the app at once, who open panels and press keys: ``python tests/benchmarks/load_app.py 25``.

Starts the app, lets readers come a few seconds apart, and speaks for each what a browser speaks: the page, the channel
of its process, the panel's slider. A key press is answered when the panel's new state has arrived, so drawing in the
browser is not in the times. Prints seconds until a panel stood, of a key press, and the memory of the processes.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import re
import socket
import subprocess
import sys
import tempfile
import time
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import psutil
from jupyter_server.services.kernels.connection.base import deserialize_binary_message
from tornado.httpclient import AsyncHTTPClient
from tornado.websocket import WebSocketClientConnection, websocket_connect

from cookbook.publish.app import questions

ROOT = Path(__file__).resolve().parents[2]
PATIENCE = 300.0


def free_port() -> int:
    """A port that nobody listens on."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


@contextmanager
def running(*options: str) -> Iterator[tuple[str, subprocess.Popen[str]]]:
    """The app on a port of its own: where it answers, and its process; it is stopped with all its pages."""
    port = free_port()
    command = [sys.executable, "-u", "-m", "cookbook", "app", "--port", str(port), *options]
    with tempfile.TemporaryFile("w+") as log:
        server = subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, stderr=log, text=True)
        try:
            while not answers(port):
                if server.poll() is not None:
                    log.seek(0)
                    raise RuntimeError(f"the app did not start:\n{log.read()[-3000:]}")
                time.sleep(0.1)
            yield f"127.0.0.1:{port}", server
        finally:
            server.terminate()
            server.communicate(timeout=PATIENCE)


def answers(port: int) -> bool:
    """Whether somebody listens on a port of this machine."""
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


class Reader:
    """One reader: a page, the channel of its process, and the comm of its panel."""

    def __init__(self, host: str, panel: str) -> None:
        self.host, self.panel, self.comm, self.session = host, panel, "", uuid.uuid4().hex
        self.shape: dict[str, Any] = {}
        self.shown: dict[str, Any] = {}
        self.kernel = self.ticket = ""
        self.channel: WebSocketClientConnection

    async def open(self) -> float:
        """Seconds from asking for the page until its panel has told its first answer."""
        begun = time.perf_counter()
        answer = await AsyncHTTPClient().fetch(f"http://{self.host}/?panel={self.panel}", request_timeout=PATIENCE)
        cookies = " ".join(answer.headers.get_list("Set-Cookie"))
        self.ticket = re.search(r"_xsrf=([^;]+)", cookies)[1]  # type: ignore[index]
        self.kernel = re.search(r'"kernelId": "([^"]+)"', answer.body.decode())[1]  # type: ignore[index]
        self.channel = await websocket_connect(
            f"ws://{self.host}/api/kernels/{self.kernel}/channels", max_message_size=1 << 28
        )
        self.send("comm_info_request", {"target_name": "jupyter.widget"})
        while not self.shown:
            message = await self.next()
            if message["msg_type"] == "comm_info_reply":
                for comm in message["content"]["comms"]:  # the door is among them; the others do not listen
                    self.send("comm_msg", {"comm_id": comm, "data": self.custom({"panel": self.panel})})
            elif message["msg_type"] == "comm_open" and "shape" in message["content"]["data"]["state"]:
                self.comm, self.shape = message["content"]["comm_id"], message["content"]["data"]["state"]["shape"]
            elif message["msg_type"] == "comm_msg" and message["content"]["comm_id"] == self.comm:
                self.shown = message["content"]["data"].get("state", {}).get("shown", {})
        return time.perf_counter() - begun

    async def press(self, times: int) -> float:
        """Seconds from a key press until the panel has told the state that follows."""
        name, values = self.control()
        begun = time.perf_counter()
        self.send(
            "comm_msg",
            {
                "comm_id": self.comm,
                "data": self.custom({"do": "set", "seq": times, "values": {name: values[times % 2]}}),
            },
        )
        while True:
            message = await self.next()
            state = message["content"].get("data", {}).get("state", {})
            if message["msg_type"] == "comm_msg" and state.get("shown", {}).get("seq") == times:
                return time.perf_counter() - begun

    async def close(self) -> None:
        """Close the page: its process ends."""
        address = f"http://{self.host}/voila/api/shutdown/{self.kernel}"
        headers = {"Cookie": f"_xsrf={self.ticket}", "X-XSRFToken": self.ticket}
        await AsyncHTTPClient().fetch(address, method="POST", body="", headers=headers, request_timeout=PATIENCE)

    def control(self) -> tuple[str, list[Any]]:
        """A control that can be used, sliders first, and two values of it."""
        usable = [each for each in self.shape["controls"] if each["name"] not in self.shown["off"]]
        sliders = [(each["name"], [stop for stop, _ in each["stops"]]) for each in usable if each["kind"] == "slider"]
        choices = [
            (each["name"], [option[0] for option in each["options"]]) for each in usable if each["kind"] == "choice"
        ]
        return next((name, values[:2]) for name, values in [*sliders, *choices] if len(values) > 1)

    @staticmethod
    def custom(content: dict[str, Any]) -> dict[str, Any]:
        return {"method": "custom", "content": content}

    def send(self, kind: str, content: dict[str, Any]) -> None:
        header = {"msg_id": uuid.uuid4().hex, "username": "", "session": self.session, "msg_type": kind}
        message = {"channel": "shell", "header": header | {"version": "5.3"}, "parent_header": {}, "metadata": {}}
        self.channel.write_message(json.dumps(message | {"content": content, "buffers": []}))

    async def next(self) -> dict[str, Any]:
        text = await asyncio.wait_for(self.channel.read_message(), PATIENCE)
        assert text is not None, f"the channel of {self.panel} closed"
        message = json.loads(text) if isinstance(text, str) else deserialize_binary_message(text)
        message.setdefault("msg_type", message["header"]["msg_type"])
        return dict(message)


async def read(reader: Reader, start: float, presses: int, pause: float) -> tuple[float, list[float]]:
    """One reader: comes, opens, presses at a steady pace."""
    await asyncio.sleep(start)
    opened, rng = await reader.open(), np.random.default_rng(len(reader.panel))
    times = []
    for each in range(1, presses + 1):
        await asyncio.sleep(float(pause * rng.uniform(0.5, 1.5)))
        times.append(await reader.press(each))
    return opened, times


def memory(server: int) -> dict[str, Any]:
    """Proportional and resident memory [MB] of the server and of each process of a page."""

    def of(process: psutil.Process) -> tuple[float, float]:
        full = process.memory_full_info()
        return full.pss / 1e6, full.rss / 1e6

    parent = psutil.Process(server)
    pages = [of(child) for child in parent.children(recursive=True) if "ipykernel_launcher" in child.cmdline()]
    pss, rss = (np.array(each) for each in zip(*pages, strict=True))
    return {
        "processes": len(pages),
        "page_pss_median_mb": float(np.median(pss)),
        "page_pss_most_mb": float(pss.max()),
        "page_rss_most_mb": float(rss.max()),
        "pages_pss_mb": float(pss.sum()),
        "server_pss_mb": of(parent)[0],
    }


async def measured(readers: int, presses: int, apart: float, pause: float, server: int, host: str) -> dict[str, Any]:
    """What so many readers meet."""
    names = [each.name for each in questions()]
    everybody = [Reader(host, names[at % len(names)]) for at in range(readers)]
    found = await asyncio.gather(*(read(each, apart * at, presses, pause) for at, each in enumerate(everybody)))
    opened, times = np.array([each for each, _ in found]), np.array([each for _, some in found for each in some])
    used = memory(server)
    return {
        "readers": readers,
        "open_p50_s": float(np.median(opened)),
        "open_most_s": float(opened.max()),
        "presses": times.size,
        "press_p50_ms": 1e3 * float(np.median(times)),
        "press_p95_ms": 1e3 * float(np.quantile(times, 0.95)),
        "press_most_ms": 1e3 * float(times.max()),
        **used,
    }


def main() -> None:
    """Start the app, measure, stop it."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("readers", type=int)
    parser.add_argument("--presses", type=int, default=20)
    parser.add_argument("--apart", type=float, default=1.0, help="seconds between readers who come")
    parser.add_argument("--pause", type=float, default=2.0, help="seconds between two presses of a reader, on average")
    parser.add_argument("--spare", type=int, default=2, help="processes ready before the first reader comes")
    options = parser.parse_args()
    with running("--most", str(options.readers), "--spare", str(options.spare)) as (host, server):
        time.sleep(4 + 2 * options.spare)  # they get ready, as they would before a course begins
        told = asyncio.run(measured(options.readers, options.presses, options.apart, options.pause, server.pid, host))
        print(json.dumps({name: round(value, 1) for name, value in told.items()}, indent=1))


if __name__ == "__main__":
    main()
