"""A real ipykernel to run cells in, and what came back from each."""

import queue
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from jupyter_client.blocking.client import BlockingKernelClient
from jupyter_client.manager import KernelManager, start_new_kernel

SECONDS = 120


@dataclass
class Outputs:
    """Everything one cell sent back, as a front end would hold it."""

    stdout: str = ""
    stderr: str = ""
    value: dict[str, Any] | None = None
    displays: list[dict[str, Any]] = field(default_factory=list)
    error: str | None = None
    traceback: str = ""
    news: list[dict[str, Any]] = field(default_factory=list)
    """Custom messages to widgets, in the order they came."""
    status: str = ""
    count: int = 0


class Kernel:
    def __init__(self, manager: KernelManager, client: BlockingKernelClient) -> None:
        self.manager = manager
        self.client = client

    def run(
        self, code: str, meanwhile: Callable[[Outputs], None] | None = None, answers: Sequence[str] = ()
    ) -> Outputs:
        """Runs a cell.

        Args:
            code: The cell.
            meanwhile: Sees the outputs after every message, while the cell still runs.
            answers: What to type at each prompt of `input` or of a debugger.
        """
        asked = self.client.execute(code)
        typing = iter(answers)
        outputs, by_id = Outputs(), {}
        deadline = time.monotonic() + SECONDS
        while time.monotonic() < deadline:
            try:
                message = self.client.get_iopub_msg(timeout=0.2)
            except queue.Empty:
                self._answer(typing)
                continue
            if message["parent_header"].get("msg_id") != asked:
                continue
            if message["msg_type"] == "status" and message["content"]["execution_state"] == "idle":
                break
            _take(message["msg_type"], message["content"], outputs, by_id)
            if meanwhile:
                meanwhile(outputs)
        reply = self._reply(asked)
        outputs.status, outputs.count = reply["status"], reply["execution_count"]
        return outputs

    def _answer(self, typing: Iterator[str]) -> None:
        if self.client.stdin_channel.msg_ready():
            self.client.get_stdin_msg(timeout=1)
            self.client.input(next(typing))

    def interrupt(self) -> None:
        self.manager.interrupt_kernel()

    def _reply(self, asked: str) -> dict[str, Any]:
        while True:
            try:
                reply = self.client.get_shell_msg(timeout=SECONDS)
            except queue.Empty:
                raise TimeoutError("the kernel did not answer") from None
            if reply["parent_header"].get("msg_id") == asked:
                return reply["content"]


@contextmanager
def running_kernel() -> Iterator[Kernel]:
    manager, client = start_new_kernel(kernel_name="python3", startup_timeout=SECONDS)
    try:
        yield Kernel(manager, client)
    finally:
        client.stop_channels()
        manager.shutdown_kernel(now=True)


def _take(kind: str, content: dict[str, Any], outputs: Outputs, by_id: dict[str, dict[str, Any]]) -> None:
    if kind == "stream":
        setattr(outputs, content["name"], getattr(outputs, content["name"]) + content["text"])
    elif kind == "execute_result":
        outputs.value = content["data"]
    elif kind == "error":
        outputs.error, outputs.traceback = f"{content['ename']}: {content['evalue']}", "\n".join(content["traceback"])
    elif kind == "display_data":
        outputs.displays.append(content["data"])
        by_id[content.get("transient", {}).get("display_id", "")] = content["data"]
    elif kind == "comm_msg" and content["data"].get("method") == "custom":
        outputs.news.append(content["data"]["content"])
    elif kind == "update_display_data":
        shown = by_id[content["transient"]["display_id"]]
        shown.clear()
        shown.update(content["data"])
