"""What listens at an address: a few bytes sent, a few bytes read, and what they say. Only `doctor` looks this closely.

gRPC's own message for all of these is that the address is unavailable. Sockets block here, each step bounded by `ANSWER_S`: TLS
alerts that come after a handshake are errors of a read, which streams of a loop do not tell from an end.
"""

import socket
import ssl
from dataclasses import dataclass
from enum import StrEnum

from protolink_grpc.net.address import Address
from protolink_grpc.net.tls import TLSConfig

ANSWER_S = 3.0
"""How long a step may take. A server answers the first bytes at once, or it is not the one that was meant."""

HELLO = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + bytes.fromhex("000000040000000000")
"""How every HTTP/2 client begins: the preface and an empty SETTINGS frame. Source: RFC 9113 section 3.4."""

SETTINGS_FRAME = 4


class Speech(StrEnum):
    """What a server answers with."""

    HTTP2 = "http2"
    HTTP1 = "http1"
    TLS = "tls"
    NOTHING = "nothing"
    OTHER = "other"


@dataclass(frozen=True, slots=True)
class Handshake:
    """How a TLS handshake went. `problem` is empty when it went well; `speech` is what was said inside."""

    speech: Speech = Speech.NOTHING
    problem: str = ""
    wants_client_cert: bool = False
    untrusted: bool = False


def classify(answer: bytes) -> Speech:
    """What the first bytes of an answer are part of."""
    if not answer:
        return Speech.NOTHING
    if len(answer) >= 9 and answer[3] == SETTINGS_FRAME and int.from_bytes(answer[:3]) % 6 == 0:
        return Speech.HTTP2
    if answer[:1] in (b"\x15", b"\x16") and answer[1:2] == b"\x03":
        return Speech.TLS
    return Speech.HTTP1 if answer.startswith(b"HTTP/1") else Speech.OTHER


def addresses_of(host: str, port: int) -> list[str]:
    """The IP addresses of a host. Raises OSError when it has none."""
    found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    return sorted({str(entry[4][0]) for entry in found})


def connect(address: Address) -> None:
    """Open a connection and close it. Raises OSError, TimeoutError with it, when nobody accepts."""
    _open(address).close()


def in_the_clear(address: Address) -> Speech:
    """What the server says to HTTP/2 in the clear; if nothing that one knows, what it says to HTTP/1 and to TLS."""
    speech = _ask(address, HELLO)
    if speech in (Speech.HTTP2, Speech.HTTP1, Speech.TLS):
        return speech
    request = f"HEAD / HTTP/1.1\r\nHost: {address.target}\r\nConnection: close\r\n\r\n".encode()
    if _ask(address, request) is Speech.HTTP1:
        return Speech.HTTP1
    blind = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    # Only asks whether TLS is spoken; nothing is sent inside.
    blind.check_hostname = False
    blind.verify_mode = ssl.CERT_NONE
    shaken = _handshake(address, blind)
    return Speech.TLS if not shaken.problem or shaken.wants_client_cert else speech


def over_tls(address: Address, tls: TLSConfig | None) -> Handshake:
    """A handshake with the certificates that were named, and what the server says inside.

    Raises:
        OSError: A certificate cannot be read, or is none.
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
            speech = classify(connection.recv(64))
            # In TLS 1.3 a server asks for the client's certificate and hangs up after the client thinks that all is well.
            hung_up = speech is Speech.NOTHING
            return Handshake(speech, "the server hung up after it" if hung_up else "", wants_client_cert=hung_up)
    except ssl.SSLCertVerificationError as error:
        return Handshake(problem=error.verify_message, untrusted=True)
    except ssl.SSLError as error:
        reason = error.reason or str(error)
        wanted = "CERTIFICATE_REQUIRED" in reason or "HANDSHAKE_FAILURE" in reason
        return Handshake(problem=reason.lower().replace("_", " "), wants_client_cert=wanted)
    except OSError as error:
        return Handshake(problem=error.strerror or str(error) or type(error).__name__)


def _ask(address: Address, request: bytes) -> Speech:
    """Send and read once; a connection that breaks is an answer of nothing."""
    try:
        with _open(address) as connection:
            connection.sendall(request)
            return classify(connection.recv(64))
    except OSError:
        return Speech.NOTHING


def _open(address: Address) -> socket.socket:
    return socket.create_connection((address.host, address.port), timeout=ANSWER_S)
