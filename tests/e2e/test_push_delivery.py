"""Push notifications over real connections: deliveries, forbidden receivers, and crashes."""

import asyncio
import datetime
import json
import logging
import ssl
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from ipaddress import ip_address
from pathlib import Path
from typing import Any

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from ports import free_port

from protolink_grpc.a2a import push_post
from protolink_grpc.a2a.push import NotificationBatch, PushOptions, Webhooks
from protolink_grpc.a2a.push_delivery import RetryPolicy
from protolink_grpc.a2a.push_post import MAX_BODY_BYTES, Notification, Poster
from protolink_grpc.a2a.push_targets import PushTargets
from protolink_grpc.a2a.values import V03, V1
from protolink_grpc.errors import InvalidArgumentError
from protolink_grpc.models.lifecycle import TaskState
from protolink_grpc.models.push_config import PushConfig
from protolink_grpc.models.task import Task
from protolink_grpc.runtime.admission import AcceptedTurn
from protolink_grpc.runtime.run import Run
from protolink_grpc.runtime.service import TaskService
from protolink_grpc.runtime.submission import Submission
from protolink_grpc.storage.port import TaskStore
from protolink_grpc.storage.sqlite.store import SQLiteStore

PATIENCE_S = 20.0
"""How long something that must happen may take; far more than it needs on a busy machine."""

OK = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"


def status(line: str, *headers: str) -> bytes:
    return "\r\n".join([f"HTTP/1.1 {line}", *headers, "Content-Length: 0", "", ""]).encode()


@dataclass
class Got:
    """A request as it came in. `connection` tells those of one connection."""

    line: str
    headers: dict[str, str]
    body: bytes
    connection: int

    @property
    def sequence(self) -> int:
        found: int = json.loads(self.body)["sequence"]
        return found


@dataclass
class Receiver:
    """An HTTP server on the loopback interface that answers as it is told.

    Attributes:
        answers: What to say next, as bytes of the connection; without any left, OK.
        gate: Closed, no request gets its answer.
        got: Every request.
        accepted: Those that were answered OK.
    """

    answers: list[bytes] = field(default_factory=list)
    got: list[Got] = field(default_factory=list)
    accepted: list[Got] = field(default_factory=list)
    connections: int = 0
    port: int = 0
    gate: asyncio.Event = field(default_factory=asyncio.Event)
    news: asyncio.Condition = field(default_factory=asyncio.Condition)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}/hook"

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        connection = self.connections
        try:
            while head := await reader.readuntil(b"\r\n\r\n"):
                line, *lines = head.decode().strip().split("\r\n")
                headers = {name.lower(): value for name, _, value in (each.partition(": ") for each in lines)}
                body = await reader.readexactly(int(headers.get("content-length", 0)))
                self.got.append(Got(line, headers, body, connection))
                await self.tell()
                await self.gate.wait()
                answer = self.answers.pop(0) if self.answers else OK
                if answer == OK:
                    self.accepted.append(self.got[-1])
                    await self.tell()
                if not answer:
                    break
                writer.write(answer)
                await writer.drain()
        except (asyncio.IncompleteReadError, ConnectionError):
            pass  # the other side hangs up when it wants to
        finally:
            writer.close()

    async def tell(self) -> None:
        async with self.news:
            self.news.notify_all()

    async def until(self, claim: Callable[[], object]) -> None:
        async with asyncio.timeout(PATIENCE_S), self.news:
            await self.news.wait_for(claim)

    @property
    def sequences(self) -> list[int]:
        return [got.sequence for got in self.accepted]


