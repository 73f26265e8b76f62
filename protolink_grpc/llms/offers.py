"""The tools and peers that each prompt of an inference offers to the model, for the log."""

from collections.abc import Sequence

from protolink_grpc.llms.answers import READ_ARTIFACT
from protolink_grpc.llms.loop_host import InferenceRequest
from protolink_grpc.llms.port import ToolSpec
from protolink_grpc.llms.prompt import delegation_targets
from protolink_grpc.models.action import PolicyEffect
from protolink_grpc.models.tool import OfferedTool, OfferedTools
from protolink_grpc.tools.tool import LOCAL_OWNER, PEER_OWNER

_READ = OfferedTool(READ_ARTIFACT, LOCAL_OWNER, read_only=True, idempotent=True, effect=PolicyEffect.ALLOW)
"""Reads of shortened results have no effects, and no policy decides about them."""


class Offers:
    """The offers of one inference. Equal prompts have the same object, which is built once."""

    __slots__ = ("_known", "_native", "_peers", "_tools")

    def __init__(self, request: InferenceRequest, *, native_tools: bool) -> None:
        tools = (OfferedTool(each.name, read_only=each.read_only) for each in request.tools)
        self._tools = {each.name: each for each in tools}
        self._peers: list[OfferedTool] = []
        for each in request.offered:
            if each.runtime_owner.startswith(PEER_OWNER):
                self._peers.append(each)
            else:
                self._tools[each.name] = each
        self._native = native_tools
        self._known: dict[tuple[tuple[str, ...], bool], OfferedTools] = {}

    def offered(self, tools: Sequence[ToolSpec], *, has_artifacts: bool) -> OfferedTools:
        """Return what a prompt offers.

        Args:
            tools: The tools of the prompt; of a model without native tool calls, those that its system prompt describes.
            has_artifacts: Whether the model can read shortened results.
        """
        key = tuple([each.name for each in tools]), has_artifacts
        found = self._known.get(key)
        if found is None:
            found = self._known[key] = OfferedTools(tuple(self._build(tools, has_artifacts)))
        return found

    def _build(self, tools: Sequence[ToolSpec], has_artifacts: bool) -> list[OfferedTool]:
        found = [self._tools[each.name] for each in tools if each.name in self._tools]
        targets = delegation_targets(tools)
        found += [each for each in self._peers if not self._native or each.name in targets]
        can_read = any(each.name == READ_ARTIFACT for each in tools) if self._native else has_artifacts
        return [*found, _READ] if can_read else found
