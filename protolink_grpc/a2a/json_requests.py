"""Readers for small requests. Each returns the fields as a tuple, in the order of the operation's arguments.

All of them raise InvalidArgumentError, which names the field as the caller spells it.
"""

from collections.abc import Mapping
from typing import Any

from protolink_grpc.a2a.json_codec import list_params
from protolink_grpc.a2a.json_reader import Source, as_object, integer, mapping, require_text, spelling_of, text
from protolink_grpc.a2a.values import MAX_PAGE_SIZE, ListParams
from protolink_grpc.wire.tasks import check_id

Json = dict[str, Any]


def _read_id(source: Source, name: str) -> str:
    return check_id(text(source, name), name)


def _require_id(source: Source, name: str) -> str:
    return check_id(require_text(source, name), name)


def task_params(found: object) -> tuple[str, str, int | None]:
    """Return the tenant, task id and history length of GetTask."""
    source = as_object(found)
    return _read_id(source, "tenant"), _require_id(source, "id"), integer(source, "historyLength", 0)


def cancel_params(found: object) -> tuple[str, str, Json]:
    """Return the tenant, task id and metadata of CancelTask."""
    source = as_object(found)
    return _read_id(source, "tenant"), _require_id(source, "id"), mapping(source, "metadata") or {}


def subscribe_params(found: object) -> tuple[str, str]:
    """Return the tenant and task id of SubscribeToTask."""
    source = as_object(found)
    return _read_id(source, "tenant"), _require_id(source, "id")


def push_params(found: object) -> tuple[str, str, str]:
    """Return the tenant, task id and config id of GetTaskPushNotificationConfig or DeleteTaskPushNotificationConfig."""
    source = as_object(found)
    return _read_id(source, "tenant"), _require_id(source, "taskId"), _require_id(source, "id")


def push_list_params(found: object) -> tuple[str, str, int | None, str]:
    """Return the tenant, task id, page size (None means the default) and page token of ListTaskPushNotificationConfigs."""
    source = as_object(found)
    size = integer(source, "pageSize", 0, MAX_PAGE_SIZE) or None
    return _read_id(source, "tenant"), _require_id(source, "taskId"), size, text(source, "pageToken")


def card_params(found: object) -> str:
    """Return the tenant of GetExtendedAgentCard."""
    return _read_id(as_object(found), "tenant")


def list_params_from_query(query: Mapping[str, str]) -> ListParams:
    """Return the parameters of ListTasks from query parameters, which are all text."""
    source: Source = {name: each for name, each in query.items() if each != ""}
    name = spelling_of(source, "includeArtifacts")
    if name in source:
        source[name] = {"true": True, "false": False}.get(source[name], source[name])
    return list_params(source)
