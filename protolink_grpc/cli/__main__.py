"""`python -m protolink_grpc.cli` is `plgrpc`."""

import sys

from protolink_grpc.cli.app import main

sys.exit(main())
