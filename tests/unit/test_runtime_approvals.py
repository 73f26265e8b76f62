"""Remote approvals, on both stores: visibility, permission to answer, effects of answers, and watches."""

import asyncio
import random
from collections.abc import AsyncGenerator, AsyncIterator, Callable
from contextlib import AsyncExitStack, aclosing
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from protolink_grpc.client.approvals import ApprovalFollower
from protolink_grpc.errors import (
    ApprovalChangedError,
    ApprovalNotFoundError,
    InvalidArgumentError,
    InvalidTransitionError,
    PermissionDeniedError,
    UnavailableError,
    UnimplementedError,
)
from protolink_grpc.models import (
    ApprovalDecision,
    ApprovalRequest,
    Artifact,
    FileContent,
    Message,
    Part,
    PolicyDecision,
    PolicyEffect,
    RunAction,
    Task,
    TaskState,
)
from protolink_grpc.models.action import Approval, ApprovalState
from protolink_grpc.models.clock import SystemClock, iso_from_micros
from protolink_grpc.models.events import ApprovalDecided, ApprovalRequired, TaskProgress
from protolink_grpc.models.redaction import RedactionPolicy
from protolink_grpc.models.watch import ApprovalChanges, WatchPosition
from protolink_grpc.runtime.actions import approvals as desk
from protolink_grpc.runtime.actions.approvals import Approvals
from protolink_grpc.runtime.controls import Controls
from protolink_grpc.runtime.limits import Limits
from protolink_grpc.runtime.log import LiveTask
from protolink_grpc.runtime.run import Run
from protolink_grpc.runtime.service import TaskService
from protolink_grpc.runtime.submission import Submission
from protolink_grpc.storage.approvals import APPROVALS, ApprovalQuery, ApprovalRow
from protolink_grpc.storage.port import TaskQuery, TaskStore
from protolink_grpc.storage.records import Records, Revisions
from protolink_grpc.storage.sqlite.store import SQLiteStore
from protolink_grpc.wire.events import event_from_frame

PATIENCE_S = 20.0
"""How long something that must happen may take; far more than it needs on a busy machine."""

VERDICT = PolicyDecision(PolicyEffect.REQUIRE_APPROVAL, "it costs money", metadata={"rule": "money", "token": "t"})
Batches = AsyncGenerator[ApprovalChanges, None]


class Ahead:
    """A clock that runs ahead of the machine's as far as a test wants."""

    def __init__(self) -> None:
        self.ahead_s = 0.0
        self._clock = SystemClock()

    def micros(self) -> int:
        return self._clock.micros() + int(self.ahead_s * 1e6)


def approval_of(request_id: str, records: Records) -> ApprovalRow | None:
    return records.get(APPROVALS, "agent", request_id)


def revisions_of(records: Records) -> Revisions:
    return records.revisions(APPROVALS, "agent")


@dataclass
class Office:
    """A service whose runs ask what their task's text says, one question per word, and report the answers."""

    store: TaskStore
    clock: Ahead = field(default_factory=Ahead)
    requests: dict[str, ApprovalRequest] = field(default_factory=dict)
    action: dict[str, Any] = field(default_factory=dict)
    asked: dict[str, Any] = field(default_factory=dict)

    async def handle(self, task: Task, run: Run) -> None:
        requests = [self._request(word, task, run) for word in str(task.messages[-1].parts[0].content).split()]
        for request in requests:
            await run.emit(ApprovalRequired(request))
        await run.flush()
        said = [await run.ask(request) for request in requests]
        task.add_message(Message.agent(" ".join("yes" if each.approved else "no" for each in said)))

    def _request(self, word: str, task: Task, run: Run) -> ApprovalRequest:
        payload = {"arguments": {"word": word}}
        action = RunAction("tool.call", "say", **{"payload": payload, **self.action})
        request = ApprovalRequest(action, VERDICT, request_id=f"r-{word}", run_id=run.run_id, task_id=task.id)
        self.requests[request.request_id] = replace(request, **self.asked)
        return self.requests[request.request_id]

    def service(self, approvals: Approvals | None = Approvals(), **more: Any) -> TaskService:  # noqa: B008 -- frozen
        controls = Controls(remote_approvals=True)
        limits = Limits(max_concurrency=50)
        return TaskService(
            "agent",
            self.store,
            self.handle,
            controls=controls,
            approvals=approvals,
            limits=limits,
            clock=self.clock,
            **more,
        )


Open = Callable[..., Any]


@pytest.fixture
async def office(store: TaskStore) -> Office:
    return Office(store)


@pytest.fixture
async def opened(office: Office) -> AsyncIterator[Open]:
    """Starts services of the office; stops them at the end."""
    async with AsyncExitStack() as stack:

        async def start(*args: Any, **more: Any) -> TaskService:
            service = office.service(*args, **more)
            await service.start()
            stack.push_async_callback(service.stop, 0.0)
            return service

        async with asyncio.timeout(PATIENCE_S):
            yield start


