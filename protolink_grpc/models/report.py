"""RunReport: a summary of a run as one value. `reports.builder` builds it from events; nothing here reads a log."""

import json
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any, Self

from protolink_grpc.errors import InvalidArgumentError
from protolink_grpc.lazy import load
from protolink_grpc.models import reader
from protolink_grpc.models.action import BudgetDecision, BudgetUsage, ContextManifest
from protolink_grpc.models.arguments import checks_arguments
from protolink_grpc.models.artifact import Artifact
from protolink_grpc.models.clock import utc_now
from protolink_grpc.models.context import RunContext
from protolink_grpc.models.events import RunEvent
from protolink_grpc.models.json_form import JsonForm, read_fields, to_object
from protolink_grpc.models.redaction import RedactionPolicy
from protolink_grpc.models.report_diff import RunReportDiff
from protolink_grpc.models.report_records import (
    ReportedAction,
    ReportedApproval,
    ReportedCall,
    ReportedStep,
    ReportTotals,
)
from protolink_grpc.models.task import Task

REPORT_VERSION = "1.0"


@checks_arguments
@dataclass(slots=True)
class RunReport(JsonForm):
    """A summary of one run, or of all runs of a task. It is computed from events alone.

    Args:
        context: The context of the run; None if there are no events.
        events: Oldest first, without the volatile text deltas.
        actions, approvals, metrics, steps: One record each, in the order in which they began.
        artifacts: Their final versions, in the order of their first events.
        budget_decisions: Warnings and denials, oldest first.
        usage: The usage that the task recorded at the end of the run; None if it recorded none.
        totals: Sums over the records.
        final_task: The task after the last event; None if the events neither begin with the submission nor contain the task.
        metadata: Values added by the creator of the report.
        created_at: Creation time of the report. It is not compared: two reports of the same events are equal.
    """

    context: RunContext | None = None
    context_manifests: list[ContextManifest] = field(default_factory=list)
    events: list[RunEvent] = field(default_factory=list)
    actions: list[ReportedAction] = field(default_factory=list)
    approvals: list[ReportedApproval] = field(default_factory=list)
    artifacts: list[Artifact] = field(default_factory=list)
    metrics: list[ReportedCall] = field(default_factory=list)
    final_task: Task | None = None
    metadata: dict[str, Any] = field(default_factory=dict)
    steps: list[ReportedStep] = field(default_factory=list)
    budget_decisions: list[BudgetDecision] = field(default_factory=list)
    usage: BudgetUsage | None = None
    totals: ReportTotals = field(default_factory=ReportTotals)
    created_at: str = field(default_factory=utc_now, compare=False)

    @property
    def run_id(self) -> str:
        return "" if self.context is None else self.context.run_id

    @property
    def task_id(self) -> str:
        if self.final_task is not None:
            return self.final_task.id
        return next((event.task_id for event in self.events if event.task_id), "")

    @classmethod
    def from_events(
        cls,
        events: Iterable[RunEvent],
        context: RunContext | None = None,
        final_task: Task | None = None,
        metadata: dict[str, Any] | None = None,
        *,
        run_id: str = "",
    ) -> "RunReport":
        """Build the report of events, oldest first, in one pass.

        Args:
            context: Replaces the context in the events.
            final_task: Replaces the task computed from the events.
            run_id: Include only this run of the task; an action that spans several runs is included completely. Empty means all.
        """
        builder = load("protolink_grpc.reports.builder:ReportBuilder")(
            run_id
        )  # by name, because it is in an upper layer
        for event in events:
            builder.add(event)
        report: RunReport = builder.report(context, final_task, metadata)
        return report

    def to_dict(self, redaction_policy: RedactionPolicy | None = None) -> dict[str, Any]:
        """Return the JSON form, redacted if a policy is given. It shares nothing with the report."""
        found = {"version": REPORT_VERSION, **to_object(self), "created_at": self.created_at}
        return redact_json(found, redaction_policy)

    @classmethod
    def from_dict(cls, data: object) -> Self:
        """Read a JSON object. The report shares nothing with it; unknown keys are skipped.

        Raises:
            InvalidArgumentError: A value of the wrong type; names its path, for instance `events[3].type`.
        """
        found = read_fields(cls, data)
        found.setdefault("totals", ReportTotals.from_dict({}))
        return cls(**found, created_at=reader.moment(reader.as_object(data), "created_at"))

    def to_json(self, redaction_policy: RedactionPolicy | None = None) -> str:
        """Return the text of `to_dict`."""
        return to_json_line(self.to_dict(redaction_policy))

    @classmethod
    def from_json(cls, text: str | bytes, *, field: str = "report") -> Self:
        """Read a JSON text. Raises as `from_dict`; names `field` if the text is not JSON."""
        return cls.from_dict(read_json_object(text, field))

    def diff(self, other: "RunReport", *, ignore: Iterable[str] = ()) -> RunReportDiff:
        """Compare this run with another one, except for the sections in `ignore`; see `diff_run_reports`."""
        # By name, because it is in an upper layer.
        found: RunReportDiff = load("protolink_grpc.reports.diff:diff_run_reports")(self, other, ignore=ignore)
        return found

    def redacted(self, redaction_policy: RedactionPolicy | None = None) -> Self:
        """Return a copy, redacted by the policy; None means `RedactionPolicy()`."""
        return type(self).from_dict(self.to_dict(redaction_policy or RedactionPolicy()))


def redact_json(value: dict[str, Any], redaction_policy: RedactionPolicy | None) -> dict[str, Any]:
    """Return a JSON object redacted by a policy. If the policy shortens texts, ids, times and types are not shortened."""
    if redaction_policy is None:
        return value
    shown: dict[str, Any] = redaction_policy.redact(value)
    if redaction_policy.max_string_length is not None:
        _restore_structure(shown, value)
    return shown


def _restore_structure(shown: Any, whole: Any, key: str = "") -> Any:
    """Return `shown` with the complete ids, times and types of `whole`, if the policy only shortened them."""
    if isinstance(shown, dict) and isinstance(whole, dict):
        for name in shown.keys() & whole.keys():
            shown[name] = _restore_structure(shown[name], whole[name], name)
    elif isinstance(shown, list):
        for index, item in enumerate(shown):
            shown[index] = _restore_structure(item, whole[index], key)
    elif isinstance(shown, str) and shown != whole and _is_structure(key) and whole.startswith(shown[:-1]):
        return whole
    return shown


def _is_structure(key: str) -> bool:
    return key in _STRUCTURE or key.endswith(("_id", "_ids", "_at", "_state", "Id"))


_STRUCTURE = frozenset({"id", "type", "timestamp", "state", "effect", "kind", "role", "severity", "capabilities"})


def to_json_line(value: dict[str, Any]) -> str:
    """Return one line of JSON, without the usual bound of depth: a report contains values that each may have the maximum depth."""
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


def read_json_object(text: str | bytes, field: str) -> dict[str, Any]:
    """Return the object of a JSON text of any depth. Raises InvalidArgumentError, which names `field`."""
    try:
        return reader.as_object(json.loads(text))
    except InvalidArgumentError as error:
        raise error.within(field) from None
    except (ValueError, RecursionError):  # RecursionError for too many brackets
        raise InvalidArgumentError("must be valid JSON", field=field) from None
