"""`plgrpc` without its retries of three seconds, for tests with unreachable servers."""

import sys

from protolink_grpc.cli import connect
from protolink_grpc.cli.app import main

connect.OUTAGE_S = 0.1

if __name__ == "__main__":
    sys.exit(main())
