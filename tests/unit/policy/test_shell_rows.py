"""Every way to hide a command that is known from the field, as a table: tests/cases/shell_rows.jsonl."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.unit.policy.policy_world import World

ROWS = [
    json.loads(line) for line in (Path(__file__).parents[2] / "cases" / "shell_rows.jsonl").read_text().splitlines()
]


@pytest.mark.parametrize("row", ROWS, ids=[row["id"] for row in ROWS])
def test_row(row: dict[str, object], tmp_path: Path) -> None:
    world = World(
        tmp_path,
        allow=[f"bash:{text}" for text in row["allow"]],  # type: ignore[attr-defined]  # a list of texts in the file
        deny=[f"bash:{text}" for text in row["deny"]],  # type: ignore[attr-defined]  # as above
        is_yolo=bool(row["yolo"]),
    )
    decision = world.bash(str(row["command"]))
    assert (decision.verdict, decision.runs) == (row["verdict"], row["verdict"] == "allow"), decision


KNOWN = (
    "semi", "and", "or", "pipe", "pipeamp", "cmdsub", "backtick", "dq-cmdsub", "nested-sub", "procsub-in",
    "procsub-out", "heredoc-sub", "heredoc-quoted", "heredoc-in-sub", "herestring", "param-default", "arith-sub",
    "declare-i", "let", "prompt-op", "group", "compound", "case-pat", "time-redir", "bang", "assign-prefix", "nul",
    "nbsp-zw", "homoglyph", "split-quotes", "ansi-c", "var-name", "ifs", "glob-name", "abs-path", "rel-copy",
    "basename-spoof", "path-env", "bash-env", "export-poison", "shell-c", "shell-heredoc", "trap", "env-wrap",
    "env-S", "timeout-wrap", "unknown-wrapper", "wrapper-new-flag", "busybox", "xargs", "xargs-sh", "sed-exec",
    "awk-system", "rg-pre", "git-pager", "git-sshcmd", "git-global-flags", "git-checkout-merge", "git-fsmonitor",
    "git-destroy", "chmod-R", "disk", "forkbomb", "curl-sh", "shutdown", "redir-outside", "redir-dynamic",
    "redir-devtcp", "cd-then-rel", "tar-actions", "ssh-proxy", "mapfile-C", "comment", "unterminated",
    "yolo-dangerous", "cap-50", "long", "dparen", "deny-over-allow", "rule-typo", "stable-args", "regex-redos",
)  # fmt: skip
"""Every way that is known, without its `a-`: each has rows here or a test elsewhere."""
ELSEWHERE = {
    "git-fsmonitor": "tests/unit/config/test_hostile_repository.py::test_a_repository_runs_nothing",
    "long": "tests/unit/policy/test_bounds.py::test_size",
    "rule-typo": "tests/unit/policy/test_load_errors.py::test_bad_file",
    "stable-args": "tests/unit/policy/test_decisions.py::test_decoded_arguments_decide",
    "regex-redos": "tests/unit/policy/test_bounds.py::test_patterns_are_linear",
}


def test_every_known_way_has_a_test() -> None:
    """None of them is left out as not applicable."""
    here = {str(row["id"]).partition("/")[0].removeprefix("a-") for row in ROWS}
    assert [name for name in KNOWN if name not in here and name not in ELSEWHERE] == []
    assert len(set(KNOWN)) == 82
    for place in ELSEWHERE.values():
        file, _, function = place.partition("::")
        assert f"def {function}(" in (Path(__file__).parents[3] / file).read_text(), place


def test_rows_are_many_and_distinct() -> None:
    assert len(ROWS) > 90
    assert len({row["id"] for row in ROWS}) == len(ROWS)


def test_quoted_documents_and_comments_are_no_commands(tmp_path: Path) -> None:
    """Text that only mentions a denied program passes."""
    world = World(tmp_path, allow=["bash:echo *", "bash:cat *"], deny=["bash:canary *"])
    for line in ("cat <<'X'\n$(canary x)\nX", "echo hi # ; canary x", "echo 'canary x'", 'echo "; canary x"'):
        assert world.bash(line).runs, line
