"""Where the protoc plugins of other languages are."""

import os
from pathlib import Path

ROOT = Path(__file__).parents[1]


def plugin_path() -> str:
    """Return a PATH that begins with the plugins that `make gen` has installed."""
    places = ("*/protoc*", "*/bin/protoc*", "*/node_modules/.bin/protoc*")
    found = [program.parent for place in places for program in (ROOT / ".tools").glob(place) if program.is_file()]
    return os.pathsep.join((*map(str, dict.fromkeys((*found, ROOT / ".venv-gen/bin"))), os.environ["PATH"]))
