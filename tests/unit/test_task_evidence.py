"""The context of the latest model call of a task, read from its log."""

from protolink_grpc.models.action import ContextManifest, OmittedContext, OmittedItems
from protolink_grpc.models.events import ContextPrepared
from protolink_grpc.models.snapshot import ContextBoundarySnapshot
from protolink_grpc.models.tool import OfferedTool, OfferedTools
from protolink_grpc.runtime.task_evidence import ContextReader
from protolink_grpc.wire.events import EventEncoder

TOOLS = OfferedTools((OfferedTool("look", "local"),))
OMITTED = OmittedItems((OmittedContext("turn", "m1", "context_window", 9),), 1)


def read(*prompts: tuple[str, OfferedTools | None, OmittedItems | None]) -> ContextBoundarySnapshot:
    """Read a log with these prompts, each of a run, with the tools and the omissions that its event has."""
    reader = ContextReader("t")
    for number, (run_id, offered, omitted) in enumerate(prompts, 1):
        payload = ContextPrepared(ContextManifest(), number, offered, omitted)
        reader.add_frames([EventEncoder("t", run_id, "s", "a").frame(payload, number, 1_000_000)])
    return reader.snapshot(len(prompts))


def test_tools_and_omissions_are_those_of_the_last_event_of_the_run_that_has_them() -> None:
    found = read(("r1", TOOLS, OMITTED), ("r1", None, None))
    assert (found.step, found.offered, found.omitted, found.gaps) == (2, TOOLS, OMITTED, ())


def test_a_run_does_not_continue_with_the_facts_of_another_one() -> None:
    found = read(("r1", TOOLS, OMITTED), ("r2", OfferedTools(), None))
    assert (found.offered, found.omitted) == (OfferedTools(), OmittedItems())


def test_a_log_of_an_earlier_version_leaves_tools_and_omissions_unknown() -> None:
    found = read(("r1", None, None))
    assert (found.step, found.offered, found.omitted) == (1, None, None)
    assert [gap.part for gap in found.gaps] == ["offered", "omitted"]
