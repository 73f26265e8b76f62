"""A task of another system as a log: after interruptions and repetitions, each event appears once, and the end is right."""

from dataclasses import dataclass, field, replace

from hypothesis import given
from hypothesis import strategies as st

from protolink_grpc.a2a.client.remote_log import Reading, view_of_task
from protolink_grpc.a2a.values import ArtifactUpdate, MessageReply, Status, StatusUpdate, TaskView, Update
from protolink_grpc.models.artifact import Artifact
from protolink_grpc.models.events import RunEvent, TaskMessagesAdded, TaskPatched, TaskStatusChanged, TaskSubmitted
from protolink_grpc.models.fold import TaskFold
from protolink_grpc.models.lifecycle import TERMINAL, TRANSITIONS, TaskState
from protolink_grpc.models.message import Message
from protolink_grpc.models.part import Part
from protolink_grpc.models.task import Task

LINK = {"task_id": "theirs", "url": "http://there"}


@dataclass
class There:
    """The task as the other system has it, and the updates that it tells."""

    state: TaskState = TaskState.SUBMITTED
    history: list[Message] = field(default_factory=list)
    artifacts: dict[str, list[Part]] = field(default_factory=dict)

    def view(self) -> TaskView:
        made = [Artifact(key, list(parts)) for key, parts in self.artifacts.items()]
        return TaskView("theirs", "context", Status(self.state, 1), list(self.history), made)

    def says(self, number: int) -> Update:
        message = Message(f"m{number}", "agent", [Part("text", str(number))])
        self.history.append(message)
        self.state = TaskState.WORKING
        return StatusUpdate("theirs", "context", Status(self.state, 1, message))

    def makes(self, number: int, key: str) -> Update:
        append, part = key in self.artifacts, Part("text", str(number))
        self.artifacts.setdefault(key, []).append(part)
        return ArtifactUpdate("theirs", "context", Artifact(key, [part]), append)

    def rewrites(self, number: int, key: str) -> Update:
        self.artifacts[key] = [Part("text", f"anew {number}")]
        return ArtifactUpdate("theirs", "context", Artifact(key, list(self.artifacts[key])))

    def ends(self, state: TaskState) -> Update:
        self.state = state
        return StatusUpdate("theirs", "context", Status(state, 1), final=True)


steps = st.lists(st.tuples(st.sampled_from(["says", "makes", "rewrites", "cut"]), st.sampled_from("ab")), max_size=20)


def _played(there: There, plan: list[tuple[str, str]], end: TaskState, reading: Reading) -> list[RunEvent]:
    events = list(reading.begin(Task(id="ours", messages=[Message("m", "user", [Part("text", "go")])]), LINK))
    connected = True
    for number, (step, key) in enumerate(plan):
        if step == "cut":
            if not connected:
                events += reading.read(there.view(), LINK)
            connected = not connected
            continue
        update = there.says(number) if step == "says" else getattr(there, step)(number, key)
        if connected:
            events += reading.read(update, LINK)
    update = there.ends(end)
    events += reading.read(update if connected else there.view(), LINK)
    return events


@given(steps, st.sampled_from(sorted(TERMINAL)))
def test_through_any_cuts_the_log_adds_up_to_the_task(plan: list[tuple[str, str]], end: TaskState) -> None:
    there, reading = There(), Reading("ours", "agent")
    events = _played(there, plan, end, reading)
    assert [event.sequence for event in events] == list(range(1, len(events) + 1))
    fold = TaskFold("ours")
    for event in events:
        assert not isinstance(event.payload, dict)
        fold.apply(event.payload, event.sequence or 0, 1, event.run_id)
    assert fold.state is end
    assert [message.id for message in fold.messages] == ["m", *(message.id for message in there.history)]
    assert {each.id: each.parts for each in fold.artifacts} == there.artifacts
    assert [event.final for event in events] == [False] * (len(events) - 1) + [True]


@given(steps, st.sampled_from(sorted(TERMINAL)))
def test_every_change_of_state_is_one_of_the_lifecycle(plan: list[tuple[str, str]], end: TaskState) -> None:
    state = TaskState.SUBMITTED
    for event in _played(There(), plan, end, Reading("ours", "agent")):
        if isinstance(event.payload, TaskStatusChanged):
            assert event.payload.previous_state is state
            assert event.payload.new_state in TRANSITIONS[state]
            state = event.payload.new_state


