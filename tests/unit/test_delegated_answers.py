"""The answer of another agent in the log of the run that has delegated the work."""

from typing import Any

import pytest
from runtime_scene import ActionContext

from protolink_grpc.models import Task
from protolink_grpc.models.events import ActionEnded
from protolink_grpc.runtime.actions.delegation import MAX_ANSWER_BYTES, Actions
from protolink_grpc.runtime.actions.gate import Gate
from protolink_grpc.tools.toolbox import Toolbox


class Peer:
    """An agent that answers with a text."""

    def __init__(self, text: str) -> None:
        self._text = text

    async def run(self, target: str, task: Task, request_id: str, **_: Any) -> Task:
        return Task(task.id).complete(self._text)


@pytest.mark.parametrize(
    ("text", "has_task"),
    [
        ("x" * (MAX_ANSWER_BYTES - 2000), True),
        ("x" * MAX_ANSWER_BYTES, False),
        ("\u5b57" * (MAX_ANSWER_BYTES // 2), False),
    ],
    ids=["small", "large", "large only in bytes"],
)
async def test_the_log_has_the_task_of_an_answer_up_to_a_size_in_bytes(text: str, has_task: bool) -> None:
    scene = ActionContext()
    await Actions(Toolbox(), Gate(None), Peer(text)).send(scene, "hotel", Task("child"), position="here")
    (ended,) = [event.payload for event in scene.log if isinstance(event.payload, ActionEnded)]
    assert ended.result["output"] == text
    assert ("task" in ended.result) is has_task
