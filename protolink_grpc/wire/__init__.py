"""Conversions between the models and protobuf, on the network and on disk; total in both directions."""
