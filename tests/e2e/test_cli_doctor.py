"""`plgrpc doctor` finds each fault of an address, and prints a hint."""

import datetime
import http.server
import ipaddress
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from cli_world import Done, World, plgrpc
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from protolink_grpc import Agent, AgentCard, TLSConfig


@pytest.fixture(scope="module")
def world() -> Iterator[World]:
    with World().up() as up:
        yield up


@pytest.fixture(scope="module")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> tuple[str, str]:
    """Paths of a certificate for 127.0.0.1 that vouches for itself, and of its key."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "agent")])
    now = datetime.datetime.now(datetime.UTC)
    alternatives = [x509.IPAddress(ipaddress.ip_address("127.0.0.1"))]
    built = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - datetime.timedelta(hours=1))
        .not_valid_after(now + datetime.timedelta(hours=1))
        .add_extension(x509.SubjectAlternativeName(alternatives), critical=False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .sign(key, hashes.SHA256())
    )
    folder = tmp_path_factory.mktemp("certificates")
    (folder / "cert.pem").write_bytes(built.public_bytes(serialization.Encoding.PEM))
    (folder / "key.pem").write_bytes(
        key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    )
    return str(folder / "cert.pem"), str(folder / "key.pem")


@contextmanager
def agent_at(url: str, **more: Any) -> Iterator[Agent]:
    agent = Agent(AgentCard(name="lonely", description="alone", url=url), **more)
    agent.start(background=True)
    try:
        yield agent
    finally:
        agent.stop()


def examined(*arguments: str, retries: bool = True) -> tuple[Done, dict[str, dict[str, str]]]:
    """A doctor's document, its checks by name; with `retries=False`, it does not retry what it cannot reach."""
    done = plgrpc("doctor", *arguments, "-o", "json", retries=retries)
    assert done.err == ""
    return done, {check["name"]: check for check in done.document["checks"]}


def problems(checks: dict[str, dict[str, str]]) -> list[str]:
    found = [check for check in checks.values() if check["status"] == "problem"]
    assert all(check["hint"] for check in found)
    return [check["name"] for check in found]


def test_a_healthy_agent_passes_every_check(world: World) -> None:
    done, checks = examined("calc", "--registry", world.registry.url)
    assert done.code == 0
    assert done.document["ok"]
    assert list(checks) == [
        "name",
        "dns",
        "tcp",
        "transport",
        "health",
        "services",
        "card",
        "card url",
        "protocol version",
        "registry",
    ]
    text = plgrpc("doctor", world.calc.card.url)
    assert text.code == 0
    assert all(line.startswith("ok ") for line in text.out.splitlines())


def test_a_registry_is_recognised(world: World) -> None:
    done, checks = examined(world.registry.url)
    assert done.code == 0
    assert "with 6 agents" in checks["registry"]["detail"]


def test_a_port_where_nothing_listens_is_unreachable() -> None:
    done, checks = examined("grpc://127.0.0.1:1")
    assert done.code == 3
    assert problems(checks) == ["tcp"]
    text = plgrpc("doctor", "grpc://127.0.0.1:1")
    assert text.out.splitlines()[-1].startswith("hint    nothing listens on that port")


def test_a_host_without_an_address_is_unreachable() -> None:
    done, checks = examined("grpc://no-such-host.invalid:50051")
    assert done.code == 3
    assert problems(checks) == ["dns"]


@pytest.mark.parametrize("target", ["hotel", "http://127.0.0.1:80", "grpc://127.0.0.1"])
def test_an_invalid_address_is_reported_as_an_address_problem(target: str) -> None:
    done, checks = examined(target)
    assert done.code == 1
    assert len(problems(checks)) == 1


def test_a_secret_header_is_not_sent_in_the_clear_to_another_machine() -> None:
    done, checks = examined("grpc://agent.invalid:50051", "--header", "authorization=Bearer secret")
    assert problems(checks) == ["address"]
    assert ("use TLS" in done.out, "secret" in done.out) == (True, False)


def test_an_http_server_in_place_of_grpc_is_recognised() -> None:
    with http.server.HTTPServer(("127.0.0.1", 0), http.server.BaseHTTPRequestHandler) as server:
        # The handler would write its log to the test's standard error.
        server.RequestHandlerClass.log_message = lambda *_: None  # type: ignore[method-assign]
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        try:
            done, checks = examined(f"grpc://127.0.0.1:{server.server_port}")
        finally:
            server.shutdown()
            thread.join()
    assert done.code == 1
    assert problems(checks) == ["transport"]
    assert "HTTP/1" in checks["transport"]["detail"]


