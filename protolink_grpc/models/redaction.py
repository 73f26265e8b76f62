"""Redaction of secrets, found by the name of their field, by their format or by their value. Nothing is stored here.

Theory of operation. Every pattern and every known secret is searched in the original text. All matches are merged and then
replaced, so that no replacement hides a part of a secret from another search. Each pattern takes time linear in the text: it
is anchored by a lookbehind, repeats possessively, or has a bounded length.
"""

import logging
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any, TypeAlias

from protolink_grpc.errors import InvalidArgumentError
from protolink_grpc.models.arguments import checks_arguments
from protolink_grpc.models.json_value import plain
from protolink_grpc.models.payload import BYTES_KEYS, MARK

DEFAULT_SENSITIVE_KEYS = frozenset(
    {
        "access_key",
        "api_key",
        "api_keys",
        "apikey",
        "authorization",
        "client_secret",
        "cookie",
        "credentials",
        "data_base64",
        "passphrase",
        "passwd",
        "password",
        "passwords",
        "private_key",
        "proxy_authorization",
        "pwd",
        "secret",
        "secret_key",
        "secrets",
        "set_cookie",
        "token",
    }
)
"""Names of fields whose value is a secret. Counts (`input_tokens`) are plural and are not among them."""

SENSITIVE_SUFFIXES = (
    "_access_key",
    "_api_key",
    "_apikey",
    "_credentials",
    "_passphrase",
    "_passwd",
    "_password",
    "_private_key",
    "_secret",
    "_secret_key",
    "_token",
)
"""Suffixes of names of fields whose value is a secret."""

# Where a token may begin: after nothing that could belong to it, or after an escape of a URL.
_START = r"(?:(?<![\w-])|(?<=%[0-9A-Fa-f]{2}))"
_NAMES = (
    r"(?:password|passwd|passphrase|pwd|secret|api[_-]?key|access[_-]?key|private[_-]?key|secret[_-]?key|credentials|token"
    r"|(?:access|auth|bot|csrf|id|refresh|session)[_-]?token)"
)
_FIELD = r"(?<![A-Za-z0-9])" + _NAMES + r"[\"']?[ \t]*+"
"""A name before a separator, also as the end of a longer name: `x-api-key`."""

# What follows a name and a colon in a sentence about it, as in `token: must not be empty`.
_PROSE = (
    r"(?!(?:a|an|and|are|at|be|bool|boolean|bytes|can|cannot|did|do|does|don|expected|expired|false|for|has|in|int|integer|"
    r"invalid|is|it|list|may|missing|must|no|none|not|null|number|object|of|one|only|or|required|should|str|string|that|the|this|to|true|"
    r"unknown|was|with)(?![\w-]))"
)
_UNQUOTED = r"(?P<secret>[^\s&\"'<>,;=\[{(][^\s&\"'<>,;]*+)"

_WORDS = ("pass", "pwd", "secret", "key", "credentials", "token")
"""Each of `_NAMES` contains one of these."""

