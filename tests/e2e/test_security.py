"""Transport security, authentication, and ownership of tasks and registrations."""

import datetime
import ipaddress
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import grpc.aio
import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID
from grpc_health.v1 import health_pb2, health_pb2_grpc
from grpc_reflection.v1alpha import reflection_pb2, reflection_pb2_grpc

from protolink_grpc import (
    Agent,
    AgentCard,
    AgentClient,
    InvalidArgumentError,
    MemoryStore,
    Message,
    Principal,
    ProtolinkError,
    Registry,
    RegistryClient,
    ServerOptions,
    Task,
    TaskNotFoundError,
    TaskState,
    TLSConfig,
    UnauthenticatedError,
    UnavailableError,
)
from protolink_grpc.agent.local_agent import PRINCIPAL
from protolink_grpc.client.channel import ChannelOptions, channel_to
from protolink_grpc.edges.grpc.call import ANONYMOUS
from protolink_grpc.errors import AgentConflictError, LeaseNotFoundError
from protolink_grpc.net.address import Address

TLS_URL = "grpcs://127.0.0.1:0"


# -- certificates ------------------------------------------------------------------------------------------------------------


class Authority:
    """A certificate authority of the test's own."""

    def __init__(self, folder: Path, name: str) -> None:
        self._folder = folder
        self._name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
        self._key = ec.generate_private_key(ec.SECP256R1())
        certificate = self._builder(self._name, self._key.public_key()).add_extension(
            x509.BasicConstraints(ca=True, path_length=None), critical=True
        )
        self.cafile = self._write(f"{name}.pem", certificate.sign(self._key, hashes.SHA256()))

    def issue(self, name: str, alternatives: Sequence[x509.GeneralName]) -> TLSConfig:
        """A certificate with its key, for a server or a client that trusts this authority."""
        key = ec.generate_private_key(ec.SECP256R1())
        subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
        certificate = self._builder(subject, key.public_key())
        if alternatives:
            certificate = certificate.add_extension(x509.SubjectAlternativeName(alternatives), critical=False)
        keyfile = self._folder / f"{name}.key"
        keyfile.write_bytes(
            key.private_bytes(
                serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
            )
        )
        certfile = self._write(f"{name}.crt", certificate.sign(self._key, hashes.SHA256()))
        return TLSConfig(certfile, str(keyfile), self.cafile)

    def _builder(self, subject: x509.Name, key: ec.EllipticCurvePublicKey) -> x509.CertificateBuilder:
        now = datetime.datetime.now(datetime.UTC)
        return (
            x509.CertificateBuilder()
            .subject_name(subject)
            .issuer_name(self._name)
            .public_key(key)
            .serial_number(x509.random_serial_number())
            .not_valid_before(now - datetime.timedelta(days=1))
            .not_valid_after(now + datetime.timedelta(days=1))
        )

    def _write(self, name: str, certificate: x509.Certificate) -> str:
        path = self._folder / name
        path.write_bytes(certificate.public_bytes(serialization.Encoding.PEM))
        return str(path)


@dataclass(frozen=True)
class Certificates:
    """`server` is 127.0.0.1 and localhost; `elsewhere` another host; `stranger` is signed by an untrusted authority."""

    server: TLSConfig
    elsewhere: TLSConfig
    ann: TLSConfig
    bob: TLSConfig
    stranger: TLSConfig

    @property
    def trusting(self) -> TLSConfig:
        """A client without a certificate."""
        return TLSConfig(cafile=self.server.cafile)


@pytest.fixture(scope="module")
def certificates(tmp_path_factory: pytest.TempPathFactory) -> Certificates:
    folder = tmp_path_factory.mktemp("certificates")
    authority, other = Authority(folder, "authority"), Authority(folder, "other")
    here = [x509.DNSName("localhost"), x509.IPAddress(ipaddress.ip_address("127.0.0.1"))]
    return Certificates(
        authority.issue("server", here),
        authority.issue("elsewhere", [x509.DNSName("elsewhere.test")]),
        authority.issue("ann", [x509.DNSName("ann.clients.test")]),
        authority.issue("bob", []),
        replace(other.issue("stranger", here), cafile=authority.cafile),
    )


class Worker(Agent):
    """Echoes, asks when asked to, and says who called."""

    async def handle_task(self, task: Task) -> Task:
        if task.messages[-1].text == "ask":
            return task.require_input(Message.agent("which one?"))
        return task.complete(task.messages[-1].text)