async def ask(service: TaskService, text: str, principal: str = "ada", task_id: str = "") -> str:
    """Begin a task and return its id once all its questions are there."""
    turn = await service.submit(Submission([Message.user(text)], task_id=task_id), principal)
    for word in text.split():
        while await service.store.view(partial(approval_of, f"r-{word}")) is None:
            await asyncio.sleep(0)
    return turn.task_id


def answer(request_id: str, approved: bool = True, **more: Any) -> ApprovalDecision:
    return ApprovalDecision(approved, request_id, **more)


async def respond(
    service: TaskService, given: ApprovalDecision, who: str, request_id: str = ""
) -> tuple[Approval, bool]:
    """Answer as one who has seen what is asked, where the answer does not say otherwise."""
    asked = await service.approvals.request(given.request_id)
    if given.approved and not given.fingerprint and asked is not None:
        given = replace(given, fingerprint=asked.action.fingerprint)
    return await service.approvals.respond(given, who, request_id)


async def outcome(service: TaskService, task_id: str, principal: str = "ada") -> str:
    """What a task says when it has ended."""
    async with aclosing(service.watch(task_id, principal)) as batches:
        async for _ in batches:
            pass
    fold = await service.get(task_id, principal)
    return str(fold.messages[-1].parts[0].content)


async def decisions(service: TaskService, task_id: str) -> list[ApprovalDecision]:
    """Every answer in a log."""
    events = [event_from_frame(frame) for frame in await service.store.read(task_id, 0, 1000)]
    return [event.payload.decision for event in events if isinstance(event.payload, ApprovalDecided)]


def names(approvals: list[Approval]) -> list[str]:
    return [approval.request.request_id for approval in approvals]


# -- answering -----------------------------------------------------------------------------------------------------------


async def test_an_answer_lets_the_run_go_on_and_is_signed_by_the_server(opened: Open, office: Office) -> None:
    service = await opened()
    task_id = await ask(service, "one two")
    given = answer("r-one", reason="fine", decided_by="somebody else", decided_at="2001-01-01T00:00:00+00:00")
    before = office.clock.micros()
    approval, already = await respond(service, given, "ada")
    decision = approval.decision
    assert decision is not None
    assert not already
    assert (approval.state, decision.decided_by, decision.reason) == (ApprovalState.APPROVED, "ada", "fine")
    assert decision.decided_at >= iso_from_micros(before)
    approval, _ = await respond(service, answer("r-two", False), "ada")
    assert approval.state is ApprovalState.DENIED
    assert await outcome(service, task_id) == "yes no"


async def test_an_answer_is_in_the_log_under_the_action_that_it_is_about(opened: Open, office: Office) -> None:
    service = await opened()
    task_id = await ask(service, "one")
    await respond(service, answer("r-one", reason="fine"), "ada")
    events = [event_from_frame(frame) for frame in await service.store.read(task_id, 0, 100)]
    (event,) = [each for each in events if each.type == "approval.decided"]
    assert (event.action_id, event.summary) == (office.requests["r-one"].action.action_id, "approved by ada: fine")


async def test_a_second_answer_changes_nothing_and_says_so(opened: Open) -> None:
    service = await opened()
    task_id = await ask(service, "one")
    first, _ = await respond(service, answer("r-one"), "ada")
    for again in (answer("r-one", False), answer("r-one"), answer("r-one", fingerprint="of another")):
        assert await respond(service, again, "ada") == (first, True)
    assert await outcome(service, task_id) == "yes"
    assert await respond(service, answer("r-one", False), "ada") == (first, True)  # and after the end
    assert len(await decisions(service, task_id)) == 1


async def test_of_answers_that_race_exactly_one_counts(opened: Open) -> None:
    service = await opened()
    task_id = await ask(service, "one")
    given = await asyncio.gather(*(respond(service, answer("r-one", bool(nth % 2)), "ada") for nth in range(10)))
    assert [already for _, already in given].count(False) == 1
    assert len({approval.state for approval, _ in given}) == 1
    assert len(await decisions(service, task_id)) == 1


async def test_nobody_can_say_that_time_has_answered(opened: Open) -> None:
    service = await opened()
    await ask(service, "one")
    said = replace(answer("r-one", False, metadata={"via": "phone"}), expired=True)
    approval, _ = await respond(service, said, "ada")
    assert approval.state is ApprovalState.DENIED
    assert approval.decision is not None
    assert approval.decision.metadata == {"via": "phone"}


