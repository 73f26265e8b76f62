"""The part of a task that fits into one response."""

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from plgrpc.v1 import task_pb2 as pb

from protolink_grpc.models.artifact import Artifact
from protolink_grpc.models.fold import TaskFold
from protolink_grpc.models.lifecycle import TaskState
from protolink_grpc.models.message import Message
from protolink_grpc.models.part import Part
from protolink_grpc.wire.answer_bounds import BODY_BYTES, HEADER_BYTES, MAX_CHANGES, Window
from protolink_grpc.wire.tasks import fold_to_pb

ANSWER_BYTES = 4 << 20
"""What gRPC receives by default."""

FULL, TURN, HEADER = pb.TASK_VIEW_FULL, pb.TASK_VIEW_TURN, pb.TASK_VIEW_HEADER


def fold_with(messages: list[int], artifacts: list[int]) -> TaskFold:
    """A task with messages and artifacts of these sizes."""
    fold = TaskFold("t")
    fold.state, fold.sequence = TaskState.WORKING, 1
    for number, size in enumerate(messages):
        fold.messages.append(Message(role="agent", parts=[Part.text("m" * size)], id=f"m{number}"))
        fold.encoded.append(None)
    for number, size in enumerate(artifacts):
        fold.artifacts.append(Artifact(parts=[Part.text("a" * size)], id=f"a{number}"))
    return fold


def pages_of(fold: TaskFold) -> list[pb.Task]:
    """All answers that show the whole task, as a client asks for them."""
    pages = [fold_to_pb(fold, FULL)]
    while pages[-1].first_message or pages[-1].first_artifact:
        last = pages[-1]
        pages.append(fold_to_pb(fold, FULL, Window(0, last.first_message, last.first_artifact)))
        assert len(pages[-1].messages) + len(pages[-1].artifacts) > 0
    return pages


def ids(pages: list[pb.Task], kind: str) -> list[str]:
    return [item.id for page in reversed(pages) for item in getattr(page, kind)]


SIZES = st.lists(st.sampled_from([0, 10, 1 << 10, 700 << 10, 2 << 20, 5 << 20]), max_size=5)


@settings(deadline=None)
@given(SIZES, SIZES)
def test_every_answer_fits_and_together_they_show_all_once(messages: list[int], artifacts: list[int]) -> None:
    pages = pages_of(fold_with(messages, artifacts))
    assert all(page.ByteSize() < ANSWER_BYTES for page in pages)
    assert ids(pages, "messages") == [f"m{number}" for number in range(len(messages))]
    assert ids(pages, "artifacts") == [f"a{number}" for number in range(len(artifacts))]
    if messages:
        assert pages[0].messages[-1].id == f"m{len(messages) - 1}"
    too_large = [f"messages[{at}].parts" for at, size in enumerate(messages) if size > BODY_BYTES]
    too_large += [f"artifacts[{at}].parts" for at, size in enumerate(artifacts) if size > BODY_BYTES]
    assert sorted(path for page in pages for path in page.omitted) == sorted(too_large)


def test_a_small_task_is_shown_whole_and_says_nothing_of_bounds() -> None:
    task = fold_to_pb(fold_with([10] * 3, [10] * 2), FULL)
    assert (len(task.messages), len(task.artifacts)) == (3, 2)
    assert (task.first_message, task.first_artifact, list(task.omitted)) == (0, 0, [])


def test_the_newest_of_both_kinds_are_kept() -> None:
    task = fold_to_pb(fold_with([1 << 18] * 40, [1 << 18] * 40), FULL)
    assert (task.message_count, task.artifact_count) == (40, 40)
    assert (len(task.messages), len(task.artifacts)) == (5, 6)
    assert (task.first_message, task.first_artifact) == (35, 34)


@pytest.mark.parametrize(
    ("window", "shown", "first"),
    [
        (Window(max_messages=2), ["m3", "m4"], 3),
        (Window(max_messages=9), ["m0", "m1", "m2", "m3", "m4"], 0),
        (Window(before_message=2), ["m0", "m1"], 0),
        (Window(max_messages=1, before_message=2), ["m1"], 1),
        (Window(before_message=0), [], 0),
        (Window(before_message=99), ["m0", "m1", "m2", "m3", "m4"], 0),
    ],
)
def test_a_window_shows_the_latest_messages_before_an_index(window: Window, shown: list[str], first: int) -> None:
    task = fold_to_pb(fold_with([1] * 5, [1]), FULL, window)
    assert ([message.id for message in task.messages], task.first_message) == (shown, first)
    assert [artifact.id for artifact in task.artifacts] == ["a0"]


def test_a_view_of_the_turn_says_where_it_begins() -> None:
    fold = fold_with([1] * 5, [1] * 3)
    fold.turn_message, fold.turn_artifact = 3, 2
    task = fold_to_pb(fold, TURN)
    assert (task.first_message, task.first_artifact) == (3, 2)
    assert ([each.id for each in task.messages], [each.id for each in task.artifacts]) == (["m3", "m4"], ["a2"])


def test_what_does_not_fit_says_how_large_it_is() -> None:
    (shown,) = fold_to_pb(fold_with([5 << 20], []), FULL).messages
    assert (shown.id, len(shown.parts), shown.parts[0].WhichOneof("content")) == ("m0", 1, None)
    assert "5,242" in shown.parts[0].fallback_text


@pytest.mark.parametrize("view", [HEADER, TURN, FULL])
def test_metadata_that_does_not_fit_is_left_out_and_named(view: Any) -> None:
    fold = fold_with([1], [])
    fold.metadata, fold.flow_state = {"large": "x" * (10 << 20)}, {"small": 1}
    task = fold_to_pb(fold, view)
    assert (list(task.omitted), task.metadata_json, task.flow_state_json) == (["metadata_json"], "", '{"small":1}')
    assert task.ByteSize() < HEADER_BYTES


def test_of_many_state_changes_the_latest_are_shown() -> None:
    fold = fold_with([1], [])
    fold.history = [(TaskState.WORKING, TaskState.WORKING, number) for number in range(MAX_CHANGES + 5)]
    task = fold_to_pb(fold, FULL)
    assert (len(task.state_history), list(task.omitted)) == (MAX_CHANGES, ["state_history"])