def worker_at(url: str, **options: Any) -> Worker:
    return Worker(AgentCard(name="worker", description="echoes", url=url), grace_s=0.1, **options)


# -- TLS ---------------------------------------------------------------------------------------------------------------------


async def test_a_tls_agent_serves_whoever_trusts_its_authority(certificates: Certificates) -> None:
    async with worker_at(TLS_URL, tls=certificates.server) as worker:
        assert worker.card.url.startswith("grpcs://")
        for url in (worker.card.url, worker.card.url.replace("127.0.0.1", "localhost")):
            client = AgentClient(url=url, tls=certificates.trusting)
            done = await client.send_task(None, Task.create("hello"))
            assert done.messages[-1].text == "hello"
            assert len([event async for event in client.subscribe(done.id)]) == 4


async def test_certificates_and_other_server_options_go_together(certificates: Certificates) -> None:
    async with worker_at(TLS_URL, tls=certificates.server, server=ServerOptions(max_wait_s=5.0)) as worker:
        assert (await AgentClient(url=worker.card.url, tls=certificates.trusting).get_agent_card()).name == "worker"
    async with Registry(url=TLS_URL, tls=certificates.server, server=ServerOptions(max_wait_s=5.0)) as registry:
        assert await RegistryClient(registry.url, tls=certificates.trusting).discover() == []


@pytest.mark.parametrize(
    ("scheme", "says"),
    [
        ("grpc", "the server may require TLS: try grpcs://"),
        ("grpcs", "the server may not use TLS: try grpc://"),
    ],
)
async def test_a_client_that_speaks_the_other_way_is_told_which_scheme_to_try(
    certificates: Certificates, scheme: str, says: str
) -> None:
    other = "grpcs" if scheme == "grpc" else "grpc"
    tls = certificates.server if other == "grpcs" else None
    async with worker_at(f"{other}://127.0.0.1:0", tls=tls) as worker:
        url = worker.card.url.replace(f"{other}://", f"{scheme}://")
        with pytest.raises(UnavailableError, match=says) as caught:
            await AgentClient(url=url, tls=certificates.trusting, outage_s=0).get_agent_card()
        assert caught.value.metadata["url"] == url


@pytest.mark.parametrize("authority", ["the system's", "another"])
async def test_a_client_that_trusts_another_authority_is_told_about_the_certificate(
    certificates: Certificates, authority: str
) -> None:
    tls = None if authority == "the system's" else TLSConfig(cafile=certificates.stranger.certfile)
    async with worker_at(TLS_URL, tls=certificates.server) as worker:
        with pytest.raises(UnavailableError, match=r"(?i)certificate.*not trusted"):
            await AgentClient(url=worker.card.url, tls=tls, outage_s=0).get_agent_card()


async def test_a_certificate_for_another_host_is_refused(certificates: Certificates) -> None:
    async with worker_at(TLS_URL, tls=certificates.elsewhere) as worker:
        with pytest.raises(UnavailableError, match="the server's certificate is not for this host"):
            await AgentClient(url=worker.card.url, tls=certificates.trusting, outage_s=0).get_agent_card()


async def test_a_channel_to_numeric_addresses_verifies_the_name_that_it_was_given(certificates: Certificates) -> None:
    async with Agent(name="a", url=TLS_URL, tls=certificates.elsewhere) as agent:
        port = int(agent.card.url.rpartition(":")[2])
        options = ChannelOptions(tls=certificates.trusting)

        async def asked(host: str) -> str:
            channel = channel_to(Address(host, port, secure=True), options, ("127.0.0.1",))
            stub = health_pb2_grpc.HealthStub(channel)
            answer = await stub.Check(health_pb2.HealthCheckRequest(), timeout=20)
            return health_pb2.HealthCheckResponse.ServingStatus.Name(answer.status)

        assert await asked("elsewhere.test") == "SERVING"
        with pytest.raises(grpc.aio.AioRpcError, match="UNAVAILABLE"):
            await asked("localhost")


@pytest.mark.parametrize(
    ("tls", "field"),
    [
        (TLSConfig(), "tls.certfile"),
        (TLSConfig(certfile="/no/such.crt", keyfile="/no/such.key"), "tls.keyfile"),
        (TLSConfig(certfile=__file__, keyfile=__file__, require_client_cert=True), "tls.cafile"),
    ],
)
async def test_a_server_without_what_tls_needs_says_what_is_missing(tls: TLSConfig, field: str) -> None:
    for server in (worker_at(TLS_URL, tls=tls), Registry(url=TLS_URL, tls=tls)):
        with pytest.raises(InvalidArgumentError) as caught:
            await server.serve()
        assert caught.value.field == field
        assert not server.is_running