@asynccontextmanager
async def receiving(*answers: bytes, tls: ssl.SSLContext | None = None) -> AsyncIterator[Receiver]:
    receiver = Receiver(list(answers))
    receiver.gate.set()
    connections: set[asyncio.Task[None]] = set()

    def connected(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        connections.add(asyncio.ensure_future(receiver.serve(reader, writer)))

    server = await asyncio.start_server(connected, "127.0.0.1", 0, ssl=tls)
    receiver.port = server.sockets[0].getsockname()[1]
    try:
        yield receiver
    finally:
        server.close()
        for each in connections:
            each.cancel()
        if connections:
            await asyncio.wait(connections)


@asynccontextmanager
async def posting(
    allow: Sequence[str] = ("private",),
    *,
    addresses: Sequence[str] | None = None,
    timeout_s: float = PATIENCE_S,
    tls: ssl.SSLContext | None = None,
) -> AsyncIterator[Poster]:
    """A poster for which each name has `addresses`; None asks the system."""

    async def resolve(host: str, port: int) -> Sequence[str]:
        return addresses or ()

    targets = PushTargets(allow, None if addresses is None else resolve)
    poster = Poster(targets, timeout_s=timeout_s, connections=4, tls=tls)
    yield poster
    await poster.close()


def note(url: str, version: str = V1, body: bytes = b"{}", **known: Any) -> Notification:
    return Notification(replace(PushConfig(url), **known), version, body)


# -- the request ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("version", "media_type"), [(V1, "application/a2a+json"), (V03, "application/json")])
async def test_a_notification_is_a_post_of_its_versions_media_type_with_the_credentials_of_the_config(
    version: str, media_type: str
) -> None:
    async with receiving() as receiver, posting() as poster:
        url = f"http://127.0.0.1:{receiver.port}/a/b?c=d&e"
        answer = await poster.post(
            note(url, version, b'{"x":"\xc3\xbc"}', token="t", scheme="Bearer", credentials="c==")
        )
        assert answer.delivered
        await poster.post(note(receiver.url))
    full, plain = receiver.got
    assert full.line == "POST /a/b?c=d&e HTTP/1.1"
    assert full.body == b'{"x":"\xc3\xbc"}'
    expected = {
        "host": f"127.0.0.1:{receiver.port}",
        "content-type": media_type,
        "content-length": "10",
        "authorization": "Bearer c==",
        "x-a2a-notification-token": "t",
    }
    assert expected.items() <= full.headers.items()
    assert not {"authorization", "x-a2a-notification-token"} & plain.headers.keys()


async def test_notifications_to_one_receiver_share_a_connection() -> None:
    async with receiving() as receiver, posting() as poster:
        for _ in range(5):
            assert (await poster.post(note(receiver.url))).delivered
        assert receiver.connections == 1


@pytest.mark.parametrize(
    ("answer", "delivered", "gone", "wait_s"),
    [
        (status("202 Accepted"), True, False, 0),
        (status("204 No Content"), True, False, 0),
        (status("400 Bad Request"), False, False, 0),
        (status("404 Not Found"), False, False, 0),
        (status("410 Gone"), False, True, 0),
        (status("429 Too Many Requests", "Retry-After: 7"), False, False, 7),
        (status("500 Oops", "Retry-After: 7"), False, False, 0),
        (status("503 Busy", "retry-after: 9"), False, False, 9),
        (status("503 Busy"), False, False, 0),
    ],
)
async def test_what_the_status_says(answer: bytes, delivered: bool, gone: bool, wait_s: float) -> None:
    async with receiving(answer) as receiver, posting() as poster:
        said = await poster.post(note(receiver.url))
    assert (said.delivered, said.gone, said.retry_after_s) == (delivered, gone, wait_s)


@pytest.mark.parametrize(
    "answer",
    [b"", b"SSH-2.0-OpenSSH\r\n\r\n", b"HTTP/1.1 200 OK\r\nContent-Le", b"\xff" * 100, b"HTTP/1.1 100 Go\r\n\r\n" * 99],
    ids=["nothing", "another protocol", "half an answer", "noise", "no end of beginnings"],
)
async def test_a_receiver_that_does_not_speak_http_has_not_accepted_and_the_next_attempt_is_a_fresh_one(
    answer: bytes,
) -> None:
    async with receiving(answer) as receiver, posting(timeout_s=0.5) as poster:
        assert not (await poster.post(note(receiver.url))).delivered
        assert (await poster.post(note(receiver.url))).delivered
        assert receiver.connections == 2


async def test_what_was_accepted_is_accepted_however_the_answer_goes_on(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(push_post, "DRAIN_S", 0.05)
    accepted = b"HTTP/1.1 200 OK\r\n"
    answers = [accepted + b"Content-Length: 10\r\n\r\nshort", accepted + b"Transfer-Encoding: chunked\r\n\r\nnoise\r\n"]
    async with receiving(*answers) as receiver, posting() as poster:
        for _ in range(3):
            assert (await poster.post(note(receiver.url))).delivered
        assert receiver.connections == 3


async def test_a_receiver_that_is_silent_costs_so_much_time_and_no_more() -> None:
    async with receiving() as receiver, posting(timeout_s=0.05) as poster:
        receiver.gate.clear()
        said = await poster.post(note(receiver.url))
        assert (said.delivered, said.why) == (False, "no response within 0.05 s")


async def test_nobody_listens_is_a_failed_attempt() -> None:
    async with receiving() as receiver:
        pass
    async with posting() as poster:
        assert await poster.post(note(receiver.url)) == replace(
            await poster.post(note(receiver.url)), delivered=False, why="cannot connect"
        )


async def test_an_endless_answer_is_not_read_to_its_end() -> None:
    endless = b"HTTP/1.1 200 OK\r\nContent-Length: 1000000000\r\n\r\n" + b"x" * (4 * MAX_BODY_BYTES)
    async with receiving(endless) as receiver, posting() as poster:
        assert (await poster.post(note(receiver.url))).delivered
        assert (await poster.post(note(receiver.url))).delivered
        assert receiver.connections == 2  # the first one is of no more use


# -- forbidden receivers -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("code", [301, 302, 303, 307, 308])
async def test_a_redirect_is_a_failure_wherever_it_leads(code: int) -> None:
    async with receiving() as elsewhere:
        for target in ("http://169.254.169.254/latest/meta-data/", elsewhere.url):
            async with receiving(status(f"{code} Go", f"Location: {target}")) as receiver, posting() as poster:
                said = await poster.post(note(receiver.url))
                assert (said.delivered, said.why) == (False, f"HTTP {code}")
        assert elsewhere.connections == 0


async def test_a_receiver_on_this_machine_is_not_called_unless_allowed() -> None:
    async with receiving() as receiver:
        for host in ("127.0.0.1", "localhost", "127.1", "2130706433", "0x7f.1", "0", "[::ffff:127.0.0.1]"):
            async with posting(()) as poster:
                said = await poster.post(note(f"http://{host}:{receiver.port}/"))
                assert not said.delivered
                assert "are not allowed" in said.why
        assert receiver.connections == 0


async def test_a_name_that_was_public_when_it_was_registered_is_judged_again_when_it_is_called() -> None:
    answers = [["8.8.8.8"], ["127.0.0.1"]]

    async def rebinding(host: str, port: int) -> Sequence[str]:
        return answers.pop(0)

    async with receiving() as receiver:
        targets = PushTargets((), rebinding)
        poster = Poster(targets, timeout_s=PATIENCE_S, connections=1)
        url = f"http://rebinding.test:{receiver.port}/"
        await targets.check(url)
        said = await poster.post(note(url))
        assert (said.delivered, receiver.connections) == (False, 0)
        assert not answers
        await poster.close()


async def test_the_connection_goes_to_the_address_that_was_judged_and_the_name_is_looked_up_once() -> None:
    lookups: list[str] = []

    async def once(host: str, port: int) -> Sequence[str]:
        lookups.append(host)
        return ["127.0.0.1"]

    async with receiving() as receiver:
        # No resolver of this system knows the name: only the judged address can lead there.
        poster = Poster(PushTargets(("127.0.0.0/8",), once), timeout_s=PATIENCE_S, connections=1)
        assert (await poster.post(note(f"http://judged.test:{receiver.port}/"))).delivered
        await poster.close()
    assert lookups == ["judged.test"]
    assert receiver.got[0].headers["host"] == f"judged.test:{receiver.port}"


async def test_where_one_address_does_not_answer_the_next_one_is_asked() -> None:
    async with receiving() as receiver, posting(addresses=["127.0.0.9", "127.0.0.1"]) as poster:
        assert (await poster.post(note(f"http://two.test:{receiver.port}/"))).delivered


async def test_a_proxy_of_the_environment_is_not_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    async with receiving() as proxy, receiving() as receiver, posting() as poster:
        for name in ("http_proxy", "HTTP_PROXY", "all_proxy", "ALL_PROXY"):
            monkeypatch.setenv(name, f"http://127.0.0.1:{proxy.port}")
        assert (await poster.post(note(receiver.url))).delivered
        assert (proxy.connections, receiver.connections) == (0, 1)


# -- TLS -----------------------------------------------------------------------------------------------------------------


def certified(directory: Path, name: str) -> tuple[ssl.SSLContext, ssl.SSLContext]:
    """A server that is `name` and 127.0.0.1's neighbour, and a client that trusts it."""
    key = ec.generate_private_key(ec.SECP256R1())
    subject = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, name)])
    now = datetime.datetime.now(datetime.UTC)
    names = x509.SubjectAlternativeName([x509.DNSName(name), x509.IPAddress(ip_address("127.0.0.2"))])
    certificate = (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(subject)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - datetime.timedelta(days=1))
        .not_valid_after(now + datetime.timedelta(days=1))
        .add_extension(names, critical=False)
        .sign(key, hashes.SHA256())
    )
    public, private = directory / f"{name}.pem", directory / f"{name}.key"
    public.write_bytes(certificate.public_bytes(serialization.Encoding.PEM))
    private.write_bytes(
        key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    )
    server = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    server.load_cert_chain(public, private)
    return server, ssl.create_default_context(cafile=str(public))


