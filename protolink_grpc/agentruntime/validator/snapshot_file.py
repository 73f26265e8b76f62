"""Reads snapshots from JSON: the contract's document of a session, and the JSON that this package's commands print."""

from protolink_grpc.agentruntime.validator import contract_snapshot, own_snapshots
from protolink_grpc.agentruntime.validator.snapshot import Snapshot
from protolink_grpc.errors import InvalidArgumentError


def read_snapshot(document: object) -> Snapshot:
    """Read a snapshot.

    Raises:
        InvalidArgumentError: It has none of the forms; names the field.
    """
    if not isinstance(document, dict):
        raise InvalidArgumentError("must be an object")
    if "sessionId" in document:
        return contract_snapshot.read(document)
    for name, read in own_snapshots.FORMS.items():
        if name in document:
            return read(document)
    raise InvalidArgumentError(
        "must have sessionId, or session, thread, queued_turns, attempts or policy_decisions as in the JSON of plgrpc snapshot"
    )