async def test_a_client_without_its_files_says_which(certificates: Certificates) -> None:
    tls = TLSConfig(cafile="/no/such.pem")
    with pytest.raises(InvalidArgumentError, match=r"tls\.cafile: /no/such\.pem"):
        await AgentClient(url="grpcs://127.0.0.1:1", tls=tls).get_agent_card()


async def test_demanding_client_certificates_in_the_clear_is_refused(certificates: Certificates) -> None:
    """Otherwise a server with this setting would silently accept every caller."""
    demanding = replace(certificates.server, require_client_cert=True)
    worker = worker_at("grpc://127.0.0.1:0", server=ServerOptions(tls=demanding))
    with pytest.raises(InvalidArgumentError, match="grpcs://"):
        await worker.serve()
    assert not worker.is_running


# -- client certificates -----------------------------------------------------------------------------------------------------


@pytest.fixture
async def mutual(certificates: Certificates) -> AsyncIterator[Worker]:
    async with worker_at(TLS_URL, tls=replace(certificates.server, require_client_cert=True)) as worker:
        yield worker


async def test_a_client_without_a_certificate_cannot_connect(mutual: Worker, certificates: Certificates) -> None:
    with pytest.raises(UnavailableError, match="the server may require a client certificate"):
        await AgentClient(url=mutual.card.url, tls=certificates.trusting, outage_s=0).get_agent_card()


async def test_a_client_whose_certificate_nobody_trusts_cannot_connect(
    mutual: Worker, certificates: Certificates
) -> None:
    with pytest.raises(UnavailableError):
        await AgentClient(url=mutual.card.url, tls=certificates.stranger, outage_s=0).get_agent_card()


async def principal_of(client: AgentClient, task_id: str) -> str:
    async for event in client.subscribe(task_id):
        payload: Any = event.payload
        return str(payload.principal)
    raise AssertionError("the log is empty")


async def test_the_certificate_names_the_owner_of_a_task(mutual: Worker, certificates: Certificates) -> None:
    ann = AgentClient(url=mutual.card.url, tls=certificates.ann)
    bob = AgentClient(url=mutual.card.url, tls=certificates.bob)
    assert await principal_of(ann, (await ann.send_task(None, Task.create("x"))).id) == "ann.clients.test"
    # Without an alternative name it is the common name.
    assert await principal_of(bob, (await bob.send_task(None, Task.create("x"))).id) == "bob"


@pytest.mark.parametrize("name", [PRINCIPAL, ANONYMOUS])
async def test_a_certificate_cannot_make_a_caller_the_owner_of_what_others_own(name: str, tmp_path: Path) -> None:
    authority = Authority(tmp_path, "authority")
    tls = authority.issue("server", [x509.IPAddress(ipaddress.ip_address("127.0.0.1"))])
    async with worker_at(TLS_URL, tls=replace(tls, require_client_cert=True)) as worker:
        with pytest.raises(UnauthenticatedError, match=name):
            await AgentClient(url=worker.card.url, tls=authority.issue(name, [])).list_tasks()


async def test_to_anybody_else_a_task_does_not_exist(mutual: Worker, certificates: Certificates) -> None:
    ann = AgentClient(url=mutual.card.url, tls=certificates.ann)
    bob = AgentClient(url=mutual.card.url, tls=certificates.bob)
    asked = await ann.send_task(None, Task.create("ask"))

    async def subscribe() -> None:
        async for _ in bob.subscribe(asked.id):
            pass

    for attempt in (
        bob.get_task(asked.id),
        bob.cancel_task(None, asked.id),
        subscribe(),
        bob.send_task(None, Task(id=asked.id, messages=[Message.user("mine now")])),
    ):
        with pytest.raises(TaskNotFoundError) as caught:
            await attempt
        # The same text as for a task that does not exist.
        assert str(caught.value) == f"task {asked.id} not found"
        assert caught.value.metadata == {"task_id": asked.id}
    assert (await bob.list_tasks(include_total=True)).total_size == 0
    assert (await ann.list_tasks(include_total=True)).total_size == 1
    assert (await ann.get_task(asked.id)).state is TaskState.INPUT_REQUIRED


