"""Examples run at load, and the quick ways to judge them say what the whole way says."""

from __future__ import annotations

import tempfile
import time
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from agentctl.core.errors import PolicyError
from agentctl.policy.commands import judge_line
from agentctl.policy.examples import PLAIN, PLAIN_LIST, judge_plain
from agentctl.policy.loading import PolicySource
from agentctl.policy.places import Places
from agentctl.policy.programs import PROGRAMS
from agentctl.policy.shfmt import ShfmtParser
from agentctl.policy.syntax import Unreadable
from agentctl.policy.wrappers import WRAPPERS
from tests.unit.policy.policy_world import PLAIN as PLAIN_PARSER
from tests.unit.policy.policy_world import SHELL, SHFMT, World

PLACES = Places(Path(tempfile.gettempdir()))
QUICK = settings(max_examples=200, deadline=None, suppress_health_check=list(HealthCheck), database=None)
PROGRAM = st.sampled_from([
    *sorted(WRAPPERS), *sorted(PROGRAMS), "git", "cd", "pushd", "eval", "trap", "sh", "bash", "zsh", "python3", "node",
    "make", "npm", "export", "declare", "if", "time", "coproc", "in", "function", "let", "./x", "/usr/bin/env", "set",
    "read", "xargs", "test", ".", "source", "exec", "exit", "poetry", "docker",
])  # fmt: skip
WORD = st.sampled_from([
    "a", "b.c", "-x", "-c", "-i", "-n5", "--y=z", "-y=z", "A=b", "=x", "1", "git", "push", "rm", "-rf", "sh", "ls",
    "..", "/etc", "src/a.py", ".env", "-exec", "+", "--", "-", "%1", "@t", "a,b", "a:b", "in", "do", "PATH=x", "-S",
    "run",
])  # fmt: skip
COMMAND = st.tuples(PROGRAM, st.lists(WORD, max_size=4)).map(lambda pair: " ".join([pair[0], *pair[1]]))


@QUICK
@given(COMMAND)
def test_plain_commands_are_judged_alike(line: str) -> None:
    assert PLAIN.fullmatch(line)
    quick = judge_plain(line, PLACES)
    assert quick is None or quick == judge_line(line, SHELL.parse, PLACES)


@QUICK
@given(st.lists(st.tuples(COMMAND, st.sampled_from(["; ", " && ", " || ", " | "])), min_size=1, max_size=4))
def test_plain_lists_are_read_alike(parts: list[tuple[str, str]]) -> None:
    line = "".join(text for part in parts for text in part).removesuffix(parts[-1][1])
    assert PLAIN_LIST.fullmatch(line)
    try:
        plain = PLAIN_PARSER.parse(line)
    except Unreadable:
        return
    assert plain == SHELL.parse(line)


@pytest.mark.parametrize(
    "line",
    [
        "a 'b'", 'a "b"', "a $b", "a `b`", "a *", "a ?", "a {b,c}", "a ~", "a\\ b", "a\tb", "a  b", " a", "a ", "a > b",
        "a & b", "a&&b", "A=b c", "a # b", "a (b)", "! a", "[ a ]", "a é", "a\nb", "a;", "a !b", "a ^b",
    ],
)  # fmt: skip
def test_what_is_not_plain(line: str) -> None:
    assert not PLAIN.fullmatch(line)
    assert not PLAIN_LIST.fullmatch(line)


def rule(index: int) -> str:
    program = ("git add", "npm run", "pytest", "cargo test", "make")[index % 5]
    return (
        f'[[rule]]\nid = "r{index}"\ntool = "bash"\ncommand = ["{program} {index} *"]\ndecision = "allow"\n'
        f'match = ["{program} {index} -x && {program} {index}"]\nnot_match = ["{program} other", "sudo {program}"]\n'
    )


def test_many_rules_with_examples_load_quickly(tmp_path: Path) -> None:
    """About 40 ms on a slow machine, of which the TOML takes a third; a run of shfmt per line would take 1.5 s."""
    text = "version = 1\n" + "".join(map(rule, range(200)))
    spent = []
    for _ in range(3):
        start = time.process_time()
        assert len(World(tmp_path, text, shell=ShfmtParser(str(SHFMT))).engine.rules) == 203
        spent.append(time.process_time() - start)
    assert min(spent) < 0.25


def test_more_lines_than_the_parser_keeps(tmp_path: Path) -> None:
    lines = ", ".join(f"\"x 'a b' {at}\"" for at in range(600))
    head = 'version = 1\n[[rule]]\ntool = "bash"\ncommand = "x *"\ndecision = "allow"\n'
    start = time.process_time()
    assert World(tmp_path, f"{head}match = [{lines}]\n", shell=ShfmtParser(str(SHFMT)))
    assert time.process_time() - start < 2
    with pytest.raises(PolicyError, match="x 'a b' 0"):
        World(tmp_path, f"{head}not_match = [{lines}]\n", shell=ShfmtParser(str(SHFMT)))


def test_examples_do_not_look_at_the_workspace(tmp_path: Path) -> None:
    (tmp_path / ".env.py").write_text("x")
    (tmp_path / "src").symlink_to("/etc")
    text = (
        'version = 1\n[[rule]]\ntool = "bash"\ncommand = "cat *"\ndecision = "allow"\nmatch = ["cat *.py"]\n'
        '[[rule]]\ntool = "@write"\npath = "src/**"\ndecision = "allow"\nmatch = ["src/a"]\n'
    )
    world = World(tmp_path, text)
    assert not world.write("src/a").runs


def test_wrong_examples_of_a_shipped_profile_are_found(tmp_path: Path) -> None:
    text = 'version = 1\n[[rule]]\ntool = "bash"\ncommand = "a"\ndecision = "allow"\nmatch = ["b"]\n'
    source = PolicySource(name="builtin:x", text=text, is_trusted=True, kind="shipped")
    with pytest.raises(PolicyError, match="builtin:x:2: the example 'b' in match"):
        World(tmp_path, sources=[source]).engine.check_examples()
