"""Detects what listens at an address by sending and reading a few bytes, for `doctor`.

gRPC reports all of these cases as unavailable. The sockets are blocking, with the timeout `ANSWER_S` for each step, because asyncio
streams do not distinguish a TLS alert after the handshake from the end of the stream.
"""

import socket
import ssl
from dataclasses import dataclass
from enum import StrEnum

from protolink_grpc.net.address import Address
from protolink_grpc.net.tls import TLSConfig

ANSWER_S = 3.0
"""Timeout of each step, in seconds. gRPC and TLS servers answer the first bytes at once."""

HELLO = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + bytes.fromhex("000000040000000000")
"""The first bytes of every HTTP/2 client: the preface and an empty SETTINGS frame. Source: RFC 9113 section 3.4."""

SETTINGS_FRAME = 4


class WireProtocol(StrEnum):
    """The protocol of a server's answer."""

    HTTP2 = "http2"
    HTTP1 = "http1"
    TLS = "tls"
    NOTHING = "nothing"
    OTHER = "other"


@dataclass(frozen=True, slots=True)
class Handshake:
    """The result of a TLS handshake. `problem` is empty if it succeeded; `protocol` is the protocol inside TLS."""

    protocol: WireProtocol = WireProtocol.NOTHING
    problem: str = ""
    needs_client_cert: bool = False
    untrusted: bool = False


def classify(answer: bytes) -> WireProtocol:
    """Detect the protocol from the first bytes of an answer."""
    if not answer:
        return WireProtocol.NOTHING
    if len(answer) >= 9 and answer[3] == SETTINGS_FRAME and int.from_bytes(answer[:3]) % 6 == 0:
        return WireProtocol.HTTP2
    if answer[:1] in (b"\x15", b"\x16") and answer[1:2] == b"\x03":
        return WireProtocol.TLS
    return WireProtocol.HTTP1 if answer.startswith(b"HTTP/1") else WireProtocol.OTHER


def addresses_of(host: str, port: int) -> list[str]:
    """Return the IP addresses of a host. Raises OSError if it has no address."""
    found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    return sorted({str(entry[4][0]) for entry in found})


def connect(address: Address) -> None:
    """Open a connection and close it. Raises OSError (or its subclass TimeoutError) if it is not accepted."""
    _open(address).close()


def detect_without_tls(address: Address) -> WireProtocol:
    """Detect the protocol without TLS: by an HTTP/2 request, and if the answer is unknown by HTTP/1 and TLS."""
    protocol = _ask(address, HELLO)
    if protocol in (WireProtocol.HTTP2, WireProtocol.HTTP1, WireProtocol.TLS):
        return protocol
    request = f"HEAD / HTTP/1.1\r\nHost: {address.target}\r\nConnection: close\r\n\r\n".encode()
    if _ask(address, request) is WireProtocol.HTTP1:
        return WireProtocol.HTTP1
    blind = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    # This only detects TLS; nothing is sent inside.
    blind.check_hostname = False
    blind.verify_mode = ssl.CERT_NONE
    handshake = _handshake(address, blind)
    return WireProtocol.TLS if not handshake.problem or handshake.needs_client_cert else protocol


def detect_over_tls(address: Address, tls: TLSConfig | None) -> Handshake:
    """Do a TLS handshake with the given certificates and detect the protocol inside.

    Raises:
        OSError: A certificate cannot be read or is invalid.
    """
    context = ssl.create_default_context(cafile=tls.cafile if tls is not None else None)
    if tls is not None and tls.certfile:
        context.load_cert_chain(tls.certfile, tls.keyfile)
    return _handshake(address, context)


def _handshake(address: Address, context: ssl.SSLContext) -> Handshake:
    context.set_alpn_protocols(["h2"])
    try:
        with context.wrap_socket(_open(address), server_hostname=address.host) as connection:
            connection.sendall(HELLO)
            protocol = classify(connection.recv(64))
            # In TLS 1.3 a server can refuse the client's certificate after the handshake has ended for the client.
            is_closed = protocol is WireProtocol.NOTHING
            problem = "the server closed the connection after the handshake" if is_closed else ""
            return Handshake(protocol, problem, needs_client_cert=is_closed)
    except ssl.SSLCertVerificationError as error:
        return Handshake(problem=error.verify_message, untrusted=True)
    except ssl.SSLError as error:
        reason = error.reason or str(error)
        wanted = "CERTIFICATE_REQUIRED" in reason or "HANDSHAKE_FAILURE" in reason
        return Handshake(problem=reason.lower().replace("_", " "), needs_client_cert=wanted)
    except OSError as error:
        return Handshake(problem=error.strerror or str(error) or type(error).__name__)


def _ask(address: Address, request: bytes) -> WireProtocol:
    """Send and read once. A broken connection counts as an empty answer."""
    try:
        with _open(address) as connection:
            connection.sendall(request)
            return classify(connection.recv(64))
    except OSError:
        return WireProtocol.NOTHING


def _open(address: Address) -> socket.socket:
    return socket.create_connection((address.host, address.port), timeout=ANSWER_S)
