"""Our client and one of our agents behind an `http://` URL: nothing is lost that gRPC carries."""

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Mapping
from contextlib import aclosing, asynccontextmanager
from typing import Any

import httpx
import pytest
from foreign_world import listening, serving
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from protolink_grpc import (
    A2AOptions,
    AccessRules,
    Agent,
    AgentCard,
    AgentClient,
    APIKey,
    APIKeyAuth,
    Approvals,
    Artifact,
    CapabilityPolicy,
    DeadlineExceededError,
    HttpOptions,
    Part,
    Principal,
    RunContext,
    RunEvent,
    StopAt,
    Task,
    TaskNotFoundError,
    TaskState,
    UnavailableError,
    current_run,
)
from protolink_grpc.client.channel import ChannelOptions
from protolink_grpc.client.grpc_web import GrpcWebAgent
from protolink_grpc.client.http_channel import close_http_channels
from protolink_grpc.errors import (
    InvalidAgentResponseError,
    MessageTooLargeError,
    PermissionDeniedError,
    ProtolinkError,
    RemoteError,
    ResourceExhaustedError,
    SessionNotFoundError,
    ToolRejectedError,
    UnauthenticatedError,
    UnimplementedError,
)
from protolink_grpc.models.events import TaskProgress
from protolink_grpc.net.address import WebAddress

MakeWire = Callable[[str], Awaitable[Any]]
PATIENCE_S = 20.0
"""How long a test waits for what must happen; far more than it takes."""

CARD_PATH = "/.well-known/agent-card.json"


@pytest.fixture
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    """What was cut is repeated almost at once, so that many cuts cost little time."""
    monkeypatch.setattr("protolink_grpc.client.backoff.FIRST_PAUSE_S", 0.001)
    monkeypatch.setattr("protolink_grpc.client.backoff.LONGEST_PAUSE_S", 0.01)


class Worker(Agent):
    """Does what the first word says, and remembers what it was given."""

    def __init__(self, name: str = "worker", **options: Any) -> None:
        card = AgentCard(
            name=name,
            description="does as told",
            url="grpc://127.0.0.1:0",
            tags=["a", "b"],
            metadata={"region": "eu"},
        )
        options.setdefault("http", HttpOptions())
        super().__init__(card, grace_s=0.1, **options)
        self.seen: list[RunContext] = []
        self.runs = 0
        self.holding, self.release = asyncio.Event(), asyncio.Event()

    async def handle_task(self, task: Task) -> Task:
        run = current_run()
        assert run is not None
        self.runs += 1
        self.seen.append(run.context)
        word, _, rest = task.messages[-1].text.partition(" ")
        match word:
            case "hold":
                self.holding.set()
                await self.release.wait()
            case "count":
                for step in range(int(rest)):
                    await run.emit(TaskProgress(None, f"step {step}"))
            case "large":
                for _ in range(int(rest)):
                    await run.artifact(Artifact(parts=[Part.text("x" * (1 << 20))]))
            case "work":
                for step in range(4):
                    await run.emit(TaskProgress(25.0 * step, f"step {step}"))
                await run.artifact(Artifact(id="result", parts=[Part.text("one ")]))
                await run.artifact(Artifact(id="result", parts=[Part.text("two")]), append=True, last_chunk=True)
        return task.complete(rest[:100])


def with_context(text: str) -> Task:
    context = RunContext(trace_id="t" * 32, workspace_uri="file:///work", metadata={"team": "red", "level": 3})
    return Task.create(text, context=context)


def told(events: list[RunEvent]) -> list[tuple[Any, ...]]:
    """What events say, without what is new in every run."""
    return [(each.sequence, each.type, each.state, each.final, each.summary) for each in events]


# -- the same as over gRPC -----------------------------------------------------------------------------------------------------


async def test_a_stream_over_http_has_the_events_of_one_over_grpc() -> None:
    async with Worker() as worker:
        seen = {}
        for url in (worker.card.url, worker.http_url):
            stream = AgentClient().send_task_streaming(url, with_context("work hard"))
            seen[url] = told([event async for event in stream])
        assert len(seen[worker.card.url]) == 10
        assert seen[worker.http_url] == seen[worker.card.url]


async def test_trace_workspace_and_metadata_arrive_over_http() -> None:
    async with Worker() as worker:
        done = await AgentClient().send_task(worker.http_url, with_context("echo"))
        for context in (worker.seen[0], RunContext.from_task(done)):
            assert context.trace_id == "t" * 32
            assert context.workspace_uri == "file:///work"
            assert context.metadata == {"team": "red", "level": 3}


