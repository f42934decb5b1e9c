"""Speed and size promises, as ratios measured in one run, medians of several processes. Run with `pytest -m bench`.

The figures of a run are written to the terminal; a budget fails with its measured value.
"""

from __future__ import annotations

import itertools
import json
import sys
from pathlib import Path

import pytest

from tests.bench.measure import AGENTCTL, HERE, agent, bare, medians, once, report, slowness
from tests.server import Call, Turn, serve

pytestmark = pytest.mark.bench


@pytest.fixture
def cwd(tmp_path: Path) -> Path:
    folder = tmp_path / "project"
    folder.mkdir()
    for number in range(20):
        (folder / f"f{number}").write_text(f"line of file {number}\n" * 40)
    return folder


def test_version_and_help(cwd: Path, env: dict[str, str], capsys: pytest.CaptureFixture[str]) -> None:
    found = medians(
        {
            "pass": [sys.executable, "-c", "pass"],
            "version": [AGENTCTL, "--version"],
            "help": [AGENTCTL, "--help"],
            "verb help": [AGENTCTL, "policy", "explain", "--help"],
        },
        cwd,
        env,
    )
    base = found["pass"][1]
    ratios = {name: cpu / base for name, (_, cpu) in found.items()}
    report(capsys, pass_ms=base * 1000, **{name.replace(" ", "_"): ratio for name, ratio in ratios.items()})
    assert ratios["version"] <= 3
    assert ratios["help"] <= 3
    assert ratios["verb help"] <= 10


def test_one_line_answer(cwd: Path, env: dict[str, str], url: str, capsys: pytest.CaptureFixture[str]) -> None:
    commands = {"bare": bare(url), "agentctl": agent(url, "line", "--ephemeral")}
    found = medians(commands, cwd, env)
    wall, cpu = (found["agentctl"][n] / found["bare"][n] for n in (0, 1))
    report(capsys, bare_ms=found["bare"][0] * 1000, agentctl_ms=found["agentctl"][0] * 1000, wall=wall, cpu=cpu)
    assert wall <= 1.6


def test_a_read_step_and_a_shell_step(
    cwd: Path, env: dict[str, str], url: str, capsys: pytest.CaptureFixture[str]
) -> None:
    few, many = 20, 100
    commands = {
        "read few": agent(url, f"steps-{few}", "--ephemeral", "--max-steps", "200"),
        "read many": agent(url, f"steps-{many}", "--ephemeral", "--max-steps", "200"),
        "shell few": agent(url, f"shell-{few}", "--max-steps", "200", "--allow", "bash:echo *"),
        "shell many": agent(url, f"shell-{many}", "--max-steps", "200", "--allow", "bash:echo *"),
        "bare few": [sys.executable, str(HERE / "bare_steps.py"), url, str(few)],
        "bare many": [sys.executable, str(HERE / "bare_steps.py"), url, str(many)],
    }
    found = medians(commands, cwd, env)
    read, shell, bare_step = (
        (found[f"{kind} many"][0] - found[f"{kind} few"][0]) / (many - few) * 1000 for kind in ("read", "shell", "bare")
    )
    slow = slowness(url, cwd, env)
    report(capsys, read_ms=read, shell_ms=shell, bare_ms=bare_step, slowness=slow)
    assert read <= 5 * slow
    assert shell <= 15 * slow


def test_twenty_thousand_deltas(cwd: Path, env: dict[str, str], url: str, capsys: pytest.CaptureFixture[str]) -> None:
    commands = {"line": agent(url, "line", "--ephemeral"), "deltas": agent(url, "deltas", "--ephemeral")}
    found = medians(commands, cwd, env)
    microseconds = (found["deltas"][1] - found["line"][1]) / 20_000 * 1e6
    line, deltas = (once(command, cwd, env) for command in commands.values())
    report(capsys, us_per_delta=microseconds, line_mb=line.rss_kb / 1024, deltas_mb=deltas.rss_kb / 1024)
    assert microseconds <= 20
    assert deltas.rss_kb - line.rss_kb <= 8 * 1024