async def test_the_same_request_id_of_another_principal_is_another_request(
    mutual: Worker, certificates: Certificates
) -> None:
    ann = AgentClient(url=mutual.card.url, tls=certificates.ann)
    bob = AgentClient(url=mutual.card.url, tls=certificates.bob)
    first = await ann.send_task(None, Task.create("hers"), request_id="order-1")
    second = await bob.send_task(None, Task.create("his"), request_id="order-1")
    assert (first.messages[-1].text, second.messages[-1].text) == ("hers", "his")


async def test_agents_and_their_registry_work_together_under_mutual_tls(certificates: Certificates) -> None:
    tls = replace(certificates.server, require_client_cert=True)
    async with (
        Registry(url=TLS_URL, tls=tls) as registry,
        worker_at(TLS_URL, tls=tls, registry=registry) as worker,
        Agent(name="asker", tls=certificates.ann, registry=registry.url) as asker,
    ):
        assert (await asker.send_message_to("worker", "hello")).text == "hello"
        assert [card.url for card in await asker.discover_agents({"name": "worker"})] == [worker.card.url]


# -- the authentication hook -------------------------------------------------------------------------------------------------

TOKENS = {"Bearer ann-token": Principal("ann"), "Bearer bob-token": Principal("bob")}


async def by_token(method: str, metadata: Mapping[str, str]) -> Principal | None:
    return TOKENS.get(metadata.get("authorization", ""))


def bearing(token: str) -> list[tuple[str, str]]:
    return [("authorization", f"Bearer {token}")]


@pytest.fixture
async def guarded() -> AsyncIterator[Worker]:
    async with worker_at("grpc://127.0.0.1:0", server=ServerOptions(authenticate=by_token)) as worker:
        yield worker


async def test_the_hook_names_the_owner_of_a_task(guarded: Worker) -> None:
    ann = AgentClient(url=guarded.card.url, metadata=bearing("ann-token"))
    bob = AgentClient(url=guarded.card.url, metadata=bearing("bob-token"))
    done = await ann.send_task(None, Task.create("x"))
    assert await principal_of(ann, done.id) == "ann"
    with pytest.raises(TaskNotFoundError):
        await bob.get_task(done.id)


@pytest.mark.parametrize("metadata", [[], bearing("eve-token")], ids=["nothing", "a wrong token"])
async def test_a_caller_without_valid_credentials_is_refused_everywhere(
    guarded: Worker, metadata: list[tuple[str, str]]
) -> None:
    nobody = AgentClient(url=guarded.card.url, metadata=metadata)

    async def stream() -> None:
        async for _ in nobody.send_task_streaming(None, Task.create("x")):
            pass

    async def subscribe() -> None:
        async for _ in nobody.subscribe("x"):
            pass

    for attempt in (
        nobody.get_agent_card(),
        nobody.send_task(None, Task.create("x")),
        nobody.get_task("x"),
        nobody.list_tasks(),
        nobody.cancel_task(None, "x"),
        stream(),
        subscribe(),
    ):
        with pytest.raises(UnauthenticatedError) as caught:
            await attempt
        assert caught.value.reason == "UNAUTHENTICATED"
    assert guarded.active_task_ids == []


async def test_health_and_reflection_need_no_credentials(
    guarded: Worker, channel: Callable[[str], grpc.aio.Channel]
) -> None:
    open_channel = channel(guarded.card.url)
    health = health_pb2_grpc.HealthStub(open_channel)
    answer = await health.Check(health_pb2.HealthCheckRequest(service="plgrpc.v1.AgentService"))
    assert answer.status == health_pb2.HealthCheckResponse.SERVING
    ask = reflection_pb2_grpc.ServerReflectionStub(open_channel).ServerReflectionInfo()
    await ask.write(reflection_pb2.ServerReflectionRequest(list_services=""))
    names = {service.name for service in (await ask.read()).list_services_response.service}
    assert "plgrpc.v1.AgentService" in names
    await ask.done_writing()


@pytest.mark.parametrize("name", [PRINCIPAL, ANONYMOUS])
async def test_a_hook_cannot_make_a_caller_the_owner_of_what_others_own(name: str) -> None:
    async def confused(method: str, metadata: Mapping[str, str]) -> Principal | None:
        return Principal(name)

    async with worker_at("grpc://127.0.0.1:0", server=ServerOptions(authenticate=confused)) as worker:
        await worker.run_task(Task.create("x"))
        with pytest.raises(UnauthenticatedError, match=name):
            await AgentClient(url=worker.card.url).list_tasks()