def test_a_server_that_closes_the_connection_is_reported_as_not_grpc() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:

        def hang_up() -> None:
            while True:
                try:
                    server.accept()[0].close()
                except OSError:
                    return

        thread = threading.Thread(target=hang_up)
        thread.start()
        done, checks = examined(f"grpc://127.0.0.1:{server.getsockname()[1]}")
        server.shutdown(socket.SHUT_RDWR)
        thread.join()
    assert done.code == 1
    assert problems(checks) == ["transport"]


def test_a_url_whose_scheme_does_not_match_the_servers_tls_is_reported(
    world: World, certificate: tuple[str, str]
) -> None:
    cert, key = certificate
    with agent_at("grpcs://127.0.0.1:0", tls=TLSConfig(cert, key)) as agent:
        url = agent.card.url
        done, checks = examined(url.replace("grpcs", "grpc"))
        assert done.code == 1
        assert problems(checks) == ["transport"]
        assert checks["transport"]["hint"] == f"use {url}"
        done, checks = examined(url)
        assert done.code == 1
        assert problems(checks) == ["tls"]
        assert "--tls-ca" in checks["tls"]["hint"]
        done, checks = examined(url, "--tls-ca", cert)
        assert done.code == 0, checks
    clear = world.calc.card.url
    done, checks = examined(clear.replace("grpc", "grpcs"))
    assert done.code == 1
    assert problems(checks) == ["tls"]
    assert checks["tls"]["hint"] == f"use {clear}"


def test_a_server_that_requires_a_client_certificate_is_reported(certificate: tuple[str, str]) -> None:
    cert, key = certificate
    tls = TLSConfig(cert, key, cert, require_client_cert=True)
    with agent_at("grpcs://127.0.0.1:0", tls=tls) as agent:
        done, checks = examined(agent.card.url, "--tls-ca", cert)
        assert done.code == 1
        assert "--tls-cert" in checks["tls"]["hint"]
        called = plgrpc("card", "get", agent.card.url, "--tls-ca", cert)
        assert called.err.endswith("\nhint: pass it with --tls-cert and --tls-key\n")
        done, checks = examined(agent.card.url, "--tls-ca", cert, "--tls-cert", cert, "--tls-key", key)
        assert done.code == 0, checks


def test_an_agent_served_with_certificates_is_called_over_tls(tmp_path: Path, certificate: tuple[str, str]) -> None:
    cert, key = certificate
    with agent_at("grpcs://127.0.0.1:0", tls=TLSConfig(cert, key)) as agent:
        assert plgrpc("card", "get", agent.card.url, "--tls-ca", cert).fields["Name"] == "lonely"
        done = plgrpc("card", "get", agent.card.url)
        assert done.code == 3
        assert done.err.endswith("\nhint: pass the certificate of its authority with --tls-ca\n")
        untrusted = plgrpc("card", "get", agent.card.url, retries=False)
        assert untrusted.code == 3
        assert len(untrusted.err.splitlines()) == 2


def test_a_card_with_a_wildcard_address_is_a_problem() -> None:
    with agent_at("grpc://0.0.0.0:0") as agent:
        done, checks = examined(agent.card.url.replace("0.0.0.0", "127.0.0.1"))
    assert done.code == 1
    assert problems(checks) == ["card url"]


def test_credentials_that_the_card_needs_are_a_problem_with_a_hint(world: World) -> None:
    done, checks = examined(world.locked.card.url)
    assert done.code == 1
    assert problems(checks) == ["card"]
    assert "--header" in checks["card"]["hint"]
    assert examined(world.locked.card.url, "--header", "authorization=Bearer good")[0].code == 0


def test_an_agent_that_the_registry_does_not_know_is_a_problem(world: World) -> None:
    with agent_at("grpc://127.0.0.1:0") as agent:
        done, checks = examined(agent.card.url, "--registry", world.registry.url)
        assert done.code == 1
        assert problems(checks) == ["registry"]
        for unusable in ("grpc://127.0.0.1:1", "no-url"):
            done, checks = examined(agent.card.url, "--registry", unusable, retries=False)
            assert done.code == 1
            assert problems(checks) == ["registry"]
