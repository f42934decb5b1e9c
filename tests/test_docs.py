"""The docs say what the code does: tables, command lines, flags, links; and they speak of the project alone."""

from __future__ import annotations

import json
import os
import re
import shlex
import shutil
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import jsonschema
import pytest

from agentctl.cli.run import parse_run
from agentctl.cli.verbs import VERBS, prepare_verb
from agentctl.config.sources import OTHER_VARIABLES
from agentctl.config.table import BY_FLAG, BY_VARIABLE, OPTIONS
from agentctl.core.endings import ENDINGS
from agentctl.core.errors import UsageError
from agentctl.core.events import EVENTS, SCHEMA_VERSION
from agentctl.core.toolnames import TOOL_NAMES
from agentctl.policy.loading import PolicySource, load_policy
from agentctl.policy.shfmt import ShfmtParser, find_shfmt
from agentctl.runner.schema import done_schema, events_schema
from scripts.build_docs import FIELDS, ROOT, TABLES, OutOfStep, _same, documents

PAGES = sorted([*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")])
SCRIPTS = [path for path in (ROOT / "scripts").rglob("*") if path.is_file() and path.suffix != ".pyc"]
SHIPPED = sorted([*PAGES, ROOT / "action.yml", *(ROOT / "examples").rglob("*.yml"), *SCRIPTS])
TOOLS = Path(sys.executable).parent
FENCED = re.compile(r"^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
GENERATED = re.compile(r"<!-- generated:.*?<!-- /generated -->", re.DOTALL)
SHELLS = ("sh", "bash", "console")
OTHER_FLAGS = {
    **dict.fromkeys(("--help", "--version"), "agentctl itself"),
    "--check": "the generators in scripts/",
    "--stat": "git",
    "--force": "git",
    "--all": "agentctl approvals, and an example of a wrong answer",
    "--unbuffered": "jq",
}
"""Flags in the docs that are not options of a run, and whose they are."""
PROJECT_ONLY = {
    "a path of the machine it was written on": re.compile(r"(?<![\w.<])/(work|root|home|tmp/h)\b"),
    "a registry host": re.compile(r"pypi\.org|pythonhosted|npmjs|deb\.debian", re.IGNORECASE),
    "a document that is not here": re.compile(r"\b(design|features|wire|safety|conventions|style)\.md\b|\bissue \d"),
    "an id of another list": re.compile(r"(?<![\w-])[SGDF]\d{1,3}(?![\w-])"),
}


def each_block(languages: tuple[str, ...]) -> Iterator[tuple[Path, str]]:
    for page in PAGES:
        for language, text in FENCED.findall(page.read_text("utf-8")):
            if language in languages:
                yield page, text


def calls(text: str, program: str) -> Iterator[list[str]]:
    """The words of each call of `program` in a shell block, without redirections and what follows in a pipe."""
    lexer = shlex.shlex(text.replace("\\\n", " ").replace("\n", " ;\n"), posix=True, punctuation_chars=True)
    lexer.whitespace_split = True
    words: list[str] | None = None
    for word in lexer:
        if set(word) <= set("();<>|&"):
            if words:
                yield words
            words = None
        elif words is not None:
            words.append(word)
        elif word.rpartition("/")[2] == program:
            words = [word]
    if words:
        yield words


def test_generated_tables_are_in_step() -> None:
    stale = [str(page.relative_to(ROOT)) for page, text in documents().items() if page.read_text("utf-8") != text]
    assert stale == [], "run scripts/fix"


def test_every_generated_table_has_a_place() -> None:
    used = {name for page in PAGES for name in re.findall(r"<!-- generated:([a-z-]+) -->", page.read_text("utf-8"))}
    assert used == set(TABLES)


def test_a_field_without_a_meaning_fails_the_build() -> None:
    _same(["a", "b"], ["b", "a"], "x")
    with pytest.raises(OutOfStep, match=r"missing \['b'\], unknown \['c'\]"):
        _same(["a", "b"], ["a", "c"], "x")


def test_meanings_are_whole_sentences() -> None:
    meanings = tomllib.loads(FIELDS.read_text("utf-8"))
    assert [text for row in meanings.values() for text in row.values() if not text.endswith(".")] == []


COMMANDS = [(page, words) for page, text in each_block(SHELLS) for words in calls(text, "agentctl")]


def test_there_are_command_lines_to_check() -> None:
    assert len(COMMANDS) > 25


@pytest.mark.parametrize(("page", "words"), COMMANDS, ids=[f"{page.stem}-{n}" for n, (page, _) in enumerate(COMMANDS)])
def test_command_lines_parse(page: Path, words: list[str]) -> None:
    arguments = words[1:]
    if arguments and not arguments[0].startswith("-"):
        prepare_verb(arguments)
    else:
        parse_run(arguments)


@pytest.mark.parametrize("line", ["agentctl -p x --no-such-flag", "agentctl polcy check", "agentctl -p x --api soap"])
def test_a_wrong_command_line_would_be_seen(line: str) -> None:
    (words,) = calls(line, "agentctl")
    with pytest.raises(UsageError):
        prepare_verb(words[1:]) if not words[1].startswith("-") else parse_run(words[1:])


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_flags_and_variables_exist(page: Path) -> None:
    text = GENERATED.sub("", page.read_text("utf-8"))
    flags = set(re.findall(r"(?<![\w-])--[a-z][a-z-]+", text))
    own = {flag for verb in VERBS for option in verb.own for flag in option.flags}
    assert flags - set(BY_FLAG) - own - set(OTHER_FLAGS) == set()
    variables = set(re.findall(r"\bAGENTCTL_[A-Z_]+\b", text))
    assert variables - set(BY_VARIABLE) - set(OTHER_VARIABLES) == set()


def test_everything_is_explained() -> None:
    headless = (ROOT / "docs" / "headless.md").read_text("utf-8")
    configuration = (ROOT / "docs" / "configuration.md").read_text("utf-8")
    missing = [name for name in ENDINGS if f"| `{name}` |" not in headless]
    missing += [kind.type for kind in EVENTS if f"#### `{kind.type}`" not in headless]
    missing += [option.flag for option in OPTIONS if option.flag not in headless + configuration]
    missing += [name for name in TOOL_NAMES if f"`{name}`" not in configuration]
    assert missing == []
    assert f"version of the contract, now {SCHEMA_VERSION};" in headless


LINKS = [(page, link) for page in PAGES for link in re.findall(r"\]\(([^)\s]+)\)", page.read_text("utf-8"))]


@pytest.mark.parametrize(("page", "link"), LINKS, ids=[f"{page.stem}-{link}" for page, link in LINKS])
def test_links_resolve(page: Path, link: str) -> None:
    if link.startswith("https://"):
        return
    path, _, anchor = link.partition("#")
    target = (page.parent / path).resolve() if path else page
    assert target.exists()
    assert target.is_relative_to(ROOT)
    if anchor:
        assert anchor in set(anchors(target))


def anchors(page: Path) -> Iterator[str]:
    """The ids that headings get on GitHub."""
    for heading in re.findall(r"^#+ (.+)$", page.read_text("utf-8"), re.MULTILINE):
        yield re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-")


@pytest.mark.parametrize("path", SHIPPED, ids=lambda path: str(path.relative_to(ROOT)))
def test_the_project_speaks_of_itself_alone(path: Path) -> None:
    text = path.read_text("utf-8")
    found = {what: hit[0] for what, pattern in PROJECT_ONLY.items() if (hit := pattern.search(text))}
    assert found == {}


def test_toml_blocks_parse() -> None:
    blocks = [tomllib.loads(text) for _, text in each_block(("toml",))]
    assert len(blocks) >= 2


POLICIES = [text for page, text in each_block(("toml",)) if "[[rule]]" in text or "unmatched =" in text]


def test_there_are_policies_to_load() -> None:
    assert len([text for page, text in each_block(("toml",)) if page.name == "policy.md"]) <= len(POLICIES)
    assert len(POLICIES) >= 6


@pytest.mark.parametrize("text", POLICIES, ids=[str(n) for n, _ in enumerate(POLICIES)])
def test_policies_load(text: str, tmp_path: Path) -> None:
    """Every policy in the docs means something, its examples hold, and each of its rules has one."""
    source = PolicySource(name="page.toml", text=text, is_trusted=True, kind="flag")
    shfmt = find_shfmt(tmp_path)
    assert shfmt
    shell = ShfmtParser(shfmt)
    engine = load_policy([source], allow=[], deny=[], is_yolo=False, root=tmp_path, shell=shell)
    assert [rule.id for rule in engine.rules if rule.is_from_file and not rule.match] == []


def test_python_blocks_compile() -> None:
    blocks = [compile(text, page.name, "exec") for page, text in each_block(("python",))]
    assert len(blocks) >= 1


FAILURES = (
    ("--no-such-flag",),
    ("-p", "x", "--max-steps", "none"),
    ("-p", "x", "--model", "nobody/x"),
    ("-p", "x"),
    ("demo", "--policy", "missing.toml"),
)


@pytest.mark.parametrize("words", [None, *FAILURES], ids=str)
def test_lines_fit_the_published_schemas(words: tuple[str, ...] | None) -> None:
    """A whole run, and runs that fail before they begin: what the contract page says of the first and last line."""
    lines = [json.loads(line) for line in (recorded() if words is None else agentctl(*words, "--json")).splitlines()]
    events, done = (jsonschema.Draft202012Validator(schema) for schema in (events_schema(), done_schema()))
    assert [error for line in lines for error in events.iter_errors(line)] == []
    assert list(done.iter_errors(lines[-1])) == []
    kinds = [line["type"] for line in lines]
    assert (kinds[0], kinds[-1], kinds.count("init"), kinds.count("done")) == ("init", "done", 1, 1)
    assert [line["seq"] for line in lines] == list(range(1, len(lines) + 1))
    assert not events.is_valid({**lines[0], "schema": "one"})


RECIPES = [words for _, text in each_block(SHELLS) for words in calls(text, "jq")]


@pytest.mark.parametrize("words", RECIPES, ids=[str(n) for n, _ in enumerate(RECIPES)])
def test_jq_recipes_run(words: list[str], tmp_path: Path) -> None:
    """Over a real run with a denial and a failed command; only the two gates may say no."""
    events = tmp_path / "run.jsonl"
    events.write_bytes(recorded())
    program = shutil.which("jq") or str(TOOLS / "jaq")
    arguments = [word for word in words[1:] if word != "run.jsonl" and word != "--unbuffered"]
    found = subprocess.run([program, *arguments, str(events)], capture_output=True, text=True, check=False)
    is_gate = "-e" in arguments
    assert found.returncode in (0, 1) if is_gate else found.returncode == 0, found.stderr
    assert found.stdout, words


@cache
def recorded() -> bytes:
    """The events of a run with a changed file, a denied call, a failed command and a problem."""
    script = ROOT / "tests" / "recipes" / "scripts" / "recorded.json"
    rules = ("--allow", "bash:pytest *", "--allow", "write_file:yes.txt")
    return agentctl("-p", "go", "--model", f"scripted/{script}", "--ephemeral", "--json", *rules)


def agentctl(*words: str) -> bytes:
    """What the command writes to stdout; the environment holds a variable that it does not know."""
    env = {**os.environ, "AGENTCTL_WORD_OF_A_WRAPPER": "1"}
    command = [str(TOOLS / "agentctl"), *words]
    return subprocess.run(command, capture_output=True, check=False, stdin=subprocess.DEVNULL, env=env).stdout