async def test_over_tls_the_name_of_the_url_is_verified_although_the_connection_goes_to_an_address(
    tmp_path: Path,
) -> None:
    server, client = certified(tmp_path, "named.test")
    async with receiving(tls=server) as receiver, posting(addresses=["127.0.0.1"], tls=client) as poster:
        assert (await poster.post(note(f"https://named.test:{receiver.port}/"))).delivered
        for other in ("other.test", "127.0.0.1"):
            said = await poster.post(note(f"https://{other}:{receiver.port}/", credentials="c", scheme="Bearer"))
            assert (said.delivered, said.why) == (False, "cannot connect: the certificate is not valid")
        assert len(receiver.got) == 1  # the others saw no request, and no credentials


async def test_a_receiver_that_is_down_is_named_as_such() -> None:
    async with posting(addresses=["127.0.0.1"]) as poster:
        said = await poster.post(note(f"http://named.test:{free_port()}/"))
        assert (said.delivered, said.why) == (False, "cannot connect")


async def test_a_certificate_that_nobody_trusts_is_refused(tmp_path: Path) -> None:
    server, _ = certified(tmp_path, "named.test")
    async with receiving(tls=server) as receiver, posting(addresses=["127.0.0.1"]) as poster:
        said = await poster.post(note(f"https://named.test:{receiver.port}/"))
        assert (said.delivered, said.why) == (False, "cannot connect: the certificate is not valid")
        assert receiver.got == []


