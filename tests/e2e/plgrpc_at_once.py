"""`plgrpc` that does not retry for three seconds what cannot be reached: for tests in which it never can."""

import sys

from protolink_grpc.cli import connect
from protolink_grpc.cli.app import main

connect.OUTAGE_S = 0.1

if __name__ == "__main__":
    sys.exit(main())
