"""Canonical JSON by RFC 8785: equal values give equal bytes, in every language."""

import json
from decimal import Decimal
from math import isfinite
from typing import Any

from protolink_grpc.errors import InvalidArgumentError


def canonical_bytes(value: Any) -> bytes:
    """Return the canonical JSON text of a value. Numbers are doubles in ECMAScript's format; keys are sorted by UTF-16 code units.

    Raises:
        InvalidArgumentError: A number is not finite, a text is not valid Unicode, or a value is not a JSON value.
    """
    pieces: list[str] = []
    _write(value, pieces)
    try:
        return "".join(pieces).encode()
    except UnicodeEncodeError:
        raise InvalidArgumentError("text is not valid Unicode") from None


def _write(value: Any, pieces: list[str]) -> None:
    if value is None or isinstance(value, bool | str):
        pieces.append(json.dumps(value, ensure_ascii=False))
    elif isinstance(value, int | float):
        pieces.append(_format_number(value))
    elif isinstance(value, dict):
        _write_items("{}", sorted(value.items(), key=_code_units), pieces, named=True)
    elif isinstance(value, list):
        _write_items("[]", [("", item) for item in value], pieces, named=False)
    else:
        raise InvalidArgumentError(f"{type(value).__name__} is not a JSON value")


def _code_units(item: tuple[str, Any]) -> bytes:
    return item[0].encode("utf-16-be", "surrogatepass")


def _write_items(brackets: str, items: list[tuple[str, Any]], pieces: list[str], *, named: bool) -> None:
    pieces.append(brackets[0])
    for index, (name, item) in enumerate(items):
        if index:
            pieces.append(",")
        if named:
            pieces.append(f"{json.dumps(name, ensure_ascii=False)}:")
        _write(item, pieces)
    pieces.append(brackets[1])


def _format_number(value: float) -> str:
    """Return a number in ECMAScript's format. Source: ECMA-262, Number::toString.

    Python's repr has the same shortest digits, but places the decimal point differently.
    """
    try:
        double = float(value)
    except OverflowError:
        double = float("inf")
    if not isfinite(double):
        raise InvalidArgumentError("must be a finite number")
    if double == 0:
        return "0"
    _, found, exponent = Decimal(repr(abs(double))).as_tuple()
    everything = "".join(map(str, found))
    digits = everything.rstrip("0")
    point = len(everything) + int(exponent)  # the value is `0.digits` times 10 to this power
    text = _place_point(digits, point)
    return f"-{text}" if double < 0 else text


def _place_point(digits: str, point: int) -> str:
    count = len(digits)
    if count <= point <= 21:
        return digits + "0" * (point - count)
    if 0 < point <= 21:
        return f"{digits[:point]}.{digits[point:]}"
    if -6 < point <= 0:
        return f"0.{'0' * -point}{digits}"
    power = point - 1
    head = digits if count == 1 else f"{digits[0]}.{digits[1:]}"
    return f"{head}e{'+' if power > 0 else '-'}{abs(power)}"
