"""The gRPC port and the HTTP port. They convert requests and responses; the runtime decides."""
