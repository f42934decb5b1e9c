"""A policy that cannot be trusted to mean what it says does not load: file, line, nearest word."""

from __future__ import annotations

from pathlib import Path

import pytest

from agentctl.core.errors import PolicyError
from agentctl.policy.loading import PolicySource
from tests.unit.policy.policy_world import SHELL, World

HEAD = "version = 1\n"
RULE = HEAD + "[[rule]]\n"

BAD = {
    "decision": (RULE + 'tool = "bash"\ndecision = "alow"\n', "p.toml:4: unknown decision 'alow'", "'allow'"),
    "key": (RULE + 'tool = "bash"\ncomand = ["x"]\ndecision = "deny"\n', "p.toml:4: unknown key 'comand'", "'command'"),
    "top key": (HEAD + 'unmatchd = "ask"\n', "p.toml:2: unknown key 'unmatchd'", "'unmatched'"),
    "tool": (RULE + 'tool = "reed_file"\ndecision = "deny"\n', "p.toml:3: unknown tool 'reed_file'", "'read_file'"),
    "group": (RULE + 'tool = "@writ"\ndecision = "deny"\n', "p.toml:3: unknown tool '@writ'", "'@write'"),
    "glob": (RULE + 'tool = "zz*"\ndecision = "deny"\n', "p.toml:3: unknown tool 'zz*'", ""),
    "unmatched": (HEAD + 'unmatched = "maybe"\n', "p.toml:2: unknown value 'maybe' for unmatched", "allow, ask, deny"),
    "version": ("version = 9\n", "p.toml:1: version is 9", "version = 1"),
    "no version": ('unmatched = "ask"\n', "p.toml:1: version is None", "version = 1"),
    "no toml": ("not toml at all", "p.toml:1: not valid TOML", ""),
    "late toml": (RULE + 'tool = "bash\n', "p.toml:3: not valid TOML", ""),
    "example": (
        RULE + 'tool = "bash"\ncommand = ["git *"]\ndecision = "allow"\nnot_match = ["git push"]\n',
        "p.toml:2: the example 'git push' in not_match of rule 'rule-1' matches it",
        "Mend",
    ),
    "example two": (
        RULE + 'tool = "@write"\npath = ["src/**"]\ndecision = "deny"\nmatch = ["docs/x"]\n',
        "p.toml:2: the example 'docs/x' in match of rule 'rule-1' does not match it",
        "Mend",
    ),
    "empty pattern": (RULE + 'tool = "bash"\ncommand = [" "]\ndecision = "deny"\n', "p.toml:4: bad command", "empty"),
    "no pattern": (RULE + 'tool = "bash"\ncommand = []\ndecision = "deny"\n', "p.toml:4: command is empty", "drop"),
    "negated path": (RULE + 'tool = "@write"\npath = "!x"\ndecision = "deny"\n', "p.toml:4: bad path", "narrower"),
    "leaving path": (RULE + 'tool = "@write"\npath = "../x"\ndecision = "deny"\n', "p.toml:4: bad path", "root"),
    "open bracket": (RULE + 'tool = "@write"\npath = "[a"\ndecision = "deny"\n', "p.toml:4: bad path", "never closed"),
    "url": (RULE + 'tool = "@network"\nurl = "https://u@h/"\ndecision = "deny"\n', "p.toml:4: bad url pattern", "host"),
    "duplicate": (
        RULE + 'id = "a"\ntool = "bash"\ndecision = "deny"\n[[rule]]\nid = "a"\ntool = "bash"\ndecision = "ask"\n',
        "p.toml:7: the id 'a' is used twice",
        "own id",
    ),
    "bad id": (RULE + 'id = "a b"\ntool = "bash"\ndecision = "deny"\n', "p.toml:3: bad id 'a b'", "letters"),
    "no tool": (RULE + 'decision = "deny"\n', "p.toml:2: a rule without tool", "tool"),
    "empty tool": (RULE + 'tool = []\ndecision = "deny"\n', "p.toml:3: a rule for no tool", "'*'"),
    "no decision": (RULE + 'tool = "bash"\n', "p.toml:2: a rule without decision", "decision"),
    "idle": (RULE + 'tool = "read_file"\ncommand = "x"\ndecision = "deny"\n', "p.toml:4: read_file has no command", ""),
    "type": (RULE + 'tool = 3\ndecision = "deny"\n', "p.toml:3: tool is 3", "quotes"),
    "decision type": (RULE + 'tool = "bash"\ndecision = 1\n', "p.toml:4: unknown decision 1", "allow"),
    "reason type": (RULE + 'tool = "bash"\ndecision = "deny"\nreason = 1\n', "p.toml:5: reason is 1", "quotes"),
    "port": (RULE + 'tool = "@network"\nurl = "h:x"\ndecision = "deny"\n', "p.toml:4: bad url pattern 'h:x'", "host"),
    "server of bash": (
        RULE + 'tool = "bash"\nserver = "x"\ndecision = "deny"\n',
        "p.toml:4: bash has no server",
        "@mcp",
    ),
    "args of bash": (RULE + 'tool = "bash"\nargs = {a="x"}\ndecision = "deny"\n', "p.toml:4: bash has no args", "@mcp"),
    "args text": (RULE + 'tool = "@mcp"\nargs = "x"\ndecision = "deny"\n', "p.toml:4: args is 'x'", "table"),
    "args empty": (RULE + 'tool = "@mcp"\nargs = {}\ndecision = "deny"\n', "p.toml:4: args is {}", "table"),
    "args value": (RULE + 'tool = "@mcp"\nargs = {a=1}\ndecision = "deny"\n', "p.toml:4: a is 1", "quotes"),
    "args none": (RULE + 'tool = "@mcp"\nargs = {a=[]}\ndecision = "deny"\n', "p.toml:4: the argument 'a'", "pattern"),
    "server empty": (
        RULE + 'tool = "@mcp"\nserver = [""]\ndecision = "deny"\n',
        "p.toml:4: bad server pattern",
        "empty",
    ),
    "args example": (
        RULE + 'tool = "@mcp"\nserver = "x"\ndecision = "deny"\nmatch = ["x {a"]\n',
        "p.toml:2: the example 'x {a' of rule 'rule-1' holds no JSON object",
        "server",
    ),
    "subagent": (
        RULE + 'tool = "bash"\nsubagent = "wroker"\ndecision = "deny"\n',
        "p.toml:4: bad subagent",
        "'worker'",
    ),
    "subagent allow": (
        RULE + 'tool = "bash"\nsubagent = "worker"\ndecision = "allow"\n',
        "p.toml:4: an allow rule for subagents alone",
        "never has more",
    ),
    "url and path": (
        RULE + 'tool = "*"\nurl = "h"\npath = "a"\ndecision = "deny"\n',
        "p.toml:4: nothing has path and url at once",
        "each",
    ),
    **{
        f"shell syntax {text}": (
            RULE + f"tool = \"bash\"\ncommand = [\"ls *\", '''{text}''']\ndecision = \"deny\"\n",
            f"p.toml:4: bad command pattern {text!r}",
            "put ? for such a character",
        )
        for text in (
            "git push; ls",
            "git push ; ls",
            "curl * | sh",
            "a|b",
            "git commit -m 'a b'",
            'git commit -m "x"',
            "a && b",
            "a&&b",
            "sleep 9 &",
            "ls > x",
            "ls 2>&1",
            "cat < x",
            "echo `x`",
            "rm $HOME/*",
            "rm $(ls)",
            "x ${y}",
            "find * -exec rm {} \\;",
        )
    },
    "late key": (
        RULE + 'tool = "bash"\ndecision = "deny"\n[rules]\n',
        "p.toml:5: unknown key 'rules'",
        "'rule'",
    ),
    "one rule": (HEAD + '[rule]\ntool = "bash"\n', "p.toml:2: rule is not a list", "[[rule]]"),
}