async def test_an_answer_about_another_action_is_refused(opened: Open, office: Office) -> None:
    service = await opened()
    await ask(service, "one")
    with pytest.raises(ApprovalChangedError) as refused:
        await respond(service, answer("r-one", fingerprint="0" * 64), "ada")
    assert refused.value.metadata["approval_id"] == "r-one"
    seen = (await service.approvals.page("ada")).approvals[0]
    assert seen.state is ApprovalState.PENDING
    assert seen.fingerprint == office.requests["r-one"].action.fingerprint
    assert (await respond(service, answer("r-one", fingerprint=seen.fingerprint), "ada"))[1] is False


async def test_an_unknown_approval_does_not_exist(opened: Open) -> None:
    service = await opened()
    with pytest.raises(ApprovalNotFoundError):
        await respond(service, answer("r-none"), "ada")


async def test_an_answer_after_the_end_of_the_task_finds_it_withdrawn(opened: Open) -> None:
    service = await opened()
    task_id = await ask(service, "one two")
    await respond(service, answer("r-one"), "ada")
    await service.cancel(task_id, "ada")
    approval, already = await respond(service, answer("r-two"), "ada")
    assert (approval.state, approval.decision, already) == (ApprovalState.WITHDRAWN, None, True)
    assert (
        await service.approvals.page("ada", ApprovalQuery(states=frozenset({ApprovalState.PENDING})))
    ).approvals == []
    withdrawn = ApprovalQuery(states=frozenset({ApprovalState.WITHDRAWN}))
    assert names((await service.approvals.page("ada", withdrawn)).approvals) == ["r-two"]


async def test_an_answer_that_comes_too_late_finds_it_expired(opened: Open, office: Office) -> None:
    office.asked = {"expires_at": iso_from_micros(office.clock.micros() + 3_600_000_000)}
    service = await opened()
    task_id = await ask(service, "one two")
    assert (await respond(service, answer("r-one"), "ada"))[1] is False
    office.clock.ahead_s = 3_601
    approval, already = await respond(service, answer("r-two", fingerprint="of another"), "ada")
    assert (approval.state, already) == (ApprovalState.EXPIRED, True)
    assert approval.decision is not None
    assert not approval.decision.approved
    assert await outcome(service, task_id) == "yes no"


async def test_arguments_are_edited_where_policy_lets_them(opened: Open, office: Office) -> None:
    office.asked = {"editable": True}
    seen: list[tuple[str, dict[str, Any]]] = []
    service = await opened(check_edit=lambda action, arguments: seen.append((action.name, arguments)))
    task_id = await ask(service, "one two")
    await respond(service, answer("r-one", edited_arguments={"word": "uno"}), "ada")
    await respond(service, answer("r-two", edited_arguments={}), "ada")
    assert [each.edited_arguments for each in await decisions(service, task_id)] == [{"word": "uno"}, {}]
    assert seen == [("say", {"word": "uno"}), ("say", {})]


async def test_arguments_that_must_not_be_edited_are_refused(opened: Open) -> None:
    service = await opened()
    await ask(service, "one")
    with pytest.raises(InvalidArgumentError) as refused:
        await respond(service, answer("r-one", edited_arguments={}), "ada")
    assert refused.value.field == "edited_arguments"
    assert (await service.approvals.page("ada")).approvals[0].state is ApprovalState.PENDING


async def test_edited_arguments_are_checked_before_they_are_recorded(opened: Open, office: Office) -> None:
    office.asked = {"editable": True}

    def check(action: RunAction, arguments: dict[str, Any]) -> None:
        raise InvalidArgumentError("must be a number", field="nights")

    service = await opened(check_edit=check)
    await ask(service, "one")
    with pytest.raises(InvalidArgumentError) as refused:
        await respond(service, answer("r-one", edited_arguments={"nights": "two"}), "ada")
    assert refused.value.field == "edited_arguments.nights"
    assert (await service.approvals.page("ada")).approvals[0].state is ApprovalState.PENDING


async def test_a_denial_takes_no_arguments(opened: Open, office: Office) -> None:
    office.asked = {"editable": True}
    service = await opened()
    await ask(service, "one")
    with pytest.raises(InvalidArgumentError) as refused:
        await respond(service, answer("r-one", False, edited_arguments={}), "ada")
    assert refused.value.field == "edited_arguments"


@pytest.mark.parametrize("setting", [None, Approvals(remote=False)])
async def test_without_remote_approvals_they_are_shown_and_not_answered(
    opened: Open, setting: Approvals | None
) -> None:
    service = await opened(setting)
    await ask(service, "one")
    with pytest.raises(UnimplementedError):
        await respond(service, answer("r-one"), "ada")
    assert names((await service.approvals.page("ada")).approvals) == ["r-one"]


# -- who ---------------------------------------------------------------------------------------------------------------


def refusing(principal: str, request: ApprovalRequest) -> bool:
    raise RuntimeError("the directory is away")


WORDS = Approvals(approvers=lambda principal, request: principal == request.action.payload["arguments"]["word"])


