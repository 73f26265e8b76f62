"""The benchmark runs, and its output has the rows and columns that other programs read. Its numbers are not tested."""

import json
import subprocess
import sys
from itertools import product
from pathlib import Path

import pytest

from bench.peers import environment_of

ROOT = Path(__file__).resolve().parents[2]

FIELDS = {
    "case",
    "in_flight",
    "bytes",
    "per_second",
    "p50_ms",
    "p99_ms",
    "server_cpu_us",
    "ratio_to_floor",
    "bar",
    "met",
}


def bench(*arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "bench.run", *arguments]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=120, check=False)


@pytest.fixture(scope="module")
def sent(tmp_path_factory):
    """A quick run of the send group: its output and its rows."""
    path = tmp_path_factory.mktemp("bench") / "rows.json"
    done = bench("--quick", "--only", "send", "--out", str(path))
    assert done.returncode == 0, done.stderr
    return done.stdout, json.loads(path.read_text())["rows"]


def test_a_quick_run_measures_every_system_load_and_size(sent):
    _, rows = sent
    cases = product(("send.floor", "send.memory", "send.sqlite"), (1, 16, 128), (100, 64 << 10))
    assert {(row["case"], row["in_flight"], row["bytes"]) for row in rows} == set(cases)
    assert len(rows) == 18


def test_every_row_has_the_promised_fields_with_sane_numbers(sent):
    _, rows = sent
    for row in rows:
        assert row.keys() >= FIELDS
        assert row["per_second"] > 0
        assert 0 < row["p50_ms"] <= row["p99_ms"]
        assert row["server_cpu_us"] > 0
        assert (row["ratio_to_floor"] == 1) == (row["case"] == "send.floor")


def test_a_bar_comes_with_a_verdict_and_a_miss_with_its_size(sent):
    _, rows = sent
    held = [row for row in rows if row["bar"]]
    assert {row["case"] for row in held} == {"send.memory", "send.sqlite"}
    for row in rows:
        assert (row["met"] is None) == (row["bar"] == "")
        assert bool(row["missed_by"]) == (row["met"] is False)


def test_the_piped_table_is_plain_text_with_one_line_per_case(sent):
    table, rows = sent
    assert "\x1b" not in table
    assert sum(line.startswith("send.") for line in table.splitlines()) == len(rows)


def test_an_unknown_group_is_refused_with_the_names_that_exist(tmp_path):
    done = bench("--only", "sned", "--out", str(tmp_path / "rows.json"))
    assert done.returncode != 0
    assert "send, stream, idle" in done.stderr
    assert not (tmp_path / "rows.json").exists()


async def test_a_system_that_cannot_be_installed_is_left_out_with_a_sentence(tmp_path, capfd):
    assert await environment_of("other", ("--no-index", "no-such-package"), tmp_path) is None
    assert (
        "other is left out, because it cannot be installed: ERROR: No matching distribution" in capfd.readouterr().err
    )
