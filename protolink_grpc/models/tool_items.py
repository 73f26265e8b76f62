"""The items of a generator tool in the log of its task: one artifact, to which each item is appended as a part.

The output of the tool, the list of its items, refers to this artifact, so the log has each item once.
"""

from typing import Any, Final

from protolink_grpc.models.artifact import Artifact
from protolink_grpc.models.part import Part
from protolink_grpc.models.payload import Payload, PayloadRef

ITEMS_KIND: Final = "tool_items"
"""The `kind` of such an artifact. Its `action_id` is that of the tool call."""

_SCHEME: Final = "artifact:"


def item_part(item: Any) -> Part:
    """Return an item as a part: a text as text, any other value as data. The content of the part is the item."""
    return Part("text" if isinstance(item, str) else "json", item)


def items_of(artifact: Artifact) -> list[Any]:
    """Return the items of an artifact of `ITEMS_KIND`."""
    return [part.content for part in artifact.parts]


def reference_to_items(artifact_id: str, count: int) -> Payload:
    """Return the value that stands for the list of the `count` items of an artifact."""
    return Payload(PayloadRef(_SCHEME + artifact_id), preview=f"{count} item{'' if count == 1 else 's'}")


def is_reference_to_items(value: Any, artifact_id: str) -> bool:
    """Return whether a value stands for the items of an artifact."""
    return isinstance(value, Payload) and value.value == PayloadRef(_SCHEME + artifact_id)
