"""Tasks, cards and errors in ProtoLink's JSON, in the form that its older clients require. The models' `to_dict` does the rest."""

from collections.abc import Callable
from typing import Any

from protolink_grpc.errors import ProtolinkError
from protolink_grpc.models.card import AgentCard, AgentInterface
from protolink_grpc.models.fold import TaskFold
from protolink_grpc.models.lifecycle import TaskState
from protolink_grpc.models.task_metadata import HISTORY_KEY

Fields = dict[str, Any]

PublicUrl = Callable[[], str]
"""Returns the public `http(s)://` URL of the HTTP port, which is known after its start."""

STATES = {TaskState.REJECTED: TaskState.FAILED, TaskState.AUTH_REQUIRED: TaskState.INPUT_REQUIRED}
"""States that ProtoLink 0.8.3 does not have, and the most similar ones: its clients raise for unknown names."""


def on_one_line(raw: bytes) -> bytes:
    """Escape the characters at which readers of text streams break lines.

    JSON escapes those below U+0020 itself. Python's `splitlines`, which the 0.8.3 client uses, breaks at three more.
    """
    if b"\xc2\x85" in raw or b"\xe2\x80\xa8" in raw or b"\xe2\x80\xa9" in raw:
        raw = raw.replace(b"\xc2\x85", b"\\u0085").replace(b"\xe2\x80\xa8", b"\\u2028")
        raw = raw.replace(b"\xe2\x80\xa9", b"\\u2029")
    return raw


def state_json(state: TaskState) -> str:
    return STATES.get(state, state).value


def task_json(fold: TaskFold) -> Fields:
    """Return the whole task. A rejected task is sent as failed, with the reason of a failure."""
    task = fold.to_task()
    # `to_dict` copies, so the lazy copies of `to_task` would be redundant.
    task.messages, task.artifacts = fold.messages, fold.artifacts
    found = task.to_dict()
    metadata = found["metadata"]
    if task.state in STATES:
        found["state"] = state_json(task.state)
        if task.state is TaskState.REJECTED:
            metadata.setdefault("error", fold.reason or "rejected")
    for change in metadata.get(HISTORY_KEY, ()):
        for key in ("previous_state", "new_state"):
            change[key] = state_json(TaskState(change[key]))
    return found


def card_json(card: AgentCard, public_url: str, *, socket: bool = False) -> Fields:
    """Return the card for ProtoLink's clients. Its URL is that of the HTTP port; the agent's own address is another interface.

    Args:
        socket: The client uses WebSocket, so the URL has the scheme `ws(s)://`.
    """
    found = card.to_dict()
    urls = {"sse": public_url, "websocket": f"ws{public_url.removeprefix('http')}"}
    transport = "websocket" if socket else "sse"
    others = [AgentInterface(url, name, card.protocol_version) for name, url in urls.items() if name != transport]
    if card.transport != "runtime":  # `runtime://` is valid within the process only
        others.append(AgentInterface(card.url, card.transport, card.protocol_version))
    found["url"], found["transport"] = urls[transport], transport
    unique: dict[str, AgentInterface] = {}
    for each in (*others, *card.interfaces):
        unique.setdefault(each.url, each)
    unique.pop(found["url"], None)
    found["additionalInterfaces"] = [each.to_dict() for each in unique.values()]
    return found


def error_json(error: ProtolinkError) -> Fields:
    """Return the error of a response; `type` is ProtoLink's class name."""
    return {"message": str(error), "type": type(error).__name__, "reason": error.reason}
