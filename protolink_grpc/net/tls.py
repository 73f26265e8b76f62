"""The TLS settings of servers and clients, and their conversion to gRPC's credentials."""

from dataclasses import dataclass
from pathlib import Path

import grpc

from protolink_grpc.errors import InvalidArgumentError
from protolink_grpc.models.arguments import checks_arguments


@checks_arguments
@dataclass(frozen=True, slots=True)
class TLSConfig:
    """Certificates of a server or a client, as paths of PEM files.

    Args:
        certfile, keyfile: The own certificate chain and its key. Servers need them, clients only for mTLS.
        cafile: The trusted authorities; None means those of the system. Servers need it to verify client certificates.
        require_client_cert: A server refuses clients without a certificate (mTLS).
    """

    certfile: str | None = None
    keyfile: str | None = None
    cafile: str | None = None
    require_client_cert: bool = False

    def server_credentials(self) -> grpc.ServerCredentials:
        """Read the files of a server.

        Raises:
            InvalidArgumentError: A required file is not set or cannot be read. Names the field.
        """
        certfile, keyfile = require_server_files(self)
        pair = (_read_pem(keyfile, "tls.keyfile"), _read_pem(certfile, "tls.certfile"))
        trusted = _read_pem(self.cafile, "tls.cafile") if self.cafile else None
        return grpc.ssl_server_credentials([pair], trusted, self.require_client_cert)

    def channel_credentials(self) -> grpc.ChannelCredentials:
        """Read the files of a client.

        Raises:
            InvalidArgumentError: A file cannot be read. Names the field.
        """
        return grpc.ssl_channel_credentials(
            _read_pem(self.cafile, "tls.cafile") if self.cafile else None,
            _read_pem(self.keyfile, "tls.keyfile") if self.keyfile else None,
            _read_pem(self.certfile, "tls.certfile") if self.certfile else None,
        )


def require_server_files(tls: TLSConfig) -> tuple[str, str]:
    """Return `certfile` and `keyfile` of a server.

    Raises:
        InvalidArgumentError: One of them is not set, or clients need certificates and `cafile` is not set. Names the field.
    """
    if tls.certfile is None or tls.keyfile is None:
        raise InvalidArgumentError("a server needs a certificate and a key", field="tls.certfile")
    if tls.require_client_cert and tls.cafile is None:
        raise InvalidArgumentError("client certificates need a trusted authority", field="tls.cafile")
    return tls.certfile, tls.keyfile


def _read_pem(path: str, field: str) -> bytes:
    try:
        return Path(path).read_bytes()
    except OSError as error:
        raise InvalidArgumentError(f"{path}: {error.strerror}", field=field) from None
