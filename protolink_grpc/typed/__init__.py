"""Typed services: an agent's tools as a protobuf service of their own."""
