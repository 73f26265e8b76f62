"""A2A v0.3 as a translation at the edge: its JSON-RPC methods, its REST routes and its protobuf over the same operations as v1.0.

`jsonrpc` and `rest` are its bindings, `reading` and `writing` its JSON, `protobuf` and `cards` what their names say, `terms` what
all of them share. Of a2a-sdk's v0.3 the protobuf classes are used, its conversions are not: they drop the media types of text and
data parts and a protobuf message's `referenceTaskIds`, and build a tree of pydantic models for each message.

No transport is known here, and nothing is imported here: the operations need `writing`, and the bindings need the operations.
"""
