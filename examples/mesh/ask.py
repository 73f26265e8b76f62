"""Asks the user at the terminal to approve an action, and sends the answer to the agent."""

import asyncio
import os
import shlex
import sys
from collections.abc import Callable

from rich.console import Console

from examples.mesh.launch import plgrpc
from examples.mesh.show import diff_text, plain, table
from protolink_grpc import AgentClient, Approval, ApprovalRequest

YES, NO = frozenset({"y", "yes"}), frozenset({"n", "no"})


class Approver:
    """Answers the approvals of one agent.

    Args:
        approve_all: Approve everything without asking, for scripts.
        question: The question to the user.
        effect: What an approval allows, with its article.
    """

    def __init__(self, client: AgentClient, console: Console, *, approve_all: bool, question: str, effect: str) -> None:
        self._client = client
        self._console = console
        self._approve_all = approve_all
        self._question = question
        self._effect = effect

    async def answer(self, request: ApprovalRequest) -> None:
        """Show the action, ask the user, and send the answer. Canceling this only withdraws the question at this terminal."""
        approval = await self._pending(request)
        if approval is not None:  # otherwise it was answered in another terminal
            await self.answer_approval(approval)

    async def answer_approval(self, approval: Approval) -> None:
        """As `answer`, for a pending approval."""
        self._show(approval)
        approved, reason = await self._ask_user(approval.request)
        await self._client.respond_approval(None, approval, approved, reason=reason)

    async def _pending(self, request: ApprovalRequest) -> Approval | None:
        """Fetch the pending approval with its etag."""
        waiting = (await self._client.list_approvals(task_id=request.task_id)).approvals
        return next((each for each in waiting if each.request.request_id == request.request_id), None)

    def _show(self, approval: Approval) -> None:
        action = approval.request.action
        self._console.print()
        for artifact in action.artifacts:
            for part in artifact.parts:
                if isinstance(part.content, dict):
                    self._console.print(table(f"Preview: {artifact.name}", part.content))
                elif isinstance(part.content, str):
                    self._console.print(f"Preview: {plain(artifact.name or action.name)}", soft_wrap=True)
                    self._console.print(diff_text(part.content), soft_wrap=True)
        if not action.artifacts:
            self._console.print(table(f"Preview: {action.name}", action.payload))

    async def _ask_user(self, request: ApprovalRequest) -> tuple[bool, str]:
        """Return the decision and its reason."""
        if self._approve_all:
            self._console.print("Approved by --yes.\n")
            return True, "--yes"
        if not sys.stdin.isatty():
            self._console.print(
                f"Not approved: the input is not a terminal. --yes approves {self._effect}.\n", soft_wrap=True
            )
            return False, "the input is not a terminal"
        other = shlex.join([plgrpc(), "approvals", "approve", self._client.url or "", request.request_id])
        self._console.print(f"In a second terminal: {other}", soft_wrap=True)
        while True:
            self._console.print(f"{self._question} [y/n] ", end="")
            self._console.file.flush()
            try:
                line = await _read_line()
            except asyncio.CancelledError:
                self._console.print()
                raise
            answer = line.strip().casefold()
            if answer in YES or answer in NO or not line:
                self._console.print()
                return answer in YES, "" if answer in YES else "the user declined"


async def _read_line() -> str:
    """Read the next line of the terminal; empty at its end. Unlike `input`, this can be canceled without leaving a thread."""
    loop = asyncio.get_running_loop()
    ready = loop.create_future()
    stdin = sys.stdin.fileno()
    # A terminal becomes readable when a complete line is available.
    loop.add_reader(stdin, _resolve_once(ready))
    try:
        await ready
    finally:
        loop.remove_reader(stdin)
    return os.read(stdin, 4096).decode(errors="replace")


def _resolve_once(ready: "asyncio.Future[None]") -> Callable[[], None]:
    def callback() -> None:
        if not ready.done():
            ready.set_result(None)

    return callback
