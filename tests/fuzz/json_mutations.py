"""JSON values of any form, and valid JSON objects with a few mistakes."""

import json
from collections.abc import Iterator
from copy import deepcopy
from typing import Any

from hypothesis import strategies as st

Json = dict[str, Any]

numbers = st.integers(-(10**30), 10**30) | st.integers() | st.floats(allow_nan=False, allow_infinity=False)
texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=12)
scalars = st.none() | st.booleans() | numbers | texts
json_values = st.recursive(
    scalars,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(texts, inner, max_size=3),
    max_leaves=8,
)

oddities = json_values | st.sampled_from(
    [
        "",
        " ",
        "\x00",
        "x" * 200,
        -1,
        0,
        101,
        2**31,
        2**63,
        10**300,
        1e308,
        1.5,
        "1",
        "1e3",
        "0000-00-00T00:00:00Z",
        "9999-12-31T23:59:60+99:99",
        "\U0010ffff",
        "\u202e",
        "http://[::1",
        "file:///etc/passwd",
        [[]] * 3,
        {"": None},
        {"text": "x", "url": "y"},
        {"plgrpc": {"exact": "{"}},
        {"a2a": {"message_id": 1}},
        {"type": "tool_call", "content": 1},
    ]
)


def places(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Where something stands in a JSON value."""
    if path:
        yield path
    children = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, child in children:
        yield from places(child, (*path, key))


def changed(value: Any, path: tuple[Any, ...], how: str, oddity: Any, name: str) -> Any:
    whole = deepcopy(value)
    holder = whole
    for key in path[:-1]:
        holder = holder[key]
    last = path[-1]
    if how == "replace":
        holder[last] = oddity
    elif how == "remove":
        del holder[last]
    elif isinstance(holder, dict):
        holder[name] = holder.pop(last) if how == "rename" else oddity
    else:
        holder.insert(last, oddity)
    return whole


@st.composite
def mutations(draw: st.DrawFn) -> list[tuple[float, str, Any, str]]:
    """What is done to parameters: where (as a share of all places), what, and with which oddity and name."""
    hows = st.sampled_from(["replace", "replace", "remove", "rename", "add"])
    names = texts | st.sampled_from(["kind", "data", "raw", "task_id", "message_id", "type", "taskId", "metadata"])
    one = st.tuples(st.floats(0, 1, exclude_max=True), hows, oddities, names)
    return draw(st.lists(one, min_size=1, max_size=2))


def mutated(params: Json, steps: list[tuple[float, str, Any, str]]) -> Json:
    for where, how, oddity, name in steps:
        found = list(places(params))
        if found:
            params = changed(params, found[int(where * len(found))], how, oddity, name)
    return params


def written(value: Any) -> bytes:
    return json.dumps(value, ensure_ascii=False).encode()
