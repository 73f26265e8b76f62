"""Docstrings: the text is the tool's description, and descriptions of parameters are in the schema."""

import warnings
from typing import Annotated, Any

import pytest
from pydantic import BaseModel, Field

from protolink_grpc.tools import Tool, ToolContext


def google(nights: int, city: str, context: ToolContext, guests: int = 1, **more: int) -> str:
    """Book a room
    in a hotel.

    Rooms are kept for an hour:

      - by name
      - by number

    Args:
        nights (int): How many nights.
            At least one.
        city: Where, as `City, Country`.
        context: Not for callers.
        guests: Who comes along.
        **more: Extras by name.

    Returns:
        The number of
        the booking.

    Raises:
        LookupError: There is no such city.

    Note:
        Prices change at midnight.
    """
    return ""


def numpy(nights: int, city: str, context: ToolContext, guests: int = 1, **more: int) -> str:
    """Book a room
    in a hotel.

    Rooms are kept for an hour:

      - by name
      - by number

    Parameters
    ----------
    nights : int
        How many nights.
        At least one.
    city : str
        Where, as `City, Country`.
    guests : int, optional
        Who comes along.
    **more : int
        Extras by name.

    Returns
    -------
    str
        The number of
        the booking.

    Raises
    ------
    LookupError
        There is no such city.
    """
    return ""


def sphinx(nights: int, city: str, context: ToolContext, guests: int = 1, **more: int) -> str:
    """Book a room
    in a hotel.

    Rooms are kept for an hour:

      - by name
      - by number

    :param nights: How many nights.
        At least one.
    :type nights: int
    :param str city: Where, as `City, Country`.
    :param guests: Who comes along.
    :param **more: Extras by name.
    :returns: The number of
        the booking.
    :raises LookupError: There is no such city.
    """
    return ""


@pytest.mark.parametrize("fn", [google, numpy, sphinx])
def test_the_text_is_the_description_and_parameters_are_described_in_the_schema(fn: Any) -> None:
    tool = Tool.from_callable(fn)
    text = "Book a room in a hotel.\n\nRooms are kept for an hour:\n\n  - by name\n  - by number"
    assert tool.description.startswith(text)
    assert "Returns: The number of\nthe booking." in tool.description
    assert "midnight" in tool.description or fn is not google
    assert "LookupError" not in tool.description
    assert "Args" not in tool.description
    properties = tool.input_schema["properties"]
    assert {name: " ".join(each["description"].split()) for name, each in properties.items()} == {
        "nights": "How many nights. At least one.",
        "city": "Where, as `City, Country`.",
        "guests": "Who comes along.",
    }
    assert tool.input_schema["additionalProperties"] == {"type": "integer", "description": "Extras by name."}
    assert tool.skill().input_schema["properties"]["city"]["description"] == "Where, as `City, Country`."
    tool.validate({"nights": 1, "city": "Rome", "breakfast": 2})


class Room(BaseModel):
    """A room."""

    number: int


def test_explicit_descriptions_have_priority() -> None:
    def fn(
        a: Annotated[int, Field(description="from the field")],
        b: Room,
        c: Annotated[int, Field(alias="see")],
        d: int = 1,
    ) -> None:
        """Text.

        Args:
            a: from the docstring
            b: The room to take.
            c: Under another name.
            unknown: Is no parameter.
        """

    tool = Tool.from_callable(fn, description="Given.")
    assert tool.description == "Given."
    properties = tool.input_schema["properties"]
    assert properties["a"]["description"] == "from the field"
    assert properties["b"]["description"] == "The room to take."
    assert properties["see"]["description"] == "Under another name."
    assert "description" not in properties["d"]
    schema = {"type": "object", "properties": {"a": {"type": "integer"}}}
    assert Tool.from_callable(fn, input_schema=schema).input_schema == schema


@pytest.mark.parametrize(
    "text",
    [
        "",
        "Args:",
        "Args:\n    :::\n",
        "Parameters\n------",
        "Parameters\n----------\nx\n  y\n: z",
        ":param",
        ":param:",
        ":param x",
        "Returns:\n",
        "Text.\n\nArgs:\n\n\n    a: b\n  c: d\n",
        "Text.\n\nArgs:\n    a(: x\n    b[: y\n    no colon here\n",
        "Usage:\n    run it\n\n---\n\nThe end:",
        "Args:\n" * 1000,
        "-" * 100_000,
        ":param " * 20_000,
    ],
)
def test_an_unusual_docstring_is_text_and_logs_nothing(text: str, caplog: pytest.LogCaptureFixture) -> None:
    def fn(a: int = 1) -> None: ...

    fn.__doc__ = text
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        tool = Tool.from_callable(fn)
    assert isinstance(tool.description, str)
    assert not caplog.records


def test_a_callable_object_is_described_by_its_call() -> None:
    class Adder:
        """Adds."""

        def __call__(self, n: int) -> int:
            """Add one.

            Args:
                n: To this.
            """
            return n + 1

    tool = Tool.from_callable(Adder(), name="add")
    assert (tool.description, tool.input_schema["properties"]["n"]["description"]) == ("Add one.", "To this.")
