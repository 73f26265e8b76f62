"""Checks that the events of a session in the form of the Agent Runtime contract follow its rules."""

import io
import json
from collections.abc import Iterable
from typing import Any

from protolink_grpc.reports.agentruntime_validator.rule import Status
from protolink_grpc.reports.agentruntime_validator.snapshot import read_snapshot
from protolink_grpc.reports.agentruntime_validator.validation import validate


def violations_of(records: Iterable[dict[str, Any]], page: dict[str, Any] | None = None) -> list[str]:
    """Return the violated rules, each with its first violation.

    Args:
        page: A SessionPage as a dict: the state of the session to compare with.
    """
    log = b"".join(json.dumps(record).encode() + b"\n" for record in records)
    snapshot = None if page is None else read_snapshot(json.loads(json.dumps(page)))
    failed = validate(io.BytesIO(log), snapshot).of(Status.FAILED)
    return [f"{each.rule.id} line {each.findings[0].line}: {each.findings[0].problem}" for each in failed]