# Each pattern with a sign that every match contains, and lower-case words of which every match contains at least one. Searching for
# these is cheap and nearly always shows that the pattern cannot match.
_LOOKS: tuple[tuple[re.Pattern[str], tuple[str, tuple[str, ...]]], ...] = tuple(
    (re.compile(pattern, re.ASCII | flags), (sign, words))
    for pattern, flags, sign, words in (
        # Schemes of HTTP authorization. Short words without a digit are prose: "the bearer of bad news".
        (
            r"\bbearer\s++(?P<secret>(?:(?=[^\s0-9]{0,5}[0-9])|(?=\S{6}))[\w.~+/=-]++)",
            re.IGNORECASE,
            "",
            ("bearer",),
        ),
        (
            r"authorization[\"']?\s*+[:=]\s*+[\"']?(?:(?:basic|bearer|digest|token|apikey|negotiate)\s++)?"
            + _PROSE
            + r"(?P<secret>[^\s\"',;]++)",
            re.IGNORECASE,
            "",
            ("authorization",),
        ),
        (
            r"cookie[\"']?[ \t]*+:[ \t]*+[\"']?(?P<secret>[^\r\n\"']++)",
            re.IGNORECASE,
            ":",
            ("cookie",),
        ),
        # API keys with a prefix: OpenAI, Anthropic and their kin, Stripe, GitHub, GitLab, Slack, Hugging Face, Google, AWS.
        (_START + r"sk-(?:(?=[A-Za-z_-]*+[0-9])[\w-]{8,}+|[\w-]{20,}+)", 0, "-", ("sk-",)),
        (_START + r"[srp]k_(?:live|test)_\w{8,}+", 0, "_", ("k_live_", "k_test_")),
        (
            _START + r"(?:gh[oprsu]|github_pat|hf)_\w{16,}+",
            0,
            "_",
            ("gho_", "ghp_", "ghr_", "ghs_", "ghu_", "_pat_", "hf_"),
        ),
        (_START + r"(?:glpat|xox[abeoprs])-[\w-]{16,}+", 0, "-", ("glpat-", "xox")),
        (_START + r"AIza[\w-]{35}", 0, "", ("aiza",)),
        (_START + r"A(?:KIA|SIA|BIA|CCA)[A-Z0-9]{16}(?![A-Za-z0-9])", 0, "", ("akia", "asia", "abia", "acca")),
        # JWT: two JSON objects and a signature.
        (_START + r"eyJ[\w-]++\.eyJ[\w-]++\.[\w-]*+", 0, ".", ("eyj",)),
        # PEM, up to its end marker or the end of the text.
        (
            r"-----BEGIN [A-Z0-9 ]{0,40}PRIVATE KEY(?: BLOCK)?-----(?:[^-]++|-(?!----))*+"
            r"(?:-----END [A-Z0-9 ]{0,60}-----)?",
            0,
            "-",
            ("private key",),
        ),
        # Passwords in URLs, before the host and in the query; assignments as in a file of settings, headers, sentences.
        (r"://[^\s/?#:@\"'<>]*+:(?P<secret>[^\s/\"'<>]+)@", 0, "@", ("://",)),
        (_FIELD + r"=[ \t]*+" + _UNQUOTED, re.IGNORECASE, "=", _WORDS),
        (_FIELD + r":[ \t]*+" + _PROSE + _UNQUOTED, re.IGNORECASE, ":", _WORDS),
        (_FIELD + r"[:=][ \t]*+\"(?P<secret>(?:[^\"\\]++|\\.)++)", re.IGNORECASE | re.DOTALL, '"', _WORDS),
        (_FIELD + r"[:=][ \t]*+'(?P<secret>(?:[^'\\]++|\\.)++)", re.IGNORECASE | re.DOTALL, "'", _WORDS),
        # JSON inside a text, as models write it, and the repr of a Python dict.
        (
            r"\"[\w-]{0,40}" + _NAMES + r"\"\s*+:\s*+\"(?P<secret>(?:[^\"\\]++|\\.)++)",
            re.IGNORECASE | re.DOTALL,
            '"',
            _WORDS,
        ),
        (
            r"'[\w-]{0,40}" + _NAMES + r"'\s*+:\s*+'(?P<secret>(?:[^'\\]++|\\.)++)",
            re.IGNORECASE | re.DOTALL,
            "'",
            _WORDS,
        ),
    )
)
_HINTS = dict(_LOOKS)
_Search: TypeAlias = tuple[re.Pattern[str], str | int, str, tuple[str, ...]]
_SHORTEST_WORD = 20
"""Characters of the shortest secret that is one word of letters and digits, a key of AWS."""

DEFAULT_PATTERNS: tuple[re.Pattern[str], ...] = tuple(_HINTS)
"""Patterns of secrets. If a pattern has a group named `secret`, only that group is replaced."""

_MOST_NAMES, _LONGEST_NAME = 1024, 64
"""Bounds of a policy's cache of field names, about 100 KiB: number of names, and characters of one name."""

_SEPARATORS = str.maketrans("-. ", "___")
_CAMEL = re.compile(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])")