async def test_the_card_over_http_is_the_whole_card() -> None:
    async with Worker() as worker:
        cards = [await AgentClient().get_agent_card(url) for url in (worker.card.url, worker.http_url)]
        assert cards[1] == cards[0] == worker.card
        assert cards[1].metadata == {"region": "eu"}


async def test_an_agent_calls_its_peer_over_http_with_all_of_its_context() -> None:
    class Boss(Worker):
        async def handle_task(self, task: Task) -> Task:
            run = current_run()
            assert run is not None
            self.run_id = run.run_id
            done = await self.call_agent(self.peer, Task.create("echo well"))
            return task.complete(done.messages[-1].text)

        peer = run_id = ""

    async with Worker() as worker, Boss("boss") as boss:
        boss.peer = worker.http_url
        done = await AgentClient(url=boss.card.url).send_task(None, with_context("ask"))
        assert done.messages[-1].text == "well"
        (context,) = worker.seen
        assert (context.trace_id, context.workspace_uri) == ("t" * 32, "file:///work")
        assert context.agent_chain == ["boss", "worker"]
        assert context.parent_run_id == boss.run_id


async def test_reports_exports_and_state_are_there_over_http() -> None:
    async with Worker(state="conversation") as worker:
        client = AgentClient(url=worker.http_url)
        done = await client.send_task(None, Task.create("work", session_id="monday"))
        assert (await client.get_run_report(None, done.id)).task_id == done.id
        assert len([line async for line in client.export_task(None, done.id)]) == 10
        assert [task.id for task in (await client.list_tasks(session_id="monday")).tasks] == [done.id]
        assert (await client.describe_state(session_id="monday")).operation == "describe"
        with pytest.raises(SessionNotFoundError):
            await client.reset_state(session_id="tuesday")


async def test_an_approval_is_watched_and_answered_over_http() -> None:
    policy = CapabilityPolicy({"send": "require_approval"})
    async with Agent(
        name="mailer", url="http://127.0.0.1:0", policy=policy, approvals=Approvals(remote=True)
    ) as mailer:

        @mailer.tool(capabilities=["send"])
        def send(to: str) -> str:
            """Send."""
            return f"sent to {to}"

        client = AgentClient(url=mailer.card.url)
        async with asyncio.timeout(PATIENCE_S):
            calling = asyncio.create_task(client.call_tool(None, "send", {"to": "ann"}))
            async with aclosing(client.watch_approvals()) as approvals:
                asked = await anext(approvals)
            assert [each.request.request_id for each in (await client.list_approvals()).approvals] == [
                asked.request.request_id
            ]
            await client.respond_approval(None, asked, True)
            assert await calling == "sent to ann"


async def test_the_errors_of_a_call_over_http_have_their_types_and_details() -> None:
    async with Agent(name="adder", url="http://127.0.0.1:0") as adder:

        @adder.tool
        def add(a: int, b: int) -> int:
            """Add."""
            return a + b

        client = AgentClient(url=adder.card.url)
        with pytest.raises(TaskNotFoundError) as unknown:
            await client.get_task("no-such-task")
        assert unknown.value.metadata["task_id"] == "no-such-task"
        with pytest.raises(ToolRejectedError) as rejected:
            await client.call_tool(None, "ad", {"a": 1, "b": 2})
        assert rejected.value.suggestion


async def test_who_wants_a2a_gets_a2a() -> None:
    async with Worker() as worker:
        done = await AgentClient("a2a").send_task(worker.http_url, Task.create("echo well"))
        assert "a2a" in done.metadata


# -- what the network does -------------------------------------------------------------------------------------------------------


@pytest.mark.usefixtures("impatient")
@pytest.mark.parametrize("seed", range(2))
async def test_a_stream_over_http_survives_many_cuts_and_runs_once(wire: MakeWire, seed: int) -> None:
    async with Worker() as worker:
        between = await wire(worker.http_url)
        client = AgentClient(url=between.url)
        await client.get_agent_card()
        between.cut_after([(40, 300, 3_000, 6_000, 12_000)[(seed + step * 7) % 5] for step in range(20)])
        between.cut()
        task = Task.create("count 1000")
        seen = [event async for event in client.send_task_streaming(None, task)]
        assert seen == [event async for event in AgentClient(url=worker.card.url).subscribe(task.id)]
        assert [event.sequence for event in seen] == list(range(1, len(seen) + 1))
        assert (seen[-1].state, worker.runs) == (TaskState.COMPLETED, 1)
        assert between.connections > 10


