"""Tasks, cards and errors in ProtoLink's JSON, as strictly as its older clients read it. The models' `to_dict` does the rest."""

from collections.abc import Callable
from typing import Any

from protolink_grpc.errors import ProtolinkError
from protolink_grpc.models.card import AgentCard, AgentInterface
from protolink_grpc.models.fold import TaskFold
from protolink_grpc.models.lifecycle import TaskState

Fields = dict[str, Any]

PublicUrl = Callable[[], str]
"""Where the gateway can be reached, an `http(s)://` URL, once it is known."""

STATES = {TaskState.REJECTED: TaskState.FAILED, TaskState.AUTH_REQUIRED: TaskState.INPUT_REQUIRED}
"""States that ProtoLink 0.8.3 does not know, and what comes nearest: its readers raise on any other name."""


def on_one_line(raw: bytes) -> bytes:
    """The same JSON without the characters at which readers of text streams break lines.

    JSON escapes those below U+0020 itself; three more are line breaks to Python's `splitlines`, by which the 0.8.3 client reads.
    """
    if b"\xc2\x85" in raw or b"\xe2\x80\xa8" in raw or b"\xe2\x80\xa9" in raw:
        raw = raw.replace(b"\xc2\x85", b"\\u0085").replace(b"\xe2\x80\xa8", b"\\u2028")
        raw = raw.replace(b"\xe2\x80\xa9", b"\\u2029")
    return raw


def state_json(state: TaskState) -> str:
    return STATES.get(state, state).value


def task_json(fold: TaskFold) -> Fields:
    """The whole task. A rejected one reads as failed, with the reason where failures have theirs."""
    task = fold.to_task()
    # `to_dict` copies, so the lazy copies of `to_task` would be copies for nothing.
    task.messages, task.artifacts = fold.messages, fold.artifacts
    found = task.to_dict()
    metadata = found["metadata"]
    if task.state in STATES:
        found["state"] = state_json(task.state)
        if task.state is TaskState.REJECTED:
            metadata.setdefault("error", fold.reason or "rejected")
    for change in metadata["state_history"]:
        for key in ("previous_state", "new_state"):
            change[key] = state_json(TaskState(change[key]))
    return found


def card_json(card: AgentCard, public_url: str, *, socket: bool = False) -> Fields:
    """The card as seen through the gateway: its URL speaks ProtoLink, and the agent's own address is a further interface.

    Args:
        socket: The reader speaks WebSocket, so that is the URL it gets.
    """
    found = card.to_dict()
    urls = {"sse": public_url, "websocket": f"ws{public_url.removeprefix('http')}"}
    transport = "websocket" if socket else "sse"
    others = [AgentInterface(url, name, card.protocol_version) for name, url in urls.items() if name != transport]
    if card.transport != "runtime":  # that one ends with the process
        others.append(AgentInterface(card.url, card.transport, card.protocol_version))
    found["url"], found["transport"] = urls[transport], transport
    unique: dict[str, AgentInterface] = {}
    for each in (*others, *card.interfaces):
        unique.setdefault(each.url, each)
    unique.pop(found["url"], None)
    found["additionalInterfaces"] = [each.to_dict() for each in unique.values()]
    return found


def error_json(error: ProtolinkError) -> Fields:
    """What an envelope has in the place of a result; `type` is what ProtoLink calls the class."""
    return {"message": str(error), "type": type(error).__name__, "reason": error.reason}