@pytest.mark.parametrize(
    ("setting", "seen", "entitled"),
    [
        (Approvals(), {"ada"}, {"ada"}),
        (Approvals(approvers=["boss", "eve"]), {"ada", "boss", "eve"}, {"boss", "eve"}),
        (Approvals(approvers="boss"), {"ada", "boss"}, {"boss"}),
        (Approvals(approvers=["ada"]), {"ada"}, {"ada"}),
        (Approvals(approvers=()), {"ada"}, set()),
        (Approvals(approvers=lambda principal, request: principal == "boss"), {"ada", "boss"}, {"boss"}),
        (Approvals(approvers=refusing), {"ada"}, set()),
    ],
    ids=["owner", "names", "one name", "the owner by name", "nobody", "callable", "callable that fails"],
)
async def test_approvals_are_shown_to_who_owns_them_or_may_answer_and_answered_by_the_latter(
    opened: Open, setting: Approvals, seen: set[str], entitled: set[str]
) -> None:
    service = await opened(setting)
    await ask(service, "one")
    for principal in ("ada", "boss", "eve", "bob", ""):
        page = await service.approvals.page(principal)
        assert names(page.approvals) == (["r-one"] if principal in seen else []), principal
        async with aclosing(service.approvals.watch(principal)) as batches:
            assert names((await anext(batches)).approvals) == (["r-one"] if principal in seen else []), principal
        if principal not in entitled:
            expected = PermissionDeniedError if principal in seen else ApprovalNotFoundError
            with pytest.raises(expected):
                await respond(service, answer("r-one"), principal)
    for nth, principal in enumerate(sorted(entitled)):
        approval, already = await respond(service, answer("r-one"), principal)
        assert already is (nth > 0)
        assert approval.decision is not None
        assert approval.decision.decided_by == sorted(entitled)[0]


async def test_a_stranger_cannot_tell_an_approval_of_others_from_none(opened: Open) -> None:
    service = await opened()
    await ask(service, "one")
    said = []
    for request_id in ("r-one", "r-two"):
        with pytest.raises(ApprovalNotFoundError) as refused:
            await respond(service, answer(request_id), "bob")
        said.append(str(refused.value).replace(request_id, "ID"))
    assert said[0] == said[1]


def test_a_time_that_is_none_is_refused() -> None:
    for seconds in (0, -1, float("nan")):
        with pytest.raises(InvalidArgumentError):
            Approvals(expires_s=seconds)


# -- listing -------------------------------------------------------------------------------------------------------------


async def test_a_listed_approval_says_everything_but_secrets(opened: Open, office: Office) -> None:
    picture = Part("image", FileContent(b"sk-live-0123456789abcdef0123456789", name="room.png"))
    call = Part.tool_call("pay", {"token": "t", "sum": 3})
    preview = Artifact(parts=[Part.json({"room": 7, "password": "p"}), picture, call], name="preview")
    office.action = {"payload": {"arguments": {"password": "p", "nights": 2}}, "artifacts": (preview,)}
    office.asked = {"metadata": {"token": "t", "urgent": True}, "editable": True}
    service = await opened(redaction=RedactionPolicy(replacement="***"))
    await ask(service, "one")
    (shown,) = (await service.approvals.page("ada")).approvals
    request, real = shown.request, office.requests["r-one"]
    assert request.action.payload == {"arguments": {"password": "***", "nights": 2}}
    (artifact,) = request.action.artifacts
    assert artifact.parts[0].content == {"room": 7, "password": "***"}
    assert artifact.parts[1] == picture
    assert artifact.parts[2].as_tool_call().args == {"token": "***", "sum": 3}
    assert request.metadata == {"token": "***", "urgent": True}
    assert request.policy_decision.metadata == {"rule": "money", "token": "***"}
    assert request.policy_decision.reason == "it costs money"
    assert (request.request_id, request.task_id, request.run_id) == ("r-one", real.task_id, real.run_id)
    assert shown.fingerprint == real.action.fingerprint != request.action.fingerprint
    edited = {"password": "q", "nights": 3}
    approval, _ = await respond(service, answer("r-one", fingerprint=shown.fingerprint, edited_arguments=edited), "ada")
    assert approval.decision is not None
    assert approval.decision.edited_arguments == {"password": "***", "nights": 3}
    assert (await decisions(service, real.task_id))[0].edited_arguments == edited


async def test_a_question_that_names_no_task_or_run_is_shown_with_those_that_ask_it(
    opened: Open, office: Office
) -> None:
    office.asked = {"task_id": "", "run_id": None}
    service = await opened()
    task_id = await ask(service, "one")
    (shown,) = (await service.approvals.page("ada")).approvals
    assert shown.request.task_id == task_id
    assert shown.request.run_id == (await service.get(task_id, "ada")).run_id


