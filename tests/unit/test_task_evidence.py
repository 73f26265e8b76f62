"""The context of the latest model call of a task, read from its log."""

from protolink_grpc.models.action import ContextManifest, OmittedContext, OmittedItems
from protolink_grpc.models.events import ContextPrepared
from protolink_grpc.models.snapshot import ContextBoundarySnapshot
from protolink_grpc.models.tool import OfferedTool, OfferedTools
from protolink_grpc.runtime.task_evidence import ContextReader
from protolink_grpc.wire.events import EventEncoder

TOOLS = OfferedTools((OfferedTool("look", "local"),))
OMITTED = OmittedItems((OmittedContext("turn", "m1", "context_window", 9),), 1)


def read(
    *prompts: tuple[str, OfferedTools | None, OmittedItems | None], summaries: tuple[int, ...] = ()
) -> ContextBoundarySnapshot:
    """Read a log with these prompts, each of a run, with the tools and the omissions that its event has."""
    reader = ContextReader("t")
    for number, (run_id, offered, omitted) in enumerate(prompts, 1):
        manifest = ContextManifest(metadata={"purpose": "summary"} if number in summaries else {})
        payload = ContextPrepared(manifest, number, offered, omitted)
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


def test_a_summary_offers_no_tools_and_the_next_prompt_has_the_facts_from_before_it() -> None:
    prompts = (("r1", TOOLS, OMITTED), ("r1", None, None), ("r1", None, None))
    during, after = read(*prompts[:2], summaries=(2,)), read(*prompts, summaries=(2,))
    assert (during.step, during.offered, during.omitted, during.gaps) == (2, OfferedTools(), OmittedItems(), ())
    assert (after.step, after.offered, after.omitted, after.gaps) == (3, TOOLS, OMITTED, ())
    first = read(("r1", None, None), summaries=(1,))
    assert (first.offered, first.gaps) == (OfferedTools(), ())