@checks_arguments
@dataclass(frozen=True, slots=True)
class RedactionPolicy:
    """Replace secrets in JSON values and texts.

    Args:
        sensitive_keys: Names of fields whose whole value is replaced, unless it is null, besides `SENSITIVE_SUFFIXES`. Case does
            not matter, nor do `-`, `_` and camelCase.
        replacement: Text that replaces a secret.
        max_string_length: Longer texts are cut to this number of characters, the last of them `…`; None means no limit.
        sensitive_values: Known secrets; replaced wherever they occur, also in names of fields.
        patterns: Regular expressions of secrets. The run time of patterns other than `DEFAULT_PATTERNS` is not bounded here.

    Raises:
        InvalidArgumentError: One of them is of the wrong kind; names it.
    """

    sensitive_keys: Iterable[str] = DEFAULT_SENSITIVE_KEYS
    replacement: str = "[REDACTED]"
    max_string_length: int | None = None
    sensitive_values: Iterable[str] = field(default=(), repr=False)
    patterns: Iterable[str | re.Pattern[str]] = field(default=DEFAULT_PATTERNS, repr=False)
    _keys: frozenset[str] = field(init=False, repr=False, compare=False)
    _searches: tuple[_Search, ...] = field(init=False, repr=False, compare=False)
    _word_searches: tuple[_Search, ...] = field(init=False, repr=False, compare=False)
    _names: dict[str, tuple[str, bool]] = field(default_factory=dict, init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        limit = self.max_string_length
        if limit is not None and (isinstance(limit, bool) or not isinstance(limit, int) or limit < 1):
            raise InvalidArgumentError("must be an integer above 0", field="max_string_length")
        values = _collection(self.sensitive_values, "sensitive_values")
        keys = frozenset(_collection(self.sensitive_keys, "sensitive_keys"))
        # `object.__setattr__`: how a frozen dataclass sets what it computes.
        object.__setattr__(self, "sensitive_keys", keys)
        object.__setattr__(self, "sensitive_values", tuple(dict.fromkeys(value for value in values if value)))
        patterns = tuple(_compiled(self.patterns))
        object.__setattr__(self, "patterns", patterns)
        searches = [_search(each) for each in patterns]
        object.__setattr__(self, "_searches", tuple(searches))
        object.__setattr__(self, "_word_searches", tuple(each for each in searches if each[0] not in _HINTS))
        object.__setattr__(self, "_keys", frozenset(name for key in keys for name in _spellings(key)))

    def redact(self, value: Any) -> Any:
        """Return a copy of a JSON value without its secrets. It has the keys in the same order and shares nothing with the value.

        Values of other types are first converted to their JSON form. JSON values of any depth are allowed: no recursion.
        """
        top: dict[int, Any] = {}
        pending: list[tuple[Any, Any, Any]] = [(top, 0, value)]
        while pending:
            target, place, item = pending.pop()
            kind = type(item)
            if kind is str:
                target[place] = self.redact_text(item)
            elif kind is dict:
                made: dict[str, Any] = {}
                target[place] = made
                pending.extend(self._fields(made, self._without_bytes(item)))
            elif kind is list or kind is tuple:
                made_list = [None] * len(item)
                target[place] = made_list
                pending.extend((made_list, index, each) for index, each in enumerate(item))
            elif item is None or kind is bool:
                target[place] = item
            elif kind is int or kind is float:
                target[place] = self.replacement if self._is_known(item) else item
            else:
                pending.append((target, place, plain(item)))
        return top[0]

    def _without_bytes(self, source: dict[Any, Any]) -> dict[Any, Any]:
        """Return the JSON form of a payload without its bytes, in which no secret can be found; any other object unchanged."""
        inner = source.get(MARK) if len(source) == 1 else None
        if not isinstance(inner, dict):
            return source
        return {MARK: {key: self.replacement if key in BYTES_KEYS else value for key, value in inner.items()}}

    def redact_text(self, text: str) -> str:
        """Return `text` with known secrets and matches of the patterns replaced."""
        text = self._without_secrets(text)
        limit = self.max_string_length
        return text if limit is None or len(text) <= limit else text[: limit - 1] + "…"

    def is_sensitive(self, key: str) -> bool:
        """Whether a field of this name holds a secret."""
        return any(name in self._keys or name.endswith(SENSITIVE_SUFFIXES) for name in _spellings(key))

    def _fields(self, made: dict[str, Any], source: dict[Any, Any]) -> Iterator[tuple[Any, Any, Any]]:
        """Add the keys of `source` to `made`, in order, and yield the values that are still to be redacted."""
        for key, value in source.items():
            name, sensitive = self._named(key if type(key) is str else next(iter(plain({key: None}))))
            if name in made:
                name = _another(name, made)
            if value is None or not sensitive:
                made[name] = None
                yield made, name, value
            else:
                made[name] = self.replacement

    def _named(self, key: str) -> tuple[str, bool]:
        """Return the redacted key, and whether its value is a secret. Results are cached, because records repeat their keys."""
        known = self._names.get(key)
        if known is None:
            known = self._without_secrets(key), self.is_sensitive(key)
            if len(self._names) < _MOST_NAMES and len(key) <= _LONGEST_NAME:
                self._names[key] = known
        return known

    def _is_known(self, number: float) -> bool:
        return bool(self.sensitive_values) and str(number) in tuple(self.sensitive_values)

    def _without_secrets(self, text: str) -> str:
        found = sorted(span for span in self._spans(text) if span[0] < span[1])
        if not found:
            return text
        pieces: list[str] = []
        done = 0  # end of what was replaced last
        for start, end in found:
            if start > done or not pieces:
                pieces += (text[done:start], self.replacement)
            done = max(done, end)
        return "".join((*pieces, text[done:]))

    def _spans(self, text: str) -> Iterator[tuple[int, int]]:
        is_short_word = len(text) < _SHORTEST_WORD and text.isalnum()
        lower = text.lower()
        for pattern, group, sign, words in self._word_searches if is_short_word else self._searches:
            if sign in text and any(word in lower for word in words):
                yield from (match.span(group) for match in pattern.finditer(text))
        for value in self.sensitive_values:
            start = text.find(value)
            while start >= 0:
                yield start, start + len(value)
                start = text.find(value, start + 1)


def _search(pattern: re.Pattern[str]) -> _Search:
    """Return a pattern, the group of the secret, its sign and its words; an empty sign or word matches every text."""
    group: str | int = "secret" if "secret" in pattern.groupindex else 0
    return pattern, group, *_HINTS.get(pattern, ("", ("",)))


def _another(name: str, taken: dict[str, Any]) -> str:
    number = 2
    while f"{name} {number}" in taken:
        number += 1
    return f"{name} {number}"


def _spellings(key: str) -> tuple[str, ...]:
    """Return the normalised spellings of a name: lower case with `_`, and also camelCase split into words."""
    flat = key.strip().translate(_SEPARATORS)
    lower = flat.lower()
    return (lower,) if lower == flat else (lower, _CAMEL.sub("_", flat).lower())


def _collection(values: Any, name: str) -> list[str]:
    found = [] if isinstance(values, str) else list(values)  # a lone text would be taken letter by letter
    if isinstance(values, str) or not all(isinstance(each, str) for each in found):
        raise InvalidArgumentError("must be a collection of strings", field=name)
    return found


def _compiled(patterns: Any) -> Iterator[re.Pattern[str]]:
    if isinstance(patterns, str | re.Pattern):
        raise InvalidArgumentError("must be a collection of regular expressions", field="patterns")
    for index, each in enumerate(patterns):
        try:
            compiled = re.compile(each)
        except (re.error, TypeError):
            compiled = None
        if compiled is None or not isinstance(compiled.pattern, str):
            raise InvalidArgumentError("must be a regular expression for text", field=f"patterns[{index}]")
        yield compiled


DEFAULT_REDACTION_POLICY = RedactionPolicy()


class RedactingFilter(logging.Filter):
    """Redact secrets in log records, tracebacks included: `handler.addFilter(RedactingFilter())`."""

    def __init__(self, policy: RedactionPolicy = DEFAULT_REDACTION_POLICY) -> None:
        super().__init__()
        self._policy = policy
        self._formatter = logging.Formatter()

    def filter(self, record: logging.LogRecord) -> bool:
        clean = self._policy.redact_text
        record.msg, record.args = clean(record.getMessage()), None
        if record.exc_info:
            # Formatters use `exc_text` if it is set, and do not format the traceback again.
            record.exc_text = clean(record.exc_text or self._formatter.formatException(record.exc_info))
        return True