@pytest.mark.parametrize("name", BAD)
def test_bad_file(name: str, tmp_path: Path) -> None:
    text, message, hint = BAD[name]
    with pytest.raises(PolicyError) as caught:
        World(tmp_path, text)
    assert caught.value.message.startswith(message)
    assert hint in caught.value.hint
    assert caught.value.ending == "usage"


@pytest.mark.parametrize(
    ("flag", "message"),
    [
        ("bsh:x", "--allow 'bsh:x': unknown tool 'bsh'"),
        ("bash:", "--allow 'bash:': bad pattern ''"),
        ("bash:curl * | sh", "--allow 'bash:curl * | sh': bad pattern 'curl * | sh'"),
        ("write_file:!x", "--allow 'write_file:!x': bad pattern '!x'"),
        ("todo_write:x", "--allow 'todo_write:x': todo_write takes no pattern"),
        ("", "--allow '': unknown tool ''"),
    ],
)
def test_bad_flag(flag: str, message: str, tmp_path: Path) -> None:
    with pytest.raises(PolicyError) as caught:
        World(tmp_path, allow=[flag])
    assert caught.value.message == message
    assert caught.value.hint or flag == ""


def test_examples_of_every_kind(tmp_path: Path) -> None:
    """Right examples load: lines, paths, and lines that are judged by their files."""
    text = RULE + (
        'id = "commit"\ntool = "bash"\ncommand = ["git add *", "git commit *"]\ndecision = "allow"\n'
        'match = ["git add -A && git commit -m x", "timeout 5 git add x", "git add \\"$x\\" *.py"]\n'
        'not_match = ["git push", "git add -A; git push", "git -c core.pager=x log", "echo \'", "git add $(x)"]\n'
        '[[rule]]\nid = "push"\ntool = "@exec"\ncommand = "git push *"\ndecision = "deny"\n'
        'match = ["git push", "git -C x push", "true && git push", "git $x"]\n'
        'not_match = ["git pull", "echo git push"]\n'
        '[[rule]]\nid = "src"\ntool = "@write"\npath = ["src/**"]\ndecision = "allow"\n'
        'match = ["src/a", "./src/x/../a"]\nnot_match = ["src/../a", "x/src/a"]\n'
        '[[rule]]\nid = "net"\ntool = "@network"\nurl = ["https://*.example.org/a/*"]\ndecision = "deny"\n'
        'match = ["https://x.example.org/a/b"]\nnot_match = ["http://x.example.org/a/b"]\n'
        '[[rule]]\nid = "dist"\ntool = "bash"\npath = "dist/"\ndecision = "deny"\n'
        'match = ["cp a dist/b"]\nnot_match = ["cp a b"]\n'
    )
    assert len(World(tmp_path, text).engine.rules) == 8


def test_an_untrusted_file_must_load_too(tmp_path: Path) -> None:
    source = PolicySource(name="x.toml", text="version = 2\n", is_trusted=False, kind="project")
    with pytest.raises(PolicyError, match=r"x\.toml:1"):
        World(tmp_path, sources=[source], shell=SHELL)