@pytest.mark.usefixtures("impatient")
async def test_a_send_over_http_that_is_cut_is_repeated_and_runs_once(wire: MakeWire) -> None:
    async with Worker() as worker:
        between = await wire(worker.http_url)
        client = AgentClient(url=between.url)
        await client.get_agent_card()
        sending = asyncio.create_task(client.send_task(None, Task.create("hold on")))
        await worker.holding.wait()
        before = between.connections
        between.cut()
        async with asyncio.timeout(PATIENCE_S):
            while between.connections == before:
                await asyncio.wait([sending], timeout=0.01)
        worker.release.set()
        assert (await sending).state is TaskState.COMPLETED
        assert worker.runs == 1


async def test_a_deadline_ends_the_wait_and_not_the_task() -> None:
    async with Worker() as worker:
        client, task = AgentClient(url=worker.http_url), Task.create("hold on")
        await client.get_agent_card()
        with pytest.raises(DeadlineExceededError):
            await AgentClient(url=worker.http_url, timeout=0.5).send_task(None, task)
        assert (await client.get_task(task.id)).state is TaskState.WORKING
        worker.release.set()
        assert (await client.wait_task(task.id)).state is TaskState.COMPLETED


async def test_a_server_that_never_answers_is_left_after_the_timeout(wire: MakeWire) -> None:
    async with Worker() as worker:
        between = await wire(worker.http_url)
        client = AgentClient(url=between.url, timeout=0.5)
        done = await client.send_task(None, Task.create("echo"))
        between.fall_silent()
        with pytest.raises(DeadlineExceededError) as caught:
            await client.get_task(done.id)
        assert caught.value.metadata == {"url": between.url, "task_id": done.id}


async def test_closing_a_stream_gives_its_place_to_the_next_one() -> None:
    async with Worker(http=HttpOptions(max_streams_per_principal=1)) as worker:
        client = AgentClient(url=worker.http_url)
        task = await client.submit_task(None, Task.create("hold on"))
        async with asyncio.timeout(PATIENCE_S):
            for _ in range(3):
                async with aclosing(await placed(client, task.id)):
                    with pytest.raises(ResourceExhaustedError):
                        await anext(agent_at(worker.http_url).watch(task.id, 0, StopAt.TERMINAL, timeout_s=5.0))


async def placed(client: AgentClient, task_id: str) -> AsyncGenerator[RunEvent, None]:
    """A subscription that has shown its first event. The agent may need a moment to notice that the one before was closed."""
    while True:
        stream = client.subscribe(task_id)
        try:
            assert (await anext(stream)).sequence == 1
        except ResourceExhaustedError:
            await asyncio.sleep(0.01)
        else:
            return stream


def agent_at(url: str) -> GrpcWebAgent:
    """The agent, called once for each call: what is cut is not tried again."""
    return GrpcWebAgent(WebAddress.parse(url), ChannelOptions(outage_s=0))


async def test_large_answers_arrive_and_too_large_requests_are_named() -> None:
    async with Worker() as worker:
        client = AgentClient(url=worker.http_url)
        done = await client.send_task(None, Task.create("large 6"))
        assert [len(artifact.parts[0].content) for artifact in done.artifacts] == [1 << 20] * 6
        with pytest.raises(MessageTooLargeError):
            await client.send_task(None, Task.create("x" * (5 << 20)))


async def test_many_calls_one_after_the_other_share_a_connection(wire: MakeWire) -> None:
    async with Worker() as worker:
        between = await wire(worker.http_url)
        client = AgentClient(url=between.url)
        for _ in range(5):
            [_ async for _ in client.send_task_streaming(None, Task.create("work"))]
            await client.list_tasks()
        assert between.connections == 1


async def _runs_of(client: AgentClient, verb: str, url: str, task: Task) -> None:
    if verb == "stream":
        [_ async for _ in client.send_task_streaming(url, task)]
    else:
        await getattr(client, verb)(url, task)


