"""Open enums of the contract: a later version may add values, and readers keep unknown values."""

import re
from enum import StrEnum
from typing import Final, Self

_UNRECOGNIZED: Final = re.compile(r"unknown-(-?\d{1,10})", re.ASCII)


class OpenEnum(StrEnum):
    """A StrEnum that also has `unknown-N` for each number N of its enum in the contract that this version has no name for.

    Such a value is not a member of the class. Two of the same number are equal but not identical: compare with `==`, not with `is`.
    In a request only named members are allowed: check `is_named`.
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
        """Whether this version has a name for the value."""
        return self._name_ in type(self).__members__


def unrecognized(number: int) -> str:
    """Return the text for a number that the enum has no name for."""
    return f"unknown-{number}"


def unrecognized_number(text: str) -> int | None:
    """Return N for the text `unknown-N`; None for any other text."""
    found = _UNRECOGNIZED.fullmatch(text)
    return None if found is None else int(found[1])