@pytest.mark.parametrize("setting", [Approvals(), Approvals(approvers=lambda *_: False)], ids=["owner", "callable"])
@pytest.mark.parametrize("page_size", [1, 2, 100])
async def test_pages_joined_are_all_that_one_may_see_oldest_first(
    opened: Open, setting: Approvals, page_size: int
) -> None:
    service = await opened(setting)
    for nth, principal in enumerate(["ada", "bob", "ada", "bob", "bob", "ada"]):
        await ask(service, f"a{nth} b{nth}", principal)
    expected = [f"r-{letter}{nth}" for nth in (0, 2, 5) for letter in "ab"]
    listed: list[str] = []
    query = ApprovalQuery("ignored", "ignored", page_size=page_size)
    while True:
        page = await service.approvals.page("ada", query)
        assert len(page.approvals) <= page_size
        listed += names(page.approvals)
        if page.next is None:
            break
        query = replace(query, after=page.next)
    assert listed == expected


async def test_a_listing_that_finds_little_ends_early_and_says_where_to_go_on(
    opened: Open, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(desk, "SCANS", 2)
    service = await opened(Approvals(approvers=lambda *_: False))
    for nth in range(6):
        await ask(service, f"of-bob-{nth}", "bob")
    await ask(service, "mine")
    pages = []
    query = ApprovalQuery(page_size=2)
    while True:
        page = await service.approvals.page("ada", query)
        pages.append(names(page.approvals))
        if page.next is None:
            break
        query = replace(query, after=page.next)
    assert pages == [[], ["r-mine"]]


async def test_a_page_ends_where_it_gets_large_but_is_never_empty_for_that(
    opened: Open, office: Office, monkeypatch: pytest.MonkeyPatch
) -> None:
    office.action = {"payload": {"text": "x" * 400_000}}
    service = await opened()
    for word in ("a", "b", "c", "d", "e"):
        await ask(service, word)
    sizes = []
    query = ApprovalQuery()
    while True:
        page = await service.approvals.page("ada", query)
        sizes.append(len(page.approvals))
        if page.next is None:
            break
        query = replace(query, after=page.next)
    assert sizes == [2, 2, 1]
    async with aclosing(service.approvals.watch("ada")) as batches:
        pieces = [await anext(batches) for _ in range(3)]
    assert [len(each.approvals) for each in pieces] == [2, 2, 1]
    revision = pieces[-1].position.revision
    assert [each.position for each in pieces] == [
        WatchPosition(0, revision, reset=True),
        WatchPosition(0, revision),
        WatchPosition(revision, revision, caught_up=True),
    ]
    async with aclosing(service.approvals.watch("ada", after_revision=revision - 5)) as batches:
        pieces = [await anext(batches) for _ in range(3)]
    assert [len(each.approvals) for each in pieces] == [2, 2, 1]
    assert [each.position for each in pieces] == [
        WatchPosition(revision - 3, revision),
        WatchPosition(revision - 1, revision),
        WatchPosition(revision, revision, caught_up=True),
    ]
    monkeypatch.setattr(desk, "PAGE_BYTES", 1)
    assert len((await service.approvals.page("ada")).approvals) == 1


# -- watching ------------------------------------------------------------------------------------------------------------


async def changes(batches: Batches, count: int) -> list[tuple[str, str]]:
    """The next changes, each as (request id, state)."""
    seen: list[tuple[str, str]] = []
    while len(seen) < count:
        seen += [(each.request.request_id, str(each.state)) for each in (await anext(batches)).approvals]
    return seen


async def test_a_watch_begins_with_a_snapshot_of_what_waits_and_goes_on_with_what_changes(opened: Open) -> None:
    service = await opened()
    await ask(service, "one two")
    await respond(service, answer("r-one"), "ada")
    async with aclosing(service.approvals.watch("ada")) as batches:
        first = await anext(batches)
        assert names(first.approvals) == ["r-two"]
        revision = (await service.store.view(revisions_of)).latest
        assert first.position == WatchPosition(revision, revision, caught_up=True, reset=True)
        task_id = await ask(service, "three")
        assert await changes(batches, 1) == [("r-three", "pending")]
        await respond(service, answer("r-two", False), "ada")
        assert await changes(batches, 1) == [("r-two", "denied")]
        await service.cancel(task_id, "ada")
        assert await changes(batches, 1) == [("r-three", "withdrawn")]


async def test_a_watch_without_anything_to_show_is_caught_up_at_once(opened: Open) -> None:
    service = await opened()
    for word in ("", "one"):
        if word:
            task_id = await ask(service, word)
            await respond(service, answer(f"r-{word}"), "ada")
            await outcome(service, task_id)
        async with aclosing(service.approvals.watch("ada")) as batches:
            first = await anext(batches)
        revision = (await service.store.view(revisions_of)).latest
        assert first == ApprovalChanges([], WatchPosition(revision, revision, caught_up=True, reset=True))
        # The position of nothing is one, too.
        async with aclosing(service.approvals.watch("ada", after_revision=revision)) as batches:
            assert await anext(batches) == ApprovalChanges([], WatchPosition(revision, revision, caught_up=True))


async def test_a_watch_after_a_revision_begins_with_what_changed_since_each_as_it_is_now(opened: Open) -> None:
    service = await opened()
    await ask(service, "one two three")
    async with aclosing(service.approvals.watch("ada")) as batches:
        revision = (await anext(batches)).position.revision
    await respond(service, answer("r-one"), "ada")
    await ask(service, "four five")
    await respond(service, answer("r-four", False), "ada")
    async with aclosing(service.approvals.watch("ada", after_revision=revision)) as batches:
        first = await anext(batches)
        known = [(each.request.request_id, str(each.state)) for each in first.approvals]
        assert known == [("r-one", "approved"), ("r-five", "pending"), ("r-four", "denied")]
        assert first.position == WatchPosition(revision + 4, revision + 4, caught_up=True)
        await respond(service, answer("r-two"), "ada")
        second = await anext(batches)
        assert names(second.approvals) == ["r-two"]
        assert second.position == WatchPosition(revision + 5, revision + 5)


async def test_a_watch_after_a_revision_that_is_not_known_begins_with_a_snapshot(opened: Open) -> None:
    service = await opened()
    await ask(service, "one")
    known = await service.store.view(revisions_of)
    for revision in (0, 1, known.first - 1, known.latest + 1, 1 << 62):
        async with aclosing(service.approvals.watch("ada", after_revision=revision)) as batches:
            first = await anext(batches)
        assert (names(first.approvals), first.position.reset) == (["r-one"], True), revision
    with pytest.raises(InvalidArgumentError) as refused:
        await anext(service.approvals.watch("ada", after_revision=-1))
    assert refused.value.field == "after_revision"


async def test_processes_on_one_file_share_the_revisions_of_approvals(tmp_path: Path) -> None:
    offices = [Office(SQLiteStore(tmp_path / "tasks.db")) for _ in range(2)]
    here, there = [each.service(Approvals()) for each in offices]
    async with asyncio.timeout(PATIENCE_S):
        await here.start()
        await there.start()
        await ask(here, "one two")
        async with aclosing(there.approvals.watch("ada")) as batches:
            first = await anext(batches)
            assert names(first.approvals) == ["r-one", "r-two"]
            await respond(here, answer("r-one"), "ada")
            second = await anext(batches)
            assert names(second.approvals) == ["r-one"]
            assert second.position.revision == first.position.revision + 1
        await respond(there, answer("r-two"), "ada")
        async with aclosing(here.approvals.watch("ada", after_revision=second.position.revision)) as batches:
            third = await anext(batches)
            assert names(third.approvals) == ["r-two"]
            assert third.position == WatchPosition(
                first.position.revision + 2, first.position.revision + 2, caught_up=True
            )
        await there.stop(0)
        await here.stop(0)


async def test_a_change_that_the_reader_may_not_see_moves_the_position_alone(opened: Open) -> None:
    service = await opened()
    async with aclosing(service.approvals.watch("bob")) as batches:
        begin = (await anext(batches)).position.revision
        await ask(service, "one")
        assert await anext(batches) == ApprovalChanges([], WatchPosition(begin + 1, begin + 1))


async def test_a_watch_of_one_task_shows_nothing_of_others(opened: Open) -> None:
    service = await opened()
    await ask(service, "one")
    task_id = await ask(service, "two")
    async with aclosing(service.approvals.watch("ada", task_id)) as batches:
        assert names((await anext(batches)).approvals) == ["r-two"]
        await respond(service, answer("r-one"), "ada")
        await respond(service, answer("r-two"), "ada")
        assert await changes(batches, 1) == [("r-two", "approved")]


async def test_a_watch_ends_with_the_service(office: Office) -> None:
    service = office.service()
    await service.start()
    async with aclosing(service.approvals.watch("ada")) as batches:
        await anext(batches)
        following = asyncio.ensure_future(anext(batches))
        await asyncio.sleep(0)
        await service.stop(0)
        async with asyncio.timeout(PATIENCE_S):
            with pytest.raises(UnavailableError):
                await following


async def test_a_stop_does_not_wait_for_a_run_that_begins_to_wait_for_a_person_meanwhile(office: Office) -> None:
    begun, may_ask, asks = asyncio.Event(), asyncio.Event(), office.handle

    async def ask_later(task: Task, run: Run) -> None:
        begun.set()
        await may_ask.wait()
        await asks(task, run)

    office.handle = ask_later  # type: ignore[method-assign]  # of this office alone
    service = office.service()
    await service.start()
    await service.submit(Submission([Message.user("one")]), "ada")
    await begun.wait()
    stopping = asyncio.create_task(service.stop(grace_s=2 * PATIENCE_S))
    while service.is_accepting:
        await asyncio.sleep(0)
    may_ask.set()
    async with asyncio.timeout(PATIENCE_S):
        await stopping


async def test_a_watch_whose_store_is_closed_while_it_reads_says_that_the_agent_was_stopped(office: Office) -> None:
    service = office.service()
    await service.start()
    reads, gate = asyncio.Event(), asyncio.Event()
    view = office.store.view

    async def held_up(query: Callable[[Records], Any]) -> Any:
        reads.set()
        await gate.wait()
        return await view(query)

    office.store.view = held_up  # type: ignore[method-assign]  # of this one store
    async with aclosing(service.approvals.watch("ada")) as batches:
        begun = asyncio.ensure_future(anext(batches))
        await reads.wait()
        await service.stop(0)
        gate.set()
        if isinstance(office.store, SQLiteStore):  # the memory store is never closed to readers
            with pytest.raises(UnavailableError):
                await begun
        else:
            assert (await begun).approvals == []


@pytest.mark.parametrize("seed", range(3))
async def test_a_watch_begun_and_cut_at_any_moment_ends_up_knowing_every_approval_and_repeats_none(
    opened: Open, seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(desk, "BATCH", 3)
    chance = random.Random(seed)
    service = await opened()
    known: list[dict[str, str]] = []
    twice: list[str] = []

    async def follow(seen: dict[str, str]) -> None:
        reader = ApprovalFollower()
        while "r-last" not in seen:
            caught_up = 0
            async with aclosing(service.approvals.watch("ada", after_revision=reader.begin_stream())) as batches:
                async for batch in batches:
                    caught_up += batch.position.caught_up
                    for approval in reader.take_batch(batch):
                        name, state = approval.request.request_id, str(approval.state)
                        if seen.get(name) == state:
                            twice.append(name)
                        seen[name] = state
                    if "r-last" in seen or chance.random() < 0.2:
                        break
            assert caught_up <= 1

    async def work(nth: int) -> None:
        await ask(service, f"a{nth} b{nth}")
        for name in chance.sample([f"r-a{nth}", f"r-b{nth}"], chance.randrange(3)):
            await respond(service, answer(name, chance.random() < 0.5), "ada")

    workers = []
    async with asyncio.TaskGroup() as group:
        for nth in range(12):
            workers.append(group.create_task(work(nth)))
            if nth % 3 == 0:
                known.append({})
                group.create_task(follow(known[-1]))
            for _ in range(chance.randrange(6)):
                await asyncio.sleep(0)
        # Every answer is given before the last question is asked.
        await asyncio.gather(*workers)
        await ask(service, "last")
    truth = {
        each.request.request_id: str(each.state)
        for each in (await service.approvals.page("ada", ApprovalQuery(page_size=1000))).approvals
    }
    assert twice == []
    for seen in known:
        unsettled = {name for name, state in truth.items() if state == "pending"}
        assert unsettled <= set(seen)
        assert seen == {name: truth[name] for name in seen}


# -- the log -------------------------------------------------------------------------------------------------------------


async def live_of(service: TaskService, task_id: str) -> LiveTask:
    """The task as another process would load it."""
    head = await service.head(task_id, "ada")
    live = LiveTask(head.task_id, agent_name=head.agent_name, store=service.store, clock=SystemClock())
    await live.refresh()
    return live


async def test_who_waits_for_a_decision_hears_it_whoever_records_it(opened: Open) -> None:
    service = await opened()
    task_id = await ask(service, "one two")
    live = await live_of(service, task_id)
    waits = [asyncio.create_task(live.decision("r-two")) for _ in range(2)]
    gone = asyncio.create_task(live.decision("r-two"))
    await asyncio.sleep(0)
    gone.cancel()
    await respond(service, answer("r-two", reason="go"), "ada")
    assert [each.reason for each in await asyncio.gather(*waits)] == ["go", "go"]
    assert (await live.decision("r-two")).approved  # it stays
    with pytest.raises(asyncio.CancelledError):
        await gone


async def test_who_waits_for_a_decision_hears_that_there_will_be_none(opened: Open) -> None:
    service = await opened()
    task_id = await ask(service, "one")
    live = await live_of(service, task_id)
    with pytest.raises(ApprovalNotFoundError):
        await live.decision("r-unknown")
    waiting = asyncio.create_task(live.decision("r-one"))
    await asyncio.sleep(0)
    await service.cancel(task_id, "ada")
    with pytest.raises(ApprovalNotFoundError):
        await waiting


async def test_an_answer_that_is_refused_takes_the_whole_append_with_it(opened: Open) -> None:
    service = await opened()
    task_id = await ask(service, "one")
    live = await live_of(service, task_id)
    before = live.fold.sequence
    with pytest.raises(InvalidTransitionError):
        await live.record([TaskProgress(), ApprovalDecided(answer("r-none"))])
    assert live.fold.sequence == before == (await service.head(task_id, "ada")).sequence


async def test_of_two_processes_that_answer_at_once_the_second_is_refused(opened: Open) -> None:
    service = await opened()
    task_id = await ask(service, "one")
    lives = [await live_of(service, task_id) for _ in range(4)]
    facts = [ApprovalDecided(answer("r-one", bool(nth % 2))) for nth in range(4)]
    outcomes = await asyncio.gather(
        *(live.record([fact]) for live, fact in zip(lives, facts, strict=True)), return_exceptions=True
    )
    assert sorted(type(each).__name__ for each in outcomes) == ["InvalidTransitionError"] * 3 + ["NoneType"]
    assert len(await decisions(service, task_id)) == 1


async def test_a_task_without_approvals_leaves_the_index_alone(opened: Open) -> None:
    service = await opened()
    task_id = (await service.submit(Submission([Message.user("")]), "ada")).task_id
    await outcome(service, task_id)
    revisions = await service.store.view(revisions_of)
    assert revisions.first == revisions.latest


# -- sessions ------------------------------------------------------------------------------------------------------------


async def test_two_principals_use_one_session_id_and_never_meet(opened: Open) -> None:
    service = await opened()
    first = await service.send(Submission([Message.user("")], session_id="trip"), "ada")
    other = await service.send(Submission([Message.user("")], task_id="trip"), "bob")
    again = await service.send(Submission([Message.user("")], session_id="trip"), "bob")
    assert {each.state for each in (first, other, again)} == {TaskState.COMPLETED}
    for name, tasks in (("ada", {first.task_id}), ("bob", {other.task_id, again.task_id})):
        page = await service.find(TaskQuery(name, "agent", session_id="trip"))
        assert {head.task_id for head in page.heads} == tasks
        assert {head.session_id for head in page.heads} == {"trip"}


# -- what an answer is about, and repeated answers -----------------------------------------------------------------------


async def test_an_approval_without_an_etag_is_refused_and_a_denial_needs_none(opened: Open) -> None:
    service = await opened()
    task_id = await ask(service, "one two")
    with pytest.raises(InvalidArgumentError) as refused:
        await service.approvals.respond(answer("r-one"), "ada")
    assert refused.value.field == "etag"
    assert await decisions(service, task_id) == []
    approval, _ = await service.approvals.respond(answer("r-one"), "ada", any_etag=True)
    assert approval.state is ApprovalState.APPROVED
    assert (await respond(service, answer("r-two", False), "ada"))[0].state is ApprovalState.DENIED


@pytest.mark.parametrize("edited", [None, {"word": "uno"}])
async def test_a_repeated_answer_gets_what_the_first_one_got(opened: Open, office: Office, edited: Any) -> None:
    service = await opened()
    office.asked = {"editable": True}
    task_id = await ask(service, "one")
    given = answer("r-one", edited_arguments=edited)
    first = await respond(service, given, "ada", "once")
    assert first[1] is False
    assert await respond(service, given, "ada", "once") == first
    await outcome(service, task_id)
    assert await respond(service, given, "ada", "once") == first  # and after the end
    assert await respond(service, given, "ada", "again") == (first[0], True)
    assert await respond(service, given, "ada") == (first[0], True)
    assert len(await decisions(service, task_id)) == 1


async def test_repeated_answers_that_race_all_get_what_the_first_one_got(opened: Open) -> None:
    service = await opened()
    task_id = await ask(service, "one")
    given = await asyncio.gather(*(respond(service, answer("r-one"), "ada", "once") for _ in range(10)))
    assert [already for _, already in given] == [False] * 10
    assert len(await decisions(service, task_id)) == 1


@pytest.mark.parametrize(("approved", "edited"), [(False, None), (True, {"word": "uno"})])
async def test_a_request_id_brings_one_answer(opened: Open, office: Office, approved: bool, edited: Any) -> None:
    service = await opened()
    office.asked = {"editable": True}
    await ask(service, "one two")
    await respond(service, answer("r-one"), "ada", "once")
    with pytest.raises(InvalidArgumentError) as refused:
        await respond(service, answer("r-one", approved, edited_arguments=edited), "ada", "once")
    assert refused.value.field == "request_id"


async def test_a_request_id_of_somebody_else_repeats_nothing(opened: Open) -> None:
    service = await opened(Approvals(approvers=["ada", "bob"]))
    await ask(service, "one")
    first, _ = await respond(service, answer("r-one"), "ada", "once")
    assert await respond(service, answer("r-one"), "bob", "once") == (first, True)