@pytest.mark.usefixtures("impatient")
@pytest.mark.parametrize("verb", ["send_task", "submit_task", "stream"])
@pytest.mark.parametrize("binding", ["JSONRPC", "HTTP+JSON"])
async def test_a_message_over_a2a_that_is_cut_is_repeated_under_its_key_and_runs_once(
    wire: MakeWire, verb: str, binding: str
) -> None:
    bound, port = listening()
    bound.close()
    between = await wire(f"http://127.0.0.1:{port}")
    http = HttpOptions(listen=f"127.0.0.1:{port}", public_url=between.url)
    async with Worker(http=http, a2a=A2AOptions(interfaces=(binding,))) as worker:
        client = AgentClient("a2a")
        await client.get_agent_card(between.url)
        await close_http_channels()
        between.cut_after([0, 0])  # the answers to the first two attempts
        await _runs_of(client, verb, between.url, Task.create("echo"))
        assert between.connections >= 3
        assert worker.runs == 1


# -- who calls -------------------------------------------------------------------------------------------------------------------


async def test_metadata_and_credentials_go_with_each_call() -> None:
    seen: list[Mapping[str, str]] = []

    async def hook(method: str, metadata: Mapping[str, str]) -> Principal | None:
        seen.append(metadata)
        return Principal("ann") if metadata.get("x-api-key") == "secret" else None

    async with Worker(authenticator=hook) as worker:
        client = AgentClient(url=worker.http_url, metadata=[("x-team", "red")], credentials=APIKey("secret"))
        done = await client.send_task(None, Task.create("echo"))
        [_ async for _ in client.subscribe(done.id)]
        calls = [each for each in seen if "x-grpc-web" in each]
        assert len(calls) >= 3
        assert all((each["x-team"], each["x-api-key"]) == ("red", "secret") for each in calls)
        with pytest.raises(UnauthenticatedError):
            await AgentClient(url=worker.http_url).send_task(None, Task.create("echo"))


async def test_refused_credentials_are_renewed_once() -> None:
    class Renewed:
        def __init__(self) -> None:
            self.key = "old"

        async def headers(self, audience_url: str) -> Mapping[str, str]:
            return {"x-api-key": self.key}

        async def refresh(self, refused: Mapping[str, str] | None = None) -> bool:
            renewed, self.key = self.key != "new", "new"
            return renewed

    async with Worker(authenticator=APIKeyAuth({"new": ["all"]})) as worker:
        client = AgentClient(url=worker.http_url, credentials=Renewed())
        assert (await client.send_task(None, Task.create("echo"))).state is TaskState.COMPLETED


async def test_the_public_card_is_shown_without_credentials() -> None:
    async with Worker(authenticator=APIKeyAuth({"secret": ["all"]})) as worker:
        assert (await AgentClient().get_agent_card(worker.http_url)).name == "worker"


async def test_a_caller_whom_rules_leave_a2a_alone_is_served_over_a2a() -> None:
    rules = AccessRules({"/lf.a2a.v1.A2AService/*": True}, default=False)
    async with Worker(authenticator=APIKeyAuth({"secret": ["all"]}), access=rules) as worker:
        client = AgentClient(url=worker.http_url, credentials=APIKey("secret"))
        done = await client.send_task(None, Task.create("echo"))
        assert (done.state, "a2a" in done.metadata) == (TaskState.COMPLETED, True)


# -- what stands before it -------------------------------------------------------------------------------------------------------


@asynccontextmanager
async def proxy(target: str, answer: Callable[[Request, int], Response | None]) -> AsyncIterator[str]:
    """An HTTP proxy before an agent. `answer` may answer a gRPC-Web call itself, told how many there were before."""
    calls = 0
    bound, port = listening()

    async def handle(request: Request) -> Response:
        nonlocal calls
        if request.url.path.startswith("/plgrpc.v1."):
            own = answer(request, calls)
            calls += 1
            if own is not None:
                return own
        kept = {key: value for key, value in request.headers.items() if key not in ("host", "content-length")}
        async with httpx.AsyncClient() as http:
            found = await http.request(
                request.method, target + request.url.path, headers=kept, content=await request.body()
            )
        return Response(found.content, found.status_code, media_type=found.headers["content-type"])

    routes = [Route("/{path:path}", handle, methods=["GET", "POST"])]
    async with serving(Starlette(routes=routes), bound):
        yield f"http://127.0.0.1:{port}"