@given(steps)
def test_a_snapshot_shown_twice_says_nothing_the_second_time(plan: list[tuple[str, str]]) -> None:
    there, reading = There(), Reading("ours", "agent")
    _played(there, plan, TaskState.COMPLETED, reading)
    assert list(reading.read(there.view(), LINK)) == []


def test_somebody_elses_task_begins_with_what_was_asked() -> None:
    asked, said = Message("m1", "user", [Part("text", "go")]), Message("m2", "agent", [Part("text", "gone")])
    view = TaskView("theirs", "context", Status(TaskState.COMPLETED, 1), [asked, said])
    reading = Reading("ours", "agent", 7)
    events = list(reading.read(view, LINK))
    assert [type(event.payload) for event in events] == [
        TaskSubmitted,
        TaskMessagesAdded,
        TaskStatusChanged,
        TaskStatusChanged,
    ]
    assert [event.sequence for event in events] == [8, 9, 10, 11]
    assert reading.fold.to_task().metadata["a2a"] == LINK


def test_a_snapshot_from_before_the_turn_does_not_end_it() -> None:
    reading = Reading("ours", "agent")
    waits = TaskView("theirs", "context", Status(TaskState.INPUT_REQUIRED, 1))
    list(reading.read(waits, LINK))
    more = Task(id="ours", messages=[Message("m2", "user", [Part("text", "Rome")])])
    assert [event.state for event in reading.begin(more, LINK)] == [None, TaskState.WORKING]
    assert list(reading.read(waits, LINK, stale=True)) == []
    assert [event.state for event in reading.read(waits, LINK)] == [TaskState.INPUT_REQUIRED]


def test_messages_that_were_shown_are_not_sent_again() -> None:
    reading, message = Reading("ours", "agent"), Message("m", "user", [Part("text", "go")])
    list(reading.begin(Task(id="ours", messages=[message]), LINK))
    assert list(reading.begin(Task(id="ours", messages=[message]), LINK)) == []


def test_a_message_alone_completes_the_task() -> None:
    reading = Reading("ours", "agent")
    list(reading.begin(Task(id="ours", messages=[Message("m", "user", [Part("text", "go")])]), {}))
    events = list(reading.read(MessageReply(Message("r", "agent", [Part("text", "done")]), "context"), {}))
    assert [event.state for event in events] == [None, TaskState.WORKING, TaskState.COMPLETED]
    assert reading.fold.to_task().get_output() == "done"


def test_metadata_of_the_task_there_is_kept_but_not_what_is_derived_here() -> None:
    reading = Reading("ours", "agent")
    view = TaskView("theirs", "c", Status(TaskState.WORKING, 1), metadata={"color": "red", "error": "?", "a2a": 1})
    patches = [event.payload for event in reading.read(view, LINK) if isinstance(event.payload, TaskPatched)]
    assert patches == [TaskPatched({"color": "red"})]


def test_a_reading_in_use_is_not_shared() -> None:
    reading = Reading("ours", "agent")
    list(reading.read(TaskView("theirs", "c", Status(TaskState.WORKING, 1)), LINK))
    assert reading.for_new_reader() is reading
    reading.busy = True
    twin = reading.for_new_reader()
    list(twin.read(TaskView("theirs", "c", Status(TaskState.COMPLETED, 1)), LINK))
    assert (reading.fold.state, twin.fold.state) == (TaskState.WORKING, TaskState.COMPLETED)
    assert (reading.busy, twin.busy) == (True, False)


def test_a_task_of_ours_as_a_snapshot_keeps_why_it_failed_and_shares_nothing() -> None:
    task = Task.create("go").begin().fail("out of paper")
    view = view_of_task(task)
    events = list(Reading(task.id, "agent").read(view, {}))
    changed = events[-1].payload
    assert isinstance(changed, TaskStatusChanged)
    assert (changed.new_state, changed.reason, events[-1].severity) == (TaskState.FAILED, "out of paper", "error")
    task.messages[0].parts[0] = replace(task.messages[0].parts[0], content="changed")
    assert view.history is not None
    assert view.history[0].text == "go"
