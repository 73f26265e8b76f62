"""Reads events from JSON: the inverse of `RunEvent.to_dict`, as far as JSON allows. `compat` reads ProtoLink's stream events."""

from contextlib import suppress
from functools import partial
from typing import Any, get_args

from protolink_grpc.errors import InvalidArgumentError
from protolink_grpc.models import events as ev
from protolink_grpc.models import reader
from protolink_grpc.models.json_form import json_fields

Fields = dict[str, Any]


def event_from_dict(data: object) -> ev.RunEvent:
    """Read a JSON object. A payload that does not match its type stays a dict; an empty one is None.

    `event_id` is not read, because it follows from task and sequence. `session_id` is read if a writer has added it.

    Raises:
        InvalidArgumentError: The envelope is invalid; names the field.
    """
    source = reader.as_object(data)
    kind = reader.required_text(source, "type")
    return ev.RunEvent(
        type=kind,
        payload=reader.nested(source, "payload", partial(_read_payload, kind)),
        task_id=reader.text(source, "task_id"),
        sequence=reader.optional_integer(source, "sequence") or None,
        run_id=reader.text(source, "run_id"),
        session_id=reader.text(source, "session_id"),
        agent_name=reader.text(source, "agent_name"),
        timestamp=reader.moment(source, "timestamp"),
        severity=read_severity(source),
        summary=reader.text(source, "summary"),
        final=reader.flag(source, "final"),
        action_id=reader.text(source, "action_id"),
        metadata=reader.mapping(source, "metadata") | _read_protolink_ids(source),
    )


def _read_protolink_ids(source: Fields) -> Fields:
    found = {name: reader.text(source, name) for name in ev.PROTOLINK_IDS}
    return {name: value for name, value in found.items() if value}


def read_severity(source: Fields) -> ev.Severity:
    found = reader.text(source, "severity", "info")
    for known in _SEVERITIES:
        if found == known:
            return known
    raise InvalidArgumentError(f"must be one of {', '.join(_SEVERITIES)}", field="severity")


_SEVERITIES: tuple[ev.Severity, ...] = ("info", "warning", "error")


def _read_payload(kind: str, value: object) -> ev.Payload | ev.TextDelta | Fields | None:
    exact = _BY_TYPE.get(kind)
    if value is None or (value == {} and (exact is None or json_fields(exact))):
        return None
    original = reader.as_object(value)
    # ProtoLink and versions before 1.0 name the outcome of an action in the type only.
    source = {"outcome": ev.OUTCOME_TYPES[kind]} | original if kind in ev.OUTCOME_TYPES else original
    candidates = _FAMILIES.get(_family_of(kind), {}) if exact is None else {exact: _written_names(exact)}
    for payload_type, names in candidates.items():
        # All fields that a class always writes must be there, so that no key of an application's payload of the same type is lost.
        if names <= source.keys():
            with suppress(InvalidArgumentError):  # a log may have values that JSON does not allow: it stays unchanged
                found: ev.Payload | ev.TextDelta = payload_type.from_dict(source)
                return found
    copied: Fields = reader.copy_value(original, "")
    return copied


def _written_names(kind: Any) -> frozenset[str]:
    """Return the names of the fields that the JSON form of a payload always has."""
    return frozenset(name for name, (each, _) in json_fields(kind).items() if "only_if_set" not in each.metadata)


def _family_of(event_type: str) -> str:
    return event_type.partition(".")[0]


_KINDS: list[Any] = [*get_args(ev.Payload), ev.TextDelta]
_BY_TYPE: dict[str, Any] = {
    ev.TYPES[kind]: kind
    for kind in (
        ev.TaskDescribed,
        ev.TaskInputReplaced,
        ev.TaskStartRequested,
        ev.TaskPauseRequested,
        ev.TaskPaused,
        ev.TaskResumed,
        ev.TaskRetried,
        ev.TaskLinked,
        ev.TaskUnlinked,
        ev.TaskQueued,
        ev.PeerTaskLinked,
    )
}
"""Classes of payloads that are read only from events of their own type, because their fields are too common."""
_FAMILIES: dict[str, dict[Any, frozenset[str]]] = {
    family: {
        kind: _written_names(kind)
        for kind in _KINDS
        if _family_of(kind.event_types[0]) == family and kind not in _BY_TYPE.values()
    }
    for family in {_family_of(kind.event_types[0]) for kind in _KINDS}
}
"""The other classes by the first word of their types, with the names of their fields.

Within one word, each class has a field that the others do not have.
"""