@pytest.mark.parametrize("status", [403, 404, 405, 415, 501])
async def test_an_agent_whose_proxy_lets_nothing_but_a2a_through_is_spoken_to_over_a2a(status: int) -> None:
    async with Worker() as worker, proxy(worker.http_url, lambda *_: Response("no", status)) as url:
        done = await AgentClient(url=url).send_task(None, Task.create("echo well"))
        assert (done.messages[-1].text, "a2a" in done.metadata) == ("well", True)


@pytest.mark.usefixtures("impatient")
@pytest.mark.parametrize("status", [502, 503])
async def test_a_call_that_a_proxy_turned_away_for_a_moment_is_repeated(status: int) -> None:
    async with Worker() as worker:
        turned_away = {1, 2}  # the call before is the one that asks for the card
        async with proxy(
            worker.http_url, lambda _, number: Response("busy", status) if number in turned_away else None
        ) as url:
            done = await AgentClient(url=url).send_task(None, Task.create("echo"))
        assert (done.state, worker.runs) == (TaskState.COMPLETED, 1)


REFUSALS = [
    (401, {}, UnauthenticatedError),
    (403, {}, PermissionDeniedError),
    (404, {}, UnimplementedError),
    (413, {}, MessageTooLargeError),
    (429, {"retry-after": "7"}, ResourceExhaustedError),
    (500, {}, RemoteError),
    (503, {}, UnavailableError),
    (504, {}, DeadlineExceededError),
]


@pytest.mark.usefixtures("impatient")
@pytest.mark.parametrize(("status", "headers", "kind"), REFUSALS, ids=[str(row[0]) for row in REFUSALS])
async def test_a_refusal_before_the_call_has_its_type(
    status: int, headers: dict[str, str], kind: type[ProtolinkError]
) -> None:
    refused = JSONResponse({"error": {"message": "not now"}}, status, headers)
    async with answering(refused) as agent:
        with pytest.raises(kind, match="not now" if kind is not DeadlineExceededError else "in time") as caught:
            await agent.get("t", 5.0)
    assert type(caught.value) is kind
    if isinstance(caught.value, ResourceExhaustedError):
        assert caught.value.retry_after_s == 7.0


WEB = "application/grpc-web+proto"
BROKEN = {
    "a page": Response("<html>", 200, media_type="text/html"),
    "no frame": Response(b"hello, this is no frame", 200, media_type=WEB),
    "no status": Response(b"\x80\x00\x00\x00\x04a: b", 200, media_type=WEB),
    "compressed": Response(b"\x01\x00\x00\x00\x01x", 200, media_type=WEB),
    "no message": Response(b"\x80\x00\x00\x00\x0egrpc-status: 0", 200, media_type=WEB),
    "another message": Response(b"\x00\x00\x00\x00\x02\xff\xff\x80\x00\x00\x00\x0egrpc-status: 0", 200, media_type=WEB),
    "a frame of 2 GiB": Response(b"\x00\x7f\xff\xff\xff" + b"x" * 100, 200, media_type=WEB),
}


@pytest.mark.parametrize("name", BROKEN)
async def test_what_is_no_grpc_web_is_the_peers_mistake(name: str) -> None:
    async with answering(BROKEN[name]) as agent:
        with pytest.raises(InvalidAgentResponseError):
            await agent.get("t", 5.0)


@pytest.mark.usefixtures("impatient")
@pytest.mark.parametrize("body", [b"", b"\x00\x00\x00", b"\x00\x00\x00\x00\x05ab"])
async def test_an_answer_that_ends_before_its_trailers_is_a_cut(body: bytes) -> None:
    async with answering(Response(body, 200, media_type=WEB)) as agent:
        with pytest.raises(UnavailableError, match="response is incomplete"):
            await agent.get("t", 5.0)


async def test_a_status_in_the_headers_counts() -> None:
    only = Response(b"", 200, {"grpc-status": "5", "grpc-message": "gone%20away"}, media_type=WEB)
    async with answering(only) as agent:
        with pytest.raises(RemoteError, match="gone away") as caught:
            await agent.get("t", 5.0)
        assert caught.value.code == "NOT_FOUND"


@asynccontextmanager
async def answering(response: Response) -> AsyncIterator[GrpcWebAgent]:
    """An agent whose server answers every call with this."""

    async def handle(request: Request) -> Response:
        await request.body()
        return response

    bound, port = listening()
    async with serving(Starlette(routes=[Route("/{path:path}", handle, methods=["POST"])]), bound):
        yield agent_at(f"http://127.0.0.1:{port}")
