"""Open enums of the contract: a later version may add values, and readers keep unknown values."""

import re
from enum import StrEnum
from typing import Final, Self

_UNRECOGNIZED: Final = re.compile(r"unknown-(-?\d{1,10})", re.ASCII)


class OpenEnum(StrEnum):
    """A StrEnum that also takes `unknown-N`: value N of an enum in the contract, which this version has no name for.

    Such a member is in no list of members and equals every other one of the same number, so it is compared with `==`, never with
    `is`. What a caller asks for must be a member with a name: check `is_named`.
    """

    @classmethod
    def _missing_(cls, value: object) -> Self | None:
        if not isinstance(value, str) or _UNRECOGNIZED.fullmatch(value) is None:
            return None
        member = str.__new__(cls, value)
        member._name_ = member._value_ = value
        return member

    @property
    def is_named(self) -> bool:
        """Whether this version knows the value."""
        return self._name_ in type(self).__members__


def unrecognized(number: int) -> str:
    """The text for value `number` of an enum that has no name for it."""
    return f"unknown-{number}"


def unrecognized_number(text: str) -> int | None:
    """N of `unknown-N`; None for any other text."""
    found = _UNRECOGNIZED.fullmatch(text)
    return None if found is None else int(found[1])
