"""Questions to agents: the task of a question, and its answer as text or as an instance of a type."""

from dataclasses import replace
from typing import Any

from typing_extensions import TypeVar

from protolink_grpc.errors import TaskExecutionError
from protolink_grpc.models.artifact import Artifact
from protolink_grpc.models.context import RunBudget, RunContext
from protolink_grpc.models.json_schema import OutputType
from protolink_grpc.models.json_value import to_json
from protolink_grpc.models.lifecycle import INTERRUPTED
from protolink_grpc.models.media import FILE_TYPES
from protolink_grpc.models.message import Message
from protolink_grpc.models.part import Part
from protolink_grpc.models.task import Task, find_output

Answer = TypeVar("Answer", default=str)
"""The type of an answer. Without an `output_type`, the answer is text."""


def question_task(
    question: Message | str,
    output_type: Any,
    *,
    session_id: str | None = None,
    budget: RunBudget | None = None,
    context: RunContext | None = None,
) -> Task:
    """Return the task of a question. With a type, an infer part with the schema of the answer precedes the text.

    Raises:
        InvalidArgumentError: No JSON Schema can describe `output_type`.
    """
    message = Message.user(question) if isinstance(question, str) else question
    if output_type is not str:
        # The text stays for handlers that read texts.
        message = replace(message, parts=[Part.infer(prompt=message.text, output_type=output_type), *message.parts])
    return Task.create(message, session_id=session_id, budget=budget, context=context)


def read_answer(task: Task, output_type: Any) -> Any:
    """Return the answer in a task: the text for `str`, otherwise an instance of the type.

    Raises:
        TaskExecutionError: The task ended without success or without an answer, or it waits for input; carries the task.
        InvalidAgentResponseError: The answer is not valid; names the field.
    """
    if task.state in INTERRUPTED:
        raise _waiting_error(task)
    found = _newest_output(task.raise_for_status())
    if found is None:
        has_files = any(part.type in FILE_TYPES for artifact in task.artifacts for part in artifact.parts)
        only = " in text: its answer has only files, which are artifacts of the error's task" if has_files else ""
        raise TaskExecutionError(f"task {task.id} ended without an answer{only}", task=task, task_id=task.id)
    item, part = found
    if part.type == "tool_output":
        content = part.as_tool_output().result
    elif isinstance(part.content, str):
        texts = (each.content for each in item.parts if each.type == part.type)
        content = "\n".join(text for text in texts if isinstance(text, str))
    else:
        content = part.content
    if output_type is str:
        return content if isinstance(content, str) else to_json(content)
    return OutputType[Any](output_type).convert(content, task_id=task.id)


def _newest_output(task: Task) -> tuple[Message | Artifact, Part] | None:
    """Return the newest output after the last message of the caller, and its item."""
    messages, after = task.messages, 0
    for index in range(len(messages)):
        if messages[index].role == "user":
            after = index + 1
    first = isinstance(task.get_last_item(), Artifact)
    return find_output(messages, task.artifacts, artifacts_first=first, since=(after, 0))


def _waiting_error(task: Task) -> TaskExecutionError:
    texts = [message.text for message in task.messages if message.role in ("agent", "assistant")]
    question = f": {texts[-1]}" if texts and texts[-1] else ""
    wanted = "credentials" if task.state == "auth-required" else "input"
    sentence = f"task {task.id} waits for {wanted}{question}"
    return TaskExecutionError(sentence, task=task, task_id=task.id, state=str(task.state))
