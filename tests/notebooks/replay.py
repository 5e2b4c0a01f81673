"""A pytest plugin that lets nbval compare what papermill has executed, so that no notebook runs twice.

nbval speaks to a kernel; this one answers with the outputs of the notebook that COOKBOOK_EXECUTED names. Everything
else is nbval's own: which cells and outputs it compares, how it sanitises them, what it calls a difference.
"""

import itertools
import os
import queue
from typing import Any

import nbformat
import nbval.plugin


class Replay:
    """A kernel that has already run: each cell is answered with the messages that its outputs were made of."""

    def __init__(self, *_: Any, **__: Any) -> None:
        done = nbformat.read(os.environ["COOKBOOK_EXECUTED"], as_version=4)
        self._cells = iter([cell for cell in done.cells if cell.cell_type == "code"])
        self._messages: queue.SimpleQueue = queue.SimpleQueue()
        self._numbers = itertools.count(1)

    def execute_cell_input(self, source: str, allow_stdin: bool | None = None) -> str:
        """Look the cell up; cells that nbval skips are passed over, one that never ran is an error."""
        cell = next((cell for cell in self._cells if cell.source == source), None)
        if cell is None or cell.execution_count is None:
            raise RuntimeError(f"papermill never ran this cell:\n{source}")
        request = str(next(self._numbers))
        for output in cell.outputs:
            content = {key: value for key, value in output.items() if key != "output_type"}
            self._put(request, output.output_type, content)
        self._put(request, "status", {"execution_state": "idle"})
        return request

    def await_reply(self, request: str, timeout: float | None = None) -> None:
        """The reply is there."""

    def await_idle(self, request: str, timeout: float | None = None) -> None:
        """Drop what is left of the cell."""
        while self.get_message()["msg_type"] != "status":
            pass

    def get_message(self, stream: str = "iopub", timeout: float | None = None) -> dict[str, Any]:
        return self._messages.get_nowait()

    def is_alive(self) -> bool:
        return True

    def interrupt(self) -> None:
        """Nothing runs."""

    stop = interrupt

    def _put(self, request: str, kind: str, content: dict[str, Any]) -> None:
        self._messages.put({"msg_type": kind, "content": content, "parent_header": {"msg_id": request}})


def pytest_configure(config: Any) -> None:
    """nbval starts this kernel in place of one of its own."""
    nbval.plugin.RunningKernel = Replay
