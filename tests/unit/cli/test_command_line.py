"""The installed command in a process of its own: what it loads, prints and returns."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from agentctl.cli.command import help_text, make_command
from agentctl.cli.page import run_page
from agentctl.cli.verbs import VERBS
from agentctl.config.table import OPTIONS
from agentctl.version import __version__

SESSION_VERBS = ", ".join(verb.words[1] for verb in VERBS if verb.words[0] == "sessions")

HELP = Path(__file__).parents[3] / "agentctl" / "cli" / "help.txt"
HEAVY = ("typer", "click", "rich", "httpx2", "pydantic", "asyncio", "orjson", "tenacity", "pathlib", "json")


def run(*words: str) -> subprocess.CompletedProcess[bytes]:
    return subprocess.run((sys.executable, "-m", "agentctl", *words), capture_output=True, timeout=10, check=False)


def loaded_by(code: str) -> set[str]:
    """Top modules in a fresh interpreter after `code`, without what it starts with."""
    script = f"import sys; before = set(sys.modules)\n{code}\nprint(*(set(sys.modules) - before), file=sys.stderr)"
    done = subprocess.run((sys.executable, "-c", script), capture_output=True, text=True, timeout=10, check=True)
    return {name.partition(".")[0] for name in done.stderr.split()} | {
        name for name in done.stderr.split() if name.startswith("agentctl.")
    }


def test_version() -> None:
    done = run("--version")
    assert (done.returncode, done.stdout, done.stderr) == (0, f"agentctl {__version__}\n".encode(), b"")


@pytest.mark.parametrize("words", [("--help",), ("-h",), ("-p", "x", "--help"), ("--json", "-h")])
def test_help_is_the_generated_text(words: tuple[str, ...]) -> None:
    done = run(*words)
    assert (done.returncode, done.stdout, done.stderr) == (0, HELP.read_bytes(), b"")


def test_the_generated_text_is_what_typer_says() -> None:
    """scripts/build_help.py writes it."""
    assert HELP.read_text(encoding="utf-8") == help_text(make_command(OPTIONS, page=run_page()))


def test_the_help_is_whole_and_fits() -> None:
    text = HELP.read_text(encoding="utf-8")
    assert [line for line in text.splitlines() if len(line) > 80 or line != line.rstrip()] == []
    assert "\x1b" not in text
    assert [flag for option in OPTIONS for flag in option.flags if flag not in text] == []
    words = ("demo", "sessions list", "policy check", "policy explain", "config show", "schema", "doctor", "tools")
    assert [word for word in words if word not in text] == []
    assert text.index("Examples:") < text.index("Prompt:") < text.index("Verbs:") < text.index("Exit codes:")


@pytest.mark.parametrize("flag", ["--version", "--help"])
def test_the_quick_answers_load_nothing_heavy(flag: str) -> None:
    loaded = loaded_by(f"from agentctl.cli.main import main\nassert main([{flag!r}]) == 0")
    assert loaded.isdisjoint(HEAVY)
    assert {name for name in loaded if name.startswith("agentctl.")} <= {
        "agentctl.cli",
        "agentctl.cli.main",
        "agentctl.cli.fast",
        "agentctl.version",
    }


def test_parsing_a_run_loads_no_more_than_it_needs() -> None:
    loaded = loaded_by("from agentctl.cli.run import parse_run\nparse_run(['-p', 'x', '--json'])")
    assert loaded.isdisjoint(
        {"rich", "httpx2", "pydantic", "asyncio", "tomllib", "platformdirs", "agentctl.cli.verbs", "agentctl.cli.page"}
    )


def test_settling_without_files_loads_no_toml_and_starts_no_process() -> None:
    loaded = loaded_by(
        "import os, pathlib\nfrom agentctl.config.options import Options\n"
        "from agentctl.config.settings import resolve\n"
        "resolve(Options(prompt=('x',)), env=os.environ, cwd=pathlib.Path.cwd())"
    )
    assert loaded.isdisjoint({"tomllib", "platformdirs", "subprocess", "difflib", "agentctl.core.spawn"})


@pytest.mark.parametrize(
    ("words", "ended", "word"),
    [
        (("-p", "x", "--json", "--no-such-flag"), "usage", "--no-such-flag"),
        (("--json", "--max-steps", "many"), "usage", "many"),
        (("-p", "x", "--agent", "turbo", "--json"), "usage", "turbo"),
        (("-p", "--json"), "usage", "-p needs a value"),
    ],
)
def test_a_bad_flag_of_a_json_run_still_gives_init_and_done(words: tuple[str, ...], ended: str, word: str) -> None:
    done = run(*words)
    lines = [json.loads(line) for line in done.stdout.splitlines()]
    assert [line["type"] for line in lines] == ["init", "error", "done"]
    assert (done.returncode, lines[-1]["exit_code"], lines[-1]["ended"]) == (2, 2, ended)
    assert word in lines[1]["message"]
    assert b"Traceback" not in done.stderr


def test_a_bad_flag_of_a_text_run_is_lines_on_stderr() -> None:
    done = run("-p", "x", "--quite")
    assert (done.returncode, done.stdout) == (2, b"")
    assert done.stderr.decode().splitlines() == ["agentctl: Unknown flag '--quite'.", "  hint: Did you mean '--quiet'?"]


def test_a_bad_verb_is_a_document_with_json() -> None:
    done = run("sessions", "lst", "--json")
    assert done.returncode == 2
    assert json.loads(done.stdout) == {
        "error": {
            "kind": "usage",
            "message": f"agentctl sessions: 'lst' is not one of {SESSION_VERBS}.",
            "hint": "Did you mean 'list'?",
        },
        "exit_code": 2,
    }


def test_a_verb_has_its_own_help() -> None:
    done = run("policy", "explain", "--help")
    text = done.stdout.decode()
    assert (done.returncode, done.stderr) == (0, b"")
    assert text.startswith("Usage: agentctl policy explain TOOL [INPUT] [FLAGS]\n")
    assert "--policy FILE" in text
    assert "--max-steps" not in text


def test_a_group_lists_its_verbs() -> None:
    done = run("policy", "-h")
    assert (done.returncode, done.stdout.decode().splitlines()[0]) == (0, "Usage: agentctl policy VERB [FLAGS]")
    assert b"policy explain TOOL [INPUT]" in done.stdout


def test_a_reader_that_is_gone_is_no_traceback() -> None:
    code = (
        "import os\nread, write = os.pipe()\nos.close(read)\nos.dup2(write, 1)\n"
        "from agentctl.cli.main import main\nraise SystemExit(main(['--help']))"
    )
    done = subprocess.run((sys.executable, "-c", code), capture_output=True, timeout=10, check=False)
    assert (done.returncode, done.stderr) == (141, b"")


def test_a_full_disk_is_one_line() -> None:
    with open("/dev/full", "wb") as full:
        done = subprocess.run(
            (sys.executable, "-m", "agentctl", "--version"),
            stdout=full,
            stderr=subprocess.PIPE,
            timeout=10,
            check=False,
        )
    assert (done.returncode, done.stderr) == (1, b"agentctl: stdout cannot be written: No space left on device\n")


@pytest.mark.parametrize(("number", "code"), [(signal.SIGTERM, 143), (signal.SIGHUP, 129), (signal.SIGINT, 130)])
def test_a_signal_before_the_run_has_begun_gives_the_last_line_too(number: signal.Signals, code: int) -> None:
    """The signal comes while the parser is being imported."""
    script = (
        "import os, signal, sys\n"
        "class Finder:\n"
        "    def find_spec(self, name, path, target=None):\n"
        f"        if name == 'typer': os.kill(os.getpid(), {int(number)})\n"
        "sys.meta_path.insert(0, Finder())\n"
        "from agentctl.cli.main import main\n"
        "raise SystemExit(main(['-p', 'x', '--json']))"
    )
    done = subprocess.run((sys.executable, "-c", script), capture_output=True, timeout=10, check=False)
    last = json.loads(done.stdout.splitlines()[-1])
    assert (done.returncode, last["type"], last["ended"], last["exit_code"]) == (code, "done", "cancelled", code)
