"""From characters to words: the gate, quotes, escapes, braces, and the parser that is used without shfmt."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from agentctl.policy.patterns import glob_match, path_pattern, segment_match, word_pattern
from agentctl.policy.shfmt import ShfmtParser, find_shfmt
from agentctl.policy.syntax import Simple, Unreadable
from agentctl.policy.words import UNKNOWN, Form, expand
from tests.unit.policy.policy_world import PLAIN, SHELL, World


def forms(line: str) -> list[Form]:
    command = SHELL.parse(line).statements[0].command
    assert isinstance(command, Simple)
    return [form for word in command.words for form in expand(word)]


STATIC = [
    "echo a'b'\"c\"d",
    r"echo a\ b \"c\" \\ d\'e",
    'echo "a\\$b\\`c\\"d\\n"',
    r"echo $'a\tb\x41\101\u00e9\'\\' $'a\0b'c",
    "echo {a,b}c{d,e} {a} {a,} x{1,2}{,y} {,}",
    "echo '{a,b}' \\{a,b}",
    "echo a\\\nb",
    "echo ''",
    "echo {a,{b,c}}d",
    'echo "{a,b}" {"a b",c}',
    r"echo $'\cA' $'\q'",
    "echo '' \"\" a''",
    "echo ~/x a~ '~'",
    "echo a]b [",
    "echo $'\\x'",
]


@pytest.mark.parametrize("line", STATIC)
def test_words_are_those_of_bash(line: str) -> None:
    """The words of a static command, compared with what bash makes of them."""
    script = line.replace("echo", "printf '%s\\0'", 1)
    real = subprocess.run(["bash", "--noprofile", "--norc", "-c", script], capture_output=True, check=True, cwd="/")
    expected = real.stdout.decode("utf-8", "surrogateescape").split("\0")[:-1]
    assert [form.text for form in forms(line)[1:]] == expected
    assert all(form.is_static for form in forms(line))


def test_unknown_words() -> None:
    found = forms('echo $a "$a" x"$(b)"y *.py "${a[@]}" $((1)) {1..3} [ab] ~root')
    assert [form.text for form in found[1:]] == [
        UNKNOWN,
        UNKNOWN,
        f"x{UNKNOWN}y",
        f"{UNKNOWN}.py",
        UNKNOWN,
        UNKNOWN,
        UNKNOWN,
        f"{UNKNOWN}ab]",
        f"{UNKNOWN}root",
    ]
    assert [form.is_many for form in found[1:]] == [True, False, False, True, True, False, True, True, False]


@pytest.mark.parametrize(
    "char",
    ["\0", "\r", "\x1b", "\x7f", "\x85", "\u200b", "\u202e", "\u2066", "\ufeff", "\U000e0041", "\ud800", "\u2028"],
)
def test_gate(char: str, tmp_path: Path) -> None:
    for shell in (SHELL, PLAIN):
        decision = World(tmp_path, allow=["bash:echo *"], is_yolo=True, shell=shell).bash(f"echo a{char}b")
        assert (decision.rule, decision.runs) == ("opaque:parse", False)
        assert f"U+{ord(char):04X}" in decision.reason


def test_other_languages_pass(tmp_path: Path) -> None:
    assert World(tmp_path, allow=["bash:echo *"]).bash("echo 'grüße, 世界 🙂'").runs


def test_plain_words_mode(tmp_path: Path) -> None:
    world = World(tmp_path, allow=["bash:echo *", "bash:cat *"], shell=None)
    assert [problem.code for problem in world.engine.problems] == ["no-shfmt"]
    assert "pip install shfmt-py" in world.engine.problems[0].fix
    for line in ("echo a 'b c' \"d e\"", "echo a && cat b | cat - || echo c; echo d\necho e", "echo a=b x,y\n"):
        assert world.bash(line).runs, line
    for line in (
        "echo $x",
        "echo `a`",
        "echo *",
        "echo a > b",
        "A=1 echo x",
        "(echo a)",
        "echo a &",
        "if echo a; then echo b; fi",
        "echo a;; echo b",
        "&& echo a",
        "echo a |",
        "echo 'a",
        "echo a # b",
        "echo {a,b}",
        "! echo a",
        "echo ~",
        "eval 'echo a'",
        "time echo a",
        "echo a\\b",
        "",
    ):
        assert (world.bash(line).verdict, world.bash(line).runs) == ("opaque", False), line
    assert world.bash("rm -rf x").verdict == "guard"


def test_batches_and_cache(tmp_path: Path) -> None:
    """Many lines in one run of shfmt read as they do alone; lines that break out are read alone."""
    lines = ["echo a", "cat <<X\n$(b)\nX", "a && b | c", "f() { a; }; f", "# nothing", "echo }; echo {"]
    alone = ShfmtParser(str(find_shfmt(tmp_path)))
    for batch in (lines[:4], lines, [*lines[:2], "} ; x() {"], [*lines, "echo 'open"]):
        parser = ShfmtParser(str(find_shfmt(tmp_path)))
        parser.parse_many(batch)
        for line in lines[:4]:
            assert parser.parse(line).statements == alone.parse(line).statements
    with pytest.raises(Unreadable, match="quote"):
        alone.parse("echo 'open")
    with pytest.raises(Unreadable, match="quote"):
        alone.parse("echo 'open")


def test_a_shfmt_that_fails(tmp_path: Path) -> None:
    """A broken or hanging shfmt refuses; it never lets a line through."""
    for body in ("exit 0", 'echo \'{"Stmts": [{"Cmd": {"Type": "New"}}]}\'', "echo '[]'", "kill -9 $$"):
        fake = tmp_path / "shfmt"
        fake.write_text(f"#!/bin/sh\n{body}\n")
        fake.chmod(0o755)
        decision = World(tmp_path, allow=["bash"], shell=ShfmtParser(str(fake))).bash("echo a")
        assert (decision.rule, decision.runs) == ("opaque:parse", False), body
    gone = World(tmp_path, allow=["bash"], shell=ShfmtParser(str(tmp_path / "none"))).bash("echo a")
    assert (gone.rule, gone.runs) == ("opaque:parse", False)


def test_shfmt_is_never_taken_from_the_workspace(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    trap = tmp_path / "bin" / "shfmt"
    trap.parent.mkdir()
    trap.write_text("#!/bin/sh\n")
    trap.chmod(0o755)
    monkeypatch.setenv("PATH", f"{trap.parent}{os.pathsep}bin")
    found = find_shfmt(tmp_path)
    assert found is not None
    assert not found.startswith(str(tmp_path))


WORD_PATTERNS = [
    ("git commit *", "git commit", True),
    ("git commit *", "git commit -m x", True),
    ("git commit *", "git commits", False),
    ("git commit", "git commit -m", False),
    ("git com* -m ?", "git commit -m x", True),
    ("*", "anything at all", True),
    ("pytest -k * x", "pytest -k a x", True),
    ("pytest -k * x", "pytest -k x", False),
    ("a*b*c", "a-b-b-c", True),
    ("find * -exec rm {} ?", "find . -exec rm {} \\;", True),
    ("git commit -m *", "git commit -m a", True),
    ("curl https://h/?a=1&b=2", "curl 'https://h/?a=1&b=2'", True),
    ("grep a$ *", "grep a$ f", True),
]


@pytest.mark.parametrize(("pattern", "line", "is_match"), WORD_PATTERNS)
def test_word_patterns(pattern: str, line: str, is_match: bool) -> None:
    compiled = word_pattern(pattern)
    assert compiled.surely(forms(line)) is is_match
    assert compiled.maybe(forms(line)) is is_match


def test_unknown_words_against_patterns() -> None:
    """Allow wants certainty, deny wants possibility."""
    table = [
        ("git add *", 'git add "$x" $y', True, True),
        ("git push *", 'git "$x"', False, True),
        ("git push *", "git $x", False, True),
        ("git push", "git p$x", False, True),
        ("git push", 'git "q$x"', False, False),
        ("cp * dst", "cp $a dst", False, True),
        ("cp * dst", 'cp "$a" dst', True, True),
        ("cp a?c", 'cp "a${x}c"', False, True),
        ("a b *", "a", False, False),
        ("a b *", "a $x", False, True),
    ]
    for pattern, line, is_sure, is_possible in table:
        compiled = word_pattern(pattern)
        assert (compiled.surely(forms(line)), compiled.maybe(forms(line))) == (is_sure, is_possible), (pattern, line)


PATH_PATTERNS = [
    ("src/**", "src/a/b", True),
    ("src/**", "src", False),
    ("src/**", "x/src/a", False),
    ("*.py", "a/b.py", True),
    ("/a.py", "a.py", True),
    ("/a.py", "x/a.py", False),
    ("a/**/b", "a/b", True),
    ("a/**/b", "a/x/y/b", True),
    ("**/b", "b", True),
    ("out", "x/out/y", True),
    ("out/", "out", False),
    ("out/", "x/out/y", True),
    ("a?c", "abc", True),
    ("a?c", "a/c", False),
    ("[a-c]x", "bx", True),
    ("[!a-c]x", "bx", False),
    ("[]a]x", "]x", True),
    ("a\\*b", "a*b", True),
    ("a\\*b", "axb", False),
    ("a*", "A", False),
    ("a/*", "a/b/c", True),
    ("**", "a/b", True),
    ("a/**/**/b", "a/b", True),
    ("./a", "a", True),
    ("[a-]x", "-x", True),
    ("a**b", "a/b", False),
    ("*a*b*", "xaxbx", True),
]


@pytest.mark.parametrize(("pattern", "path", "is_match"), PATH_PATTERNS)
def test_path_patterns(pattern: str, path: str, is_match: bool) -> None:
    assert path_pattern(pattern).matches(path) is is_match


def test_path_patterns_are_those_of_git(tmp_path: Path) -> None:
    """`git check-ignore` is the judge of what a pattern means."""
    subprocess.run(["git", "init", "-q", str(tmp_path)], check=True)
    patterns = sorted({pattern for pattern, _, _ in PATH_PATTERNS} - {"./a"})
    paths = sorted({path for _, path, _ in PATH_PATTERNS} | {"a/b/c/b", "src/x.py", "out/a/out", "ab", "xaxbx/y"})
    for pattern in patterns:
        (tmp_path / ".gitignore").write_text(f"{pattern}\n")
        command = ["git", "check-ignore", "--no-index", "--stdin", "-z"]
        done = subprocess.run(command, cwd=tmp_path, input="\0".join(paths).encode(), capture_output=True, check=False)
        ignored = {name for name in done.stdout.decode().split("\0") if name}
        assert {path for path in paths if path_pattern(pattern).matches(path)} == ignored, pattern


def test_globs_take_newlines() -> None:
    assert glob_match("a*c", "a\nb/c")
    assert glob_match("", "")
    assert not glob_match("?", "")
    assert segment_match("a[*]b", "a*b")
