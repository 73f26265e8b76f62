"""Reports, replays, exports and run stores, computed from the logs of runs. This package does not affect runs."""

from protolink_grpc.models.report import RunReport
from protolink_grpc.models.report_diff import (
    ALL_RUN_REPORT_SECTIONS,
    FirstDifference,
    RunReportDiff,
    RunReportDifference,
    RunReportDifferenceKind,
    RunReportSection,
)
from protolink_grpc.models.report_records import (
    ReportedAction,
    ReportedApproval,
    ReportedCall,
    ReportedStep,
    ReportTotals,
)
from protolink_grpc.reports.assertions import (
    assert_budget_under,
    assert_no_denied_actions,
    assert_run_events,
    assert_run_matches,
)
from protolink_grpc.reports.builder import ReportBuilder
from protolink_grpc.reports.diff import diff_run_reports
from protolink_grpc.reports.export import RunExport, SessionExport
from protolink_grpc.reports.replay import RunReplay
from protolink_grpc.reports.run_store import RunReportRecord, RunStore, SQLiteRunStore, TaskRecord
from protolink_grpc.reports.sinks import EventSink, InMemoryEventSink, RunRecorder

__all__ = [
    "ALL_RUN_REPORT_SECTIONS",
    "EventSink",
    "FirstDifference",
    "InMemoryEventSink",
    "ReportBuilder",
    "ReportTotals",
    "ReportedAction",
    "ReportedApproval",
    "ReportedCall",
    "ReportedStep",
    "RunExport",
    "RunRecorder",
    "RunReplay",
    "RunReport",
    "RunReportDiff",
    "RunReportDifference",
    "RunReportDifferenceKind",
    "RunReportRecord",
    "RunReportSection",
    "RunStore",
    "SQLiteRunStore",
    "SessionExport",
    "TaskRecord",
    "assert_budget_under",
    "assert_no_denied_actions",
    "assert_run_events",
    "assert_run_matches",
    "diff_run_reports",
]