# -- tasks ---------------------------------------------------------------------------------------------------------------


class Steps:
    """A handler that takes as many steps as it is asked for; each is an event."""

    async def __call__(self, task: Task, run: Run) -> Task:
        for number in range(int(task.messages[0].text)):
            await run.progress(None, f"step {number}")
        return task.complete("done")


@dataclass
class Agent:
    """A service with webhooks, for one life."""

    service: TaskService
    webhooks: Webhooks

    async def submit(self, steps: int, *configs: PushConfig) -> AcceptedTurn:
        turn = await self.service.submit(Submission.of(Task.create(str(steps))), "ada")
        for config in configs:
            await self.webhooks.add("ada", replace(config, task_id=turn.task_id), turn.after_sequence, V1)
        return turn


@asynccontextmanager
async def living(store: TaskStore, grace_s: float = PATIENCE_S, **options: Any) -> AsyncIterator[Agent]:
    async def render(version: str, owner: str, task_id: str, after: int) -> NotificationBatch:
        frames = await store.read(task_id, after, 3)
        told = [(number, json.dumps({"sequence": number}).encode()) for number, _ in enumerate(frames, after + 1)]
        return NotificationBatch(told, after + len(frames))

    service = TaskService("agent", store, Steps())
    patience = RetryPolicy(first_s=0.001, longest_s=0.002)
    webhooks = Webhooks(service, PushOptions(allow=("private",), **options), render, retry_policy=patience)
    await service.start()
    await webhooks.start()
    try:
        yield Agent(service, webhooks)
    finally:
        await service.stop(0.1)
        await webhooks.stop(grace_s)


