"""Small programs that show how protolink_grpc is used; `python examples/x.py` runs each of them."""
