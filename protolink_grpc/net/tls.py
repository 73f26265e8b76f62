"""Certificates as gRPC takes them, for servers and clients."""

from dataclasses import dataclass
from pathlib import Path

import grpc

from protolink_grpc.errors import InvalidArgumentError
from protolink_grpc.models.arguments import checks_arguments


@checks_arguments
@dataclass(frozen=True, slots=True)
class TLSConfig:
    """Certificates of a server or a client; paths of PEM files.

    Args:
        certfile, keyfile: Own certificate chain and key. A server needs them, a client only for mTLS.
        cafile: Whom to trust; None means the system's authorities. A server needs it to check clients.
        require_client_cert: Server: refuse clients without a certificate (mTLS).
    """

    certfile: str | None = None
    keyfile: str | None = None
    cafile: str | None = None
    require_client_cert: bool = False

    def server_credentials(self) -> grpc.ServerCredentials:
        """Raises InvalidArgumentError when a file is missing, naming the field."""
        if self.certfile is None or self.keyfile is None:
            raise InvalidArgumentError("a server needs a certificate and a key", field="tls.certfile")
        if self.require_client_cert and self.cafile is None:
            raise InvalidArgumentError("checking clients needs the authority that signs them", field="tls.cafile")
        pair = (_pem(self.keyfile, "tls.keyfile"), _pem(self.certfile, "tls.certfile"))
        trusted = _pem(self.cafile, "tls.cafile") if self.cafile else None
        return grpc.ssl_server_credentials([pair], trusted, self.require_client_cert)

    def channel_credentials(self) -> grpc.ChannelCredentials:
        """Raises InvalidArgumentError when a file is missing, naming the field."""
        return grpc.ssl_channel_credentials(
            _pem(self.cafile, "tls.cafile") if self.cafile else None,
            _pem(self.keyfile, "tls.keyfile") if self.keyfile else None,
            _pem(self.certfile, "tls.certfile") if self.certfile else None,
        )


def _pem(path: str, field: str) -> bytes:
    try:
        return Path(path).read_bytes()
    except OSError as error:
        raise InvalidArgumentError(f"{path}: {error.strerror}", field=field) from None
