"""The requirements of the contract, R001 to R184, that have no rule of their own here, and why."""

from types import MappingProxyType
from typing import Final

from protolink_grpc.agentruntime.validator.rule import Level

COVERED: Final = MappingProxyType(
    {
        "R018": "R065.1",
        "R023": "R009",
        "R052": "R118.2",
        "R062": "R061.1",
        "R074": "R009",
        "R075": "R080",
        "R076": "R008.1",
        "R078": "R147.6",
        "R085": "R080",
        "R093": "R088.4",
        "R119": "R009",
        "R132": "R008.1",
        "R140": "R042.1",
        "R143": "R147.6",
        "R144": "R061.1",
        "R148": "R026.2",
        "R151": "R147.6",
        "R177": "R175.1",
    }
)
"""Requirements that the rule of another one checks."""

UNJUDGED: Final = MappingProxyType(
    {
        needs: tuple(rules.split())
        for needs, rules in {
            "the commands and their responses": (
                "R012 R028 R029 R036 R040 R041 R050 R053 R058 R095 R104 R108 R134 R149 R166"
            ),
            "restarts, reconnections and faults while the log is written": (
                "R021 R031 R037 R038 R049 R082 R121 R129 R139 R156 R162 R168 R169"
            ),
            "a review by a person": "R019 R032 R039 R057 R081 R135 R171 R172 R173",
            "a limit or a pattern that the contract does not define": "R017 R027 R083 R084 R109 R110 R159 R182",
            "all read models of a runtime": "R059 R142",
            "exports of evidence, replays, reviews and benchmarks": (
                "R056 R152 R153 R154 R155 R157 R158 R161 R163 R164 R165 R167 R170 R179 R180 R181"
            ),
            "nothing: they permit something": "R046",
        }.items()
    }
)
"""What it would take to judge requirements that this program does not judge."""

LIME_ONLY: Final = ("R174", "R175", "R176", "R177", "R178")
"""Requirements that only rules of the level lime check."""


def unjudged(level: Level) -> dict[str, tuple[str, ...]]:
    """Return the requirements that are not judged at a level, by what it would take."""
    found = dict(UNJUDGED)
    return found if level is Level.LIME else found | {"--level lime": LIME_ONLY}
