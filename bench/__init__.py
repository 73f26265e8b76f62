"""Measures protolink_grpc against the bare floor under it. Outside of the package and of `make check`'s time; see `run.py`."""

import os

# Starting a server while a channel is open makes gRPC tell about its fork handlers, between our lines.
os.environ.setdefault("GRPC_VERBOSITY", "ERROR")
