"""A2A v0.3 as a translation layer: its JSON-RPC methods, REST routes and protobuf messages over the same operations as v1.0.

`jsonrpc` and `rest` are the bindings, `reading` and `writing` the JSON codec, `protobuf` the protobuf codec, `cards` the cards and
`terms` the shared tables. The protobuf classes of v0.3 are those of a2a-sdk. Its conversions are not used: they drop the media
types of text and data parts and the `referenceTaskIds` of a protobuf message, and build a tree of pydantic models for each message
(docs/adr/0031).

The package is independent of any transport. This module imports nothing, to avoid an import cycle: the operations import `writing`
through `push_operations`, and the bindings import the operations.
"""
