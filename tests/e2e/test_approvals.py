"""Approvals over gRPC and in process: requested by a real run, and listed, watched and answered by clients of every kind."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import aclosing
from typing import Any

import grpc
import pytest
from cut_wire import Wire
from plgrpc.v1 import approval_pb2, control_service_pb2_grpc, watch_pb2
from plgrpc.v1 import control_service_pb2 as pb

from protolink_grpc import (
    Agent,
    AgentCapabilities,
    AgentCard,
    AgentClient,
    Approval,
    ApprovalDecision,
    Approvals,
    ApprovalState,
    Artifact,
    CapabilityPolicy,
    Limits,
    Part,
    Principal,
    RunAction,
    RunContext,
    ServerOptions,
    Task,
)
from protolink_grpc.client.grpc_agent import RpcAgent
from protolink_grpc.errors import (
    ApprovalChangedError,
    ApprovalNotFoundError,
    InvalidArgumentError,
    PermissionDeniedError,
    UnavailableError,
    UnimplementedError,
)
from protolink_grpc.storage.port import TaskStore

PATIENCE_S = 30.0
"""How long something that must happen may take; far more than it needs on a busy machine."""

MakeWire = Callable[[str], Awaitable[Wire]]


async def by_name(method: str, metadata: Mapping[str, str]) -> Principal | None:
    name = metadata.get("authorization")
    return Principal(name) if name else None


def preview(arguments: dict[str, Any], context: RunContext) -> RunAction:
    shown = Artifact(name="booking", parts=[Part.text(f"a room for {arguments['nights']} nights")])
    return RunAction("tool.call", "book", {"arguments": arguments}, artifacts=(shown,))


def hotel(approvals: Approvals | None, url: str = "grpc://127.0.0.1:0", **more: Any) -> Agent:
    card = AgentCard(name="hotel", description="books", url=url, capabilities=AgentCapabilities(max_concurrency=8))
    rule = {"effect": "require_approval", "editable": True}
    agent = Agent(card, policy=CapabilityPolicy({"booking.write": rule}), approvals=approvals, **more)

    @agent.tool(capabilities=["booking.write"], action_builder=preview)
    def book(nights: int, password: str = "") -> str:
        """Book a room."""
        return f"{nights} nights"

    return agent


def booking(nights: int, **arguments: Any) -> Task:
    return Task.create_tool_call("book", {"nights": nights, **arguments})


def booked(task: Task) -> Any:
    """What the tool said."""
    return task.artifacts[-1].parts[0].as_tool_output().result


def client_of(agent: Agent, name: str = "") -> AgentClient:
    metadata = (("authorization", name),) if name else ()
    return AgentClient(url=agent.card.url, metadata=metadata)


async def asked(client: AgentClient, count: int = 1) -> list[Approval]:
    """What waits, once so much does."""
    found: list[Approval] = []
    async with asyncio.timeout(PATIENCE_S):
        async with aclosing(client.watch_approvals()) as approvals:
            while len(found) < count:
                found.append(await anext(approvals))
    return found


@pytest.fixture(params=["grpc://127.0.0.1:0", "runtime://hotel"], ids=["grpc", "runtime"])
async def agent(request: pytest.FixtureRequest, store: TaskStore) -> AsyncIterator[Agent]:
    async with hotel(Approvals(), request.param, store=store) as running:
        yield running


async def test_a_run_waits_for_an_answer_from_outside_and_goes_on(agent: Agent) -> None:
    client = client_of(agent)
    task = await client.submit_task(None, booking(2, password="hush"))
    (approval,) = await asked(client)
    request = approval.request
    assert (request.task_id, request.action.name, approval.state) == (task.id, "book", ApprovalState.PENDING)
    assert request.action.payload["arguments"] == {"nights": 2, "password": "[REDACTED]"}
    assert request.action.artifacts[0].parts[0].content == "a room for 2 nights"
    answer = await client.respond_approval(None, request.request_id, True, reason="why not", etag=approval.etag)
    assert not answer.already_decided
    assert answer.approval.state is ApprovalState.APPROVED
    assert answer.approval.decision is not None
    assert answer.approval.decision.reason == "why not"
    assert booked(await client.wait_task(task.id)) == "2 nights"


async def test_a_denial_fails_the_action_with_its_reason(agent: Agent) -> None:
    client = client_of(agent)
    task = await client.submit_task(None, booking(2))
    (approval,) = await asked(client)
    await client.respond_approval(None, ApprovalDecision(False, approval.request.request_id, "too dear"))
    ended = await client.wait_task(task.id)
    assert "too dear" in str(ended.to_dict())
    assert not any("2 nights" in str(artifact.to_dict()) for artifact in ended.artifacts)


async def test_edited_arguments_are_what_runs(agent: Agent) -> None:
    client = client_of(agent)
    task = await client.submit_task(None, booking(9))
    (approval,) = await asked(client)
    with pytest.raises(InvalidArgumentError) as refused:
        await client.respond_approval(None, approval, True, edited_arguments={"nights": "many"})
    assert refused.value.field.startswith("edited_arguments")
    answer = await client.respond_approval(None, approval, True, edited_arguments={"nights": 3})
    assert answer.approval.decision is not None
    assert answer.approval.decision.edited_arguments == {"nights": 3}
    assert booked(await client.wait_task(task.id)) == "3 nights"


async def test_lists_come_in_pages_by_state_and_task(agent: Agent) -> None:
    client = client_of(agent)
    tasks = [await client.submit_task(None, booking(nights)) for nights in (1, 2, 3)]
    approvals = await asked(client, 3)
    first = await client.list_approvals(page_size=2)
    second = await client.list_approvals(page_size=2, page_token=first.next_page_token)
    assert [*first.approvals, *second.approvals] == approvals
    assert second.next_page_token == ""
    await client.respond_approval(None, approvals[0].request.request_id, False)
    assert (await client.list_approvals()).approvals == approvals[1:]
    (denied,) = (await client.list_approvals(states=["denied", ApprovalState.APPROVED])).approvals
    assert denied.request == approvals[0].request
    (mine,) = (await client.list_approvals(task_id=tasks[2].id)).approvals
    assert mine.request.task_id == tasks[2].id


async def test_a_second_answer_changes_nothing_and_says_so(agent: Agent) -> None:
    client = client_of(agent)
    task = await client.submit_task(None, booking(2))
    (approval,) = await asked(client)
    first = await client.respond_approval(None, approval, True)
    again = await client.respond_approval(None, approval, False)
    assert again.already_decided
    assert again.approval == first.approval
    assert booked(await client.wait_task(task.id)) == "2 nights"


async def test_the_errors_of_an_answer_have_their_types(agent: Agent) -> None:
    client = client_of(agent)
    await client.submit_task(None, booking(2))
    (approval,) = await asked(client)
    request_id = approval.request.request_id
    with pytest.raises(ApprovalNotFoundError) as unknown:
        await client.respond_approval(None, "unknown", True)
    assert unknown.value.metadata["approval_id"] == "unknown"
    with pytest.raises(ApprovalChangedError):
        await client.respond_approval(None, request_id, True, etag="0" * 64)
    with pytest.raises(InvalidArgumentError):
        await client.list_approvals(page_size=1001)
    with pytest.raises(InvalidArgumentError):
        await client.list_approvals(page_token="no token")
    assert (await client.list_approvals()).approvals == [approval]


async def test_an_answer_never_has_to_guess(agent: Agent) -> None:
    client = client_of(agent)
    with pytest.raises(InvalidArgumentError) as missing:
        await client.respond_approval(None, "r")
    assert missing.value.field == "approved"
    for more in ({"approved": True}, {"reason": "x"}, {"edited_arguments": {}}, {"etag": "f"}):
        with pytest.raises(InvalidArgumentError) as twice:
            await client.respond_approval(None, ApprovalDecision(True, "r"), **more)
        assert twice.value.field == "answer"
    with pytest.raises(InvalidArgumentError) as wrong:
        await client.list_approvals(states=["maybe"])
    assert wrong.value.field == "states"


async def test_a_canceled_task_withdraws_its_question(agent: Agent) -> None:
    client = client_of(agent)
    task = await client.submit_task(None, booking(2))
    async with asyncio.timeout(PATIENCE_S), aclosing(client.watch_approvals()) as approvals:
        waiting = await anext(approvals)
        await client.cancel_task(None, task.id)
        withdrawn = await anext(approvals)
    assert withdrawn.request == waiting.request
    assert withdrawn.state is ApprovalState.WITHDRAWN
    answer = await client.respond_approval(None, waiting, True)
    assert (answer.already_decided, answer.approval.state) == (True, ApprovalState.WITHDRAWN)


async def test_answers_do_not_wait_behind_runs(store: TaskStore) -> None:
    async with hotel(Approvals(), store=store, limits=Limits(max_concurrency=1)) as agent:
        client = client_of(agent)
        tasks = [await client.submit_task(None, booking(nights)) for nights in range(1, 6)]
        # Each of them waits, though one at a time may work: waiting takes no slot.
        for approval in await asked(client, 5):
            await client.respond_approval(None, approval, True)
        ended = [await client.wait_task(task.id) for task in tasks]
        assert [booked(task) for task in ended] == [f"{nights} nights" for nights in range(1, 6)]


def test_code_that_does_not_await_has_the_same_verbs() -> None:
    agent = hotel(Approvals())
    agent.start(background=True)
    try:
        client = client_of(agent).sync
        task = client.submit_task(None, booking(2))
        watch = client.watch_approvals()
        approval = next(watch)
        watch.close()
        assert client.list_approvals().approvals == [approval]
        assert not client.respond_approval(None, approval, True).already_decided
        assert booked(client.wait_task(task.id)) == "2 nights"
    finally:
        agent.stop()


# -- who -----------------------------------------------------------------------------------------------------------------


async def test_only_those_who_may_answer_or_have_asked_know_of_an_approval(store: TaskStore) -> None:
    approvals = Approvals(approvers=["boss"])
    async with hotel(approvals, store=store, server=ServerOptions(authenticate=by_name)) as agent:
        ann, bob, boss = (client_of(agent, name) for name in ("ann", "bob", "boss"))
        task = await ann.submit_task(None, booking(2))
        (approval,) = await asked(boss)
        request_id = approval.request.request_id
        assert await asked(ann) == [approval]
        assert (await bob.list_approvals()).approvals == []
        with pytest.raises(PermissionDeniedError):
            await ann.respond_approval(None, request_id, True)
        with pytest.raises(ApprovalNotFoundError):
            await bob.respond_approval(None, request_id, True)
        answer = await boss.respond_approval(
            None, ApprovalDecision(True, request_id, decided_by="ann", fingerprint=approval.etag)
        )
        assert answer.approval.decision is not None
        assert answer.approval.decision.decided_by == "boss"
        assert booked(await ann.wait_task(task.id)) == "2 nights"


async def test_an_agent_that_takes_no_answers_from_outside_says_so() -> None:
    async with hotel(Approvals(remote=False), approval_handler=lambda request, context: True) as agent:
        client = client_of(agent)
        with pytest.raises(UnimplementedError):
            await client.respond_approval(None, "r", True)
        assert booked(await client.send_task(None, booking(2))) == "2 nights"
        (approval,) = (await client.list_approvals(states=["approved"])).approvals
        assert approval.decision is not None
        assert approval.decision.decided_by == "approval_handler"


# -- the wire ------------------------------------------------------------------------------------------------------------


async def next_approvals(watch: Any) -> list[Any]:
    """Those of the next response that has some."""
    async with asyncio.timeout(PATIENCE_S):
        while not (approvals := list((await watch.read()).approvals)):
            pass
    return approvals


async def test_a_watch_says_where_its_reader_is_and_goes_on_from_there(
    channel: Callable[[str], grpc.aio.Channel], store: TaskStore
) -> None:
    async with hotel(Approvals(), store=store) as agent, asyncio.timeout(PATIENCE_S):
        client = client_of(agent)
        stub: Any = control_service_pb2_grpc.ControlServiceStub(channel(agent.card.url))
        nothing = await stub.WatchApprovals(pb.WatchApprovalsRequest()).read()
        begin = nothing.position.revision
        assert nothing == pb.WatchApprovalsResponse(
            position={"revision": begin, "head": begin, "caught_up": True, "reset": True}
        )
        await client.submit_task(None, booking(1))
        (asked_first,) = await asked(client)
        watch = stub.WatchApprovals(pb.WatchApprovalsRequest(after_revision=begin))
        first = await watch.read()
        assert [each.approval_id for each in first.approvals] == [asked_first.approval_id]
        assert first.position == watch_pb2.WatchPosition(revision=begin + 1, head=begin + 1, caught_up=True)
        await client.respond_approval(None, asked_first, True)
        second = await watch.read()
        assert second.position == watch_pb2.WatchPosition(revision=begin + 2, head=begin + 2)
        for after, reset in ((0, True), (begin - 1, True), (begin + 3, True), (begin, False), (begin + 2, False)):
            again = await stub.WatchApprovals(pb.WatchApprovalsRequest(after_revision=after)).read()
            assert (again.position.reset, again.position.caught_up) == (reset, True), after
            assert list(again.approvals) == (list(second.approvals) if after == begin else []), after


async def test_a_client_of_another_language_gets_what_the_contract_says(
    channel: Callable[[str], grpc.aio.Channel],
) -> None:
    async with hotel(Approvals()) as agent:
        stub: Any = control_service_pb2_grpc.ControlServiceStub(channel(agent.card.url))
        task = await client_of(agent).submit_task(None, booking(2))
        watch = stub.WatchApprovals(pb.WatchApprovalsRequest(task_id=task.id))
        seen = await next_approvals(watch)
        listed = (await stub.ListApprovals(pb.ListApprovalsRequest())).approvals
        assert seen == list(listed)
        assert listed[0].state == approval_pb2.APPROVAL_STATE_PENDING
        answer = pb.RespondApprovalRequest(
            approval_id=listed[0].approval_id,
            verdict=approval_pb2.APPROVAL_VERDICT_APPROVE,
            etag=listed[0].etag,
            request_id="once",
        )
        response = await stub.RespondApproval(answer)
        assert (response.already_decided, response.approval.state) == (False, approval_pb2.APPROVAL_STATE_APPROVED)
        assert await next_approvals(watch) == [response.approval]
        assert await stub.RespondApproval(answer) == response  # as if the first response had been lost
        answer.request_id = "another"
        assert (await stub.RespondApproval(answer)).already_decided
        watch.cancel()


NO: Any = {"verdict": approval_pb2.APPROVAL_VERDICT_DENY}
BAD = [
    (pb.ListApprovalsRequest(states=[17]), "states[0]"),
    (pb.ListApprovalsRequest(page_size=-1), "page_size"),
    (pb.ListApprovalsRequest(page_token="?"), "page_token"),
    (pb.ListApprovalsRequest(task_id="\n"), "task_id"),
    (pb.WatchApprovalsRequest(task_id="\n"), "task_id"),
    (pb.WatchApprovalsRequest(after_revision=-1), "after_revision"),
    (pb.RespondApprovalRequest(), "approval_id"),
    (pb.RespondApprovalRequest(approval_id="x" * 1000, **NO), "approval_id"),
    (pb.RespondApprovalRequest(approval_id="a"), "verdict"),
    (pb.RespondApprovalRequest(approval_id="a", verdict=17), "verdict"),
    (pb.RespondApprovalRequest(approval_id="a", request_id="x" * 129, **NO), "request_id"),
    (pb.RespondApprovalRequest(approval_id="a", edited_arguments={"json": "[]"}, **NO), "edited_arguments.json"),
    (pb.RespondApprovalRequest(approval_id="a", edited_arguments={}, **NO), "edited_arguments"),
]


async def test_what_cannot_be_right_is_refused_by_its_field(channel: Callable[[str], grpc.aio.Channel]) -> None:
    async with hotel(Approvals()) as agent:
        stub: Any = control_service_pb2_grpc.ControlServiceStub(channel(agent.card.url))
        for request, field in BAD:
            method = getattr(stub, type(request).__name__.removesuffix("Request"))
            call = method(request)
            with pytest.raises(grpc.aio.AioRpcError) as refused:
                await (call.read() if isinstance(request, pb.WatchApprovalsRequest) else call)
            assert refused.value.code() is grpc.StatusCode.INVALID_ARGUMENT
            assert refused.value.details().startswith(f"{field}: ")


async def test_a_watch_goes_on_over_a_cut_and_shows_what_was_asked_and_answered_meanwhile(
    wire: MakeWire, store: TaskStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    def no_list(*args: Any) -> None:
        raise AssertionError("the watch must not list approvals")

    async with hotel(Approvals(), store=store) as agent:
        direct = client_of(agent)
        for nights in (1, 2):
            await direct.submit_task(None, booking(nights))
        first, second = await asked(direct, 2)
        between = await wire(agent.card.url)
        async with asyncio.timeout(PATIENCE_S), aclosing(AgentClient(url=between.url).watch_approvals()) as watch:
            assert [await anext(watch), await anext(watch)] == [first, second]
            await between.sever()
            following = asyncio.ensure_future(anext(watch))
            answer = await direct.respond_approval(None, first, True)
            await direct.submit_task(None, booking(3))
            (third,) = [each for each in await asked(direct, 2) if each != second]
            await direct.submit_task(None, booking(4))
            (fourth,) = [each for each in await asked(direct, 3) if each not in (second, third)]
            denied = await direct.respond_approval(None, fourth.request.request_id, False)
            monkeypatch.setattr(RpcAgent, "list_approvals", no_list)
            await between.mend()
            # What waits is not shown again. What was asked for and answered comes, each as it is now.
            seen = [await following, await anext(watch), await anext(watch)]
            assert seen == [answer.approval, third, denied.approval]
            answer = await direct.respond_approval(None, second, False)
            assert await anext(watch) == answer.approval


async def test_a_watch_of_nobody_ends_at_once() -> None:
    with pytest.raises(UnavailableError):
        async with (
            asyncio.timeout(PATIENCE_S),
            aclosing(AgentClient(url="grpc://127.0.0.1:1", outage_s=0).watch_approvals()) as watch,
        ):
            await anext(watch)
