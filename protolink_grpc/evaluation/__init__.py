"""Evaluation of agents: cases, samples, scores, and comparisons. Each sample is a task with a log of its own."""

from protolink_grpc.evaluation.cases import EvaluationCase, load_evaluation_cases
from protolink_grpc.evaluation.comparison import CaseChange, EvaluationComparison, compare_evaluations
from protolink_grpc.evaluation.judge import judge
from protolink_grpc.evaluation.report import CaseResult, EvaluationReport, ScorerResult
from protolink_grpc.evaluation.runner import evaluate
from protolink_grpc.evaluation.samples import EvaluationSample, EvaluationScore, Scorer
from protolink_grpc.evaluation.scorers import contains, exact_match, json_match, tool_used

__all__ = [
    "CaseChange",
    "CaseResult",
    "EvaluationCase",
    "EvaluationComparison",
    "EvaluationReport",
    "EvaluationSample",
    "EvaluationScore",
    "Scorer",
    "ScorerResult",
    "compare_evaluations",
    "contains",
    "evaluate",
    "exact_match",
    "json_match",
    "judge",
    "load_evaluation_cases",
    "tool_used",
]
