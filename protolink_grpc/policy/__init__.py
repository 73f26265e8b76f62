"""Policies and budgets: decisions without I/O."""

from protolink_grpc.models.redaction import DEFAULT_REDACTION_POLICY, RedactingFilter, RedactionPolicy
from protolink_grpc.policy.budget import BudgetEnforcer, BudgetPolicy, BudgetPolicyLike, Reservation, effective
from protolink_grpc.policy.capabilities import CapabilityPolicy, Policy, decide, narrow, permissions_effect

__all__ = [
    "DEFAULT_REDACTION_POLICY",
    "BudgetEnforcer",
    "BudgetPolicy",
    "BudgetPolicyLike",
    "CapabilityPolicy",
    "Policy",
    "RedactingFilter",
    "RedactionPolicy",
    "Reservation",
    "decide",
    "effective",
    "narrow",
    "permissions_effect",
]
