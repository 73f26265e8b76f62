"""Checks that the events of a session in the form of the Agent Runtime contract follow its rules."""

import io
import json
from collections.abc import Iterable
from typing import Any

from protolink_grpc.agentruntime.validator.rule import Level, Status
from protolink_grpc.agentruntime.validator.snapshot_file import read_snapshot
from protolink_grpc.agentruntime.validator.validation import validate

VERSION = "R174.2"
"""The rule of the profile that our events do not follow: their schemaVersion is that of this package."""


def violations_of(records: Iterable[dict[str, Any]], *documents: dict[str, Any]) -> list[str]:
    """Return the violated rules of the core and of the profile Lime, each with its first violation.

    Args:
        documents: Snapshots as dicts, to compare with: of the session, its threads, queues and tasks.
    """
    log = b"".join(json.dumps(record).encode() + b"\n" for record in records)
    snapshots = [read_snapshot(json.loads(json.dumps(each))) for each in documents]
    report = validate(io.BytesIO(log), snapshots, Level.LIME)
    failed = [each for each in report.of(Status.FAILED) if each.rule.id != VERSION]
    return [f"{each.rule.id} line {each.findings[0].line}: {each.findings[0].problem}" for each in failed]
