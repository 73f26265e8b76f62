"""What reaches an agent from outside: its gRPC port and its HTTP port. Edges translate; the runtime decides."""