async def test_an_agent_shows_its_credentials_to_trusted_peers_and_to_the_registry(registry: Registry) -> None:
    options = ServerOptions(authenticate=by_token)
    async with (
        worker_at("grpc://127.0.0.1:0", registry=registry.url, metadata=bearing("ann-token"), server=options) as worker,
        Agent(
            name="asker", registry=registry.url, metadata=bearing("bob-token"), trusted_peers=[worker.card.url]
        ) as asker,
    ):
        assert (await asker.send_message_to("worker", "hello")).text == "hello"
        assert [card.url for card in await asker.discover_agents({"name": "worker"})] == [worker.card.url]
        moved = Agent(name="moved", metadata=bearing("bob-token"), trusted_peers=[worker.card.url])
        moved.relocate(registry=registry.url, tls=TLSConfig())
        assert (await moved.send_message_to("worker", "again")).text == "again"


async def test_a_hook_that_breaks_lets_nobody_in_and_tells_nothing() -> None:
    async def broken(method: str, metadata: Mapping[str, str]) -> Principal | None:
        raise RuntimeError("the key of the identity provider is hunter2")

    async with worker_at("grpc://127.0.0.1:0", server=ServerOptions(authenticate=broken)) as worker:
        with pytest.raises(ProtolinkError) as caught:
            await AgentClient(url=worker.card.url, metadata=bearing("ann-token")).get_agent_card()
    assert caught.value.reason == "INTERNAL"
    assert "hunter2" not in str(caught.value)


async def test_credentials_stay_out_of_the_log_of_a_task() -> None:
    store = MemoryStore()
    async with worker_at("grpc://127.0.0.1:0", store=store, server=ServerOptions(authenticate=by_token)) as worker:
        ann = AgentClient(url=worker.card.url, metadata=bearing("ann-token"))
        done = await ann.send_task(None, Task.create("x"))
        log = b"".join(await store.read(done.id, 0, 100))
    assert b"ann" in log
    assert b"ann-token" not in log


# -- the registry ------------------------------------------------------------------------------------------------------------


@pytest.fixture
async def registry() -> AsyncIterator[Registry]:
    async with Registry(server=ServerOptions(authenticate=by_token)) as registry:
        yield registry


def card(name: str = "hers") -> AgentCard:
    return AgentCard(name=name, description="d", url="grpc://127.0.0.1:4000")


def registry_of(registry: Registry, who: str) -> RegistryClient:
    return RegistryClient(registry.url, metadata=bearing(f"{who}-token"))


async def test_a_registration_cannot_be_taken_over_by_another_principal(registry: Registry) -> None:
    ann, bob = registry_of(registry, "ann"), registry_of(registry, "bob")
    await ann.register(card())
    with pytest.raises(AgentConflictError) as caught:
        await bob.register(card("his"))
    assert caught.value.metadata == {"url": card().url}
    assert [found.name for found in await bob.discover()] == ["hers"]


async def test_a_registration_cannot_be_renewed_or_removed_by_another_principal(registry: Registry) -> None:
    ann, bob = registry_of(registry, "ann"), registry_of(registry, "bob")
    await ann.register(card())
    # The worst case: bob has learned the lease.
    bob._leases.update(ann._leases)
    with pytest.raises(LeaseNotFoundError):
        await bob.heartbeat(card().url)
    assert not await bob.unregister(card().url)
    assert [found.name for found in await bob.discover()] == ["hers"]
    assert await ann.unregister(card().url)


async def test_a_registration_can_be_replaced_by_its_own_principal_from_anywhere(registry: Registry) -> None:
    await registry_of(registry, "ann").register(card())
    await registry_of(registry, "ann").register(card("renamed"))
    assert [found.name for found in await registry_of(registry, "bob").discover()] == ["renamed"]


async def test_a_registry_refuses_callers_without_credentials(registry: Registry) -> None:
    nobody = RegistryClient(registry.url)

    async def watch() -> None:
        async for _ in nobody.watch():
            pass

    attempts: list[Awaitable[Any]] = [nobody.register(card()), nobody.get("hers"), nobody.discover(), watch()]
    for attempt in attempts:
        with pytest.raises(UnauthenticatedError):
            await attempt