async def test_a_slow_receiver_delays_no_event_and_gets_each_of_them_in_order(store: TaskStore) -> None:
    async with receiving() as slow, receiving() as quick, living(store) as agent:
        slow.gate.clear()
        turn = await agent.submit(20, PushConfig(slow.url, "slow"), PushConfig(quick.url, "quick"))
        assert (await agent.service.settled(turn)).state is TaskState.COMPLETED
        end = (await agent.service.head(turn.task_id, "ada")).sequence
        await quick.until(lambda: len(quick.accepted) == end)
        assert slow.accepted == []
        slow.gate.set()
        await agent.webhooks.flush(turn.task_id, PATIENCE_S)
        assert slow.sequences == quick.sequences == list(range(1, end + 1))


async def test_before_a_flush_returns_its_receivers_have_what_is_due(store: TaskStore) -> None:
    async with receiving() as receiver, living(store) as agent:
        turn = await agent.submit(3, PushConfig(receiver.url))
        fold = await agent.service.settled(turn)
        await agent.webhooks.flush(turn.task_id, PATIENCE_S)
        assert receiver.sequences[-1] == fold.sequence


async def test_a_flush_takes_no_longer_than_it_may(store: TaskStore) -> None:
    async with receiving() as receiver, living(store, grace_s=0) as agent:
        receiver.gate.clear()
        turn = await agent.submit(3, PushConfig(receiver.url))
        await agent.service.settled(turn)
        began = time.monotonic()
        await agent.webhooks.flush(turn.task_id, 0.05)
        assert 0.04 < time.monotonic() - began < PATIENCE_S
        assert receiver.accepted == []


async def test_a_receiver_that_fails_and_recovers_gets_exactly_the_sequence(store: TaskStore) -> None:
    bad = [
        status("500 Oops"),
        b"",
        b"noise\r\n\r\n",
        status("429 Slow", "Retry-After: 0"),
        status("302 Go", "Location: /"),
    ]
    async with receiving(*bad, OK, *bad, OK, OK, *bad) as receiver, living(store) as agent:
        turn = await agent.submit(10, PushConfig(receiver.url))
        end = (await agent.service.settled(turn)).sequence
        await receiver.until(lambda: len(receiver.accepted) == end)
        assert receiver.sequences == list(range(1, end + 1))


async def test_a_webhook_that_leads_inside_is_refused_at_its_registration(store: TaskStore) -> None:
    async with living(store) as agent:
        turn = await agent.submit(0)
        for url in ("http://169.254.169.254/latest/meta-data/", "http://[fe80::1]/", "http://0.0.0.0/"):
            with pytest.raises(InvalidArgumentError) as refused:
                await agent.webhooks.add("ada", PushConfig(url, task_id=turn.task_id), 0, V1)
            assert refused.value.field == "url"