@pytest.mark.parametrize("vendor", ["openai", "anthropic"])
def test_both_transports(
    vendor: str, cwd: Path, env: dict[str, str], url: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """CPU of the one-line answer and of a delta. The decoding is ours in both; the official clients cost their import,
    and the Anthropic one some more layers a delta. Their own decoders would take about 100 and 330 us."""
    env["ANTHROPIC_API_KEY"] = "sk-bench"
    commands = {
        f"{kind} {model}": [*agent(url, model, "--ephemeral", "--transport", kind), "--model", f"{vendor}/{model}"]
        for kind in ("direct", "sdk")
        for model in ("line", "deltas")
    }
    found = {name: cpu for name, (_, cpu) in medians(commands, cwd, env).items()}
    figures = {}
    for kind in ("direct", "sdk"):
        figures[f"{kind}_line_ms"] = found[f"{kind} line"] * 1000
        figures[f"{kind}_us_per_delta"] = (found[f"{kind} deltas"] - found[f"{kind} line"]) / 20_000 * 1e6
    report(capsys, **figures)
    assert figures["direct_us_per_delta"] <= 20
    assert figures["sdk_us_per_delta"] <= 60
    assert figures["direct_line_ms"] < figures["sdk_line_ms"]


PEAK = (
    "import resource, subprocess, sys; subprocess.run(sys.argv[1:], stdout=subprocess.DEVNULL, check=True); "
    "print(resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss)"
)
"""A child counts what its parent had in memory when it was forked, so a small process stands in between."""


def test_memory_of_a_turn(cwd: Path, env: dict[str, str], url: str, capsys: pytest.CaptureFixture[str]) -> None:
    sample = once([sys.executable, "-c", PEAK, *agent(url, "steps-20", "--ephemeral")], cwd, env)
    report(capsys, peak_mb=int(sample.out) / 1024)
    assert int(sample.out) <= 60 * 1024


@pytest.mark.parametrize("api", ["openai-chat", "openai-responses", "anthropic-messages"])
def test_size_of_the_first_request(
    cwd: Path, env: dict[str, str], api: str, capsys: pytest.CaptureFixture[str]
) -> None:
    env["ANTHROPIC_API_KEY"] = "sk-bench"
    with serve([Turn(text="ok", repeat=2)]) as server:
        vendor = ["anthropic/claude-test", server.root_url] if "anthropic" in api else ["openai/gpt-5", server.base_url]
        flags = ["--model", vendor[0], "--base-url", vendor[1], "--api", api, "--ephemeral"]
        for words in ([], ["--tools", "core"]):
            once([AGENTCTL, "-p", "What is the answer?", *flags, *words], cwd, env)
        default, core = (len(request.raw) for request in server.requests)
    report(capsys, default_bytes=default, core_bytes=core)
    assert core <= 5_000
    assert default <= 14_000


def test_the_prefix_of_twenty_steps_never_changes(cwd: Path, env: dict[str, str]) -> None:
    plans = [{"todos": [{"content": f"step {n}", "status": "in_progress"}]} for n in range(20)]
    turns = [
        Turn(calls=[Call("read_file", {"path": f"f{n}"}), Call("todo_write", plan)]) for n, plan in enumerate(plans)
    ]
    with serve([*turns, Turn(text="ok")]) as server:
        flags = ["--model", "openai/gpt-5", "--base-url", server.base_url, "--ephemeral"]
        once([AGENTCTL, "-p", "go", *flags], cwd, env)
        bodies = [request.body for request in server.requests]
    for before, after in itertools.pairwise(bodies):
        assert json.dumps(before["tools"]) == json.dumps(after["tools"])
        kept = before["messages"][:-1]  # the last one carries what changes between steps
        assert after["messages"][: len(kept)] == kept
