"""The input of a task that is sent: the same over the network and in one process."""

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from plgrpc.v1 import agent_service_pb2, task_input_pb2
from wire_values import FACTS, FULL_ARTIFACT, FULL_MESSAGE, NOON, full_task, tasks

from protolink_grpc.edges.grpc.convert import deltas_from_pb, submission_from_pb, waits_from_pb
from protolink_grpc.errors import InvalidArgumentError, SequenceConflictError
from protolink_grpc.models.context import RunContext
from protolink_grpc.models.lifecycle import TaskState
from protolink_grpc.models.message import Message
from protolink_grpc.models.task import Task
from protolink_grpc.models.task_metadata import DERIVED_KEYS
from protolink_grpc.models.task_target import TaskTarget
from protolink_grpc.runtime.submission import Submission
from protolink_grpc.wire.tasks import input_to_pb

CREATE = task_input_pb2.TASK_TARGET_CREATE
relaxed = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])


def sent(given: task_input_pb2.TaskInput, request_id: str = "") -> Submission:
    request = agent_service_pb2.SendTaskRequest(input=given, request_id=request_id)
    return submission_from_pb(agent_service_pb2.SendTaskRequest.FromString(request.SerializeToString()))


def what_counts(submission: Submission) -> Submission:
    """Without what is not the caller's to say, and what an edge adds."""
    context = submission.context
    if context is not None:
        own = {"principal": None, "scopes": (), "canceled": False, "cancel_reason": None}
        context = replace(context, session_id=submission.session_id or None, **own)
    metadata = {key: value for key, value in submission.metadata.items() if key not in DERIVED_KEYS}
    return replace(
        submission, context=context, metadata=metadata, state=TaskState.SUBMITTED, encoded=(), target=TaskTarget.CREATE
    )


def sendable(task: Task) -> Task:
    """The task under ids that a request may have."""
    task.id = "t"
    task.messages = [replace(message, id=f"m{index}") for index, message in enumerate(task.messages)]
    task.artifacts = [replace(artifact, id=f"a{index}") for index, artifact in enumerate(task.artifacts)]
    if "run_context" in task.metadata:
        replace(RunContext.from_task(task), run_id="r", session_id="s").attach_to_task(task)
    elif task.session_id:
        task.metadata["session_id"] = "s"
    return task


@relaxed
@given(task=tasks().map(sendable))
def test_a_task_that_is_sent_contributes_the_same_over_the_network_as_in_one_process(task: Task) -> None:
    before = task.to_dict()
    assert what_counts(sent(input_to_pb(task, CREATE))) == what_counts(Submission.of(task))
    assert task.to_dict() == before


def test_every_field_of_an_input_means_something() -> None:
    task = full_task()
    empty = {field.name for field in task_input_pb2.TaskInput.DESCRIPTOR.fields} - {
        field.name for field, _ in input_to_pb(task, CREATE, expected_sequence=3).ListFields()
    }
    assert empty == set()
    read = sent(input_to_pb(task, task_input_pb2.TASK_TARGET_CONTINUE, expected_sequence=3), "request")
    assert (read.task_id, read.target, read.expected_sequence) == ("task", TaskTarget.CONTINUE, 3)
    assert (read.messages, read.artifacts, read.session_id) == ([FULL_MESSAGE], [FULL_ARTIFACT], "session")
    assert (read.metadata, read.flow_state, read.created_at, read.request_id) == (FACTS, FACTS, NOON, "request")
    assert read.context == replace(RunContext.from_task(task), principal=None, scopes=())


def test_without_options_there_is_no_context() -> None:
    assert sent(input_to_pb(Task.create("x", session_id="s"), CREATE)).context is None


@pytest.mark.parametrize(
    ("task_id", "target", "meant"),
    [
        ("", 0, TaskTarget.CREATE),
        ("t", 0, TaskTarget.CONTINUE),
        ("", 1, TaskTarget.CREATE),
        ("t", 1, TaskTarget.CREATE),
        ("t", 2, TaskTarget.CONTINUE),
        ("", 3, TaskTarget.CREATE_OR_CONTINUE),
        ("t", 3, TaskTarget.CREATE_OR_CONTINUE),
    ],
)
def test_without_a_target_the_id_says_whether_to_create_or_to_continue(
    task_id: str, target: Any, meant: object
) -> None:
    assert sent(task_input_pb2.TaskInput(task_id=task_id, target=target)).target is meant


def test_every_target_wait_and_mode_of_the_contract_is_known() -> None:
    for number in task_input_pb2.TaskTarget.values():
        sent(task_input_pb2.TaskInput(target=number))
    assert [waits_from_pb(number) for number in agent_service_pb2.WaitFor.values()] == [True, False, True]
    assert [deltas_from_pb(number) for number in agent_service_pb2.DeltaMode.values()] == [False, False, True]


@pytest.mark.parametrize(
    ("wrong", "field"),
    [
        (Submission(target=TaskTarget.CONTINUE), "input.task_id"),
        (Submission(target=TaskTarget.CREATE, expected_sequence=1), "input.expected_sequence"),
        (Submission(task_id="t", expected_sequence=-1), "input.expected_sequence"),
    ],
)
def test_a_submission_that_contradicts_itself_names_the_field(wrong: Submission, field: str) -> None:
    with pytest.raises(InvalidArgumentError) as refused:
        wrong.check_target()
    assert refused.value.field == field


def test_a_task_that_ends_elsewhere_says_where() -> None:
    submission = Submission(task_id="t", expected_sequence=17)
    submission.check_sequence("t", 17)
    with pytest.raises(SequenceConflictError) as refused:
        submission.check_sequence("t", 19)
    assert refused.value.metadata == {"task_id": "t", "expected_sequence": "17", "last_sequence": "19"}


def test_what_a_caller_says_about_a_cancellation_is_not_recorded() -> None:
    task = Task("t", messages=[Message.user("x")])
    RunContext("run", created_at=NOON).cancel("enough").attach_to_task(task)
    submission = Submission.of(task)
    submission.set_caller("ann")
    assert submission.context == RunContext("run", created_at=NOON)