async def test_nothing_in_the_log_shows_a_webhooks_secrets(store: TaskStore, caplog: pytest.LogCaptureFixture) -> None:
    answers = [status("500 Oops"), b"noise\r\n\r\n", status("410 Gone")]
    with caplog.at_level(logging.NOTSET):
        async with receiving(*answers) as receiver, living(store) as agent:
            url = receiver.url + "/sesame?key=sesame"
            config = PushConfig(url, token="sesame", scheme="Bearer", credentials="sesame")
            turn = await agent.submit(2, config)
            await agent.service.settled(turn)
            await agent.webhooks.flush(turn.task_id, PATIENCE_S)
            await receiver.until(lambda: receiver.accepted)
    assert receiver.got[0].headers["authorization"] == "Bearer sesame"
    assert "sesame" not in caplog.text


# -- lives ---------------------------------------------------------------------------------------------------------------


async def interrupted(receiver: Receiver) -> None:
    """Some notifications were accepted, and one has come that gets no answer."""
    receiver.gate.set()
    await receiver.until(lambda: len(receiver.accepted) >= 5)
    receiver.gate.clear()
    await receiver.until(lambda: len(receiver.got) > len(receiver.accepted))
    assert receiver.sequences == list(range(1, len(receiver.accepted) + 1))


async def completed(receiver: Receiver, store: TaskStore, end: int) -> None:
    """In the next life all of it arrives in order; what had no answer when the first one ended comes twice."""
    unanswered = receiver.got[-1].sequence
    receiver.gate.set()
    async with living(store):
        await receiver.until(lambda: receiver.sequences[-1] == end)
    assert receiver.sequences == [*range(1, unanswered + 1), *range(unanswered, end + 1)]


async def test_after_a_restart_a_receiver_gets_the_rest_in_order(tmp_path: Path) -> None:
    async with receiving() as receiver:
        receiver.gate.clear()
        async with living(SQLiteStore(tmp_path / "tasks.db"), grace_s=0) as agent:
            turn = await agent.submit(50, PushConfig(receiver.url))
            end = (await agent.service.settled(turn)).sequence
            await interrupted(receiver)
        await completed(receiver, SQLiteStore(tmp_path / "tasks.db"), end)


LIFE = """
    import asyncio, json, sys
    from protolink_grpc.a2a.push import PushOptions, NotificationBatch, Webhooks
    from protolink_grpc.a2a.values import PushConfig
    from protolink_grpc.models.task import Task
    from protolink_grpc.runtime.service import TaskService
    from protolink_grpc.runtime.submission import Submission
    from protolink_grpc.storage.sqlite.store import SQLiteStore

    path, url = sys.argv[1:]
    store = SQLiteStore(path)

    async def handler(task, run):
        for number in range(50):
            await run.progress(None, f"step {number}")
        return task.complete("done")

    async def render(version, owner, task_id, after):
        frames = await store.read(task_id, after, 3)
        told = [(number, json.dumps({"sequence": number}).encode()) for number, _ in enumerate(frames, after + 1)]
        return NotificationBatch(told, after + len(frames))

    async def main():
        service = TaskService("agent", store, handler)
        webhooks = Webhooks(service, PushOptions(allow=("private",)), render)
        await service.start()
        await webhooks.start()
        turn = await service.submit(Submission.of(Task.create("go")), "ada")
        await webhooks.add("ada", PushConfig(url, task_id=turn.task_id), 0, "1.0")
        fold = await service.settled(turn)
        print(fold.sequence, flush=True)
        await asyncio.Event().wait()

    asyncio.run(main())
"""


async def test_a_process_that_is_killed_loses_no_notification(
    tmp_path: Path, launch: Callable[..., Awaitable[Any]]
) -> None:
    path = tmp_path / "tasks.db"
    async with receiving() as receiver:
        receiver.gate.clear()
        program = await launch(LIFE, path, receiver.url)
        end = int(await program.line())
        await interrupted(receiver)
        await program.kill()
        await completed(receiver, SQLiteStore(path), end)
