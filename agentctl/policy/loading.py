"""From policy files and flags to the engine of a run; examples of rules run here."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from agentctl.core.record import Record
from agentctl.core.types import Problem, ToolSpec
from agentctl.policy.builtin import BUILTIN_RULES
from agentctl.policy.engine import FindSpec, PolicyEngine
from agentctl.policy.flags import flag_rule
from agentctl.policy.places import Places
from agentctl.policy.rulefile import load_rules
from agentctl.policy.rules import CHOICES, Choice, Rule, RuleFile
from agentctl.policy.verdicts import BUILT_IN

if TYPE_CHECKING:
    from agentctl.policy.shfmt import ShellParser

Kind = Literal["flag", "shipped", "admin", "project", "user"]


class PolicySource(Record):
    """A policy text with its origin. Of an untrusted one only deny and ask rules and a stricter `unmatched` count."""

    name: str
    """The path as it is shown, or `builtin:NAME`."""
    text: str
    is_trusted: bool
    kind: Kind


def load_policy(
    sources: Sequence[PolicySource],
    *,
    allow: Sequence[str],
    deny: Sequence[str],
    is_yolo: bool,
    root: Path,
    shell: ShellParser | None,
    extra_roots: Sequence[Path] = (),
    private_tmp: Path | None = None,
    protected: Sequence[Path] = (),
    is_bash: bool = True,
    find_spec: FindSpec | None = None,
) -> PolicyEngine:
    """The engine of a run. `shell` None means that no shfmt was found: plain words only, and a problem says so.

    `protected` are paths of agentctl itself (installation, home, --policy files) that nothing may write. `is_bash` is
    false when commands will run in plain sh. `find_spec` knows the tools that a wrapper can stand for. Raises
    PolicyError with file and line.
    """
    places = Places(root, extra_roots, private_tmp)
    parser = shell or _plain_parser()
    problems = []
    if parser.problem:
        problems.append(Problem(code="no-shfmt", what="shell lines", why=parser.problem, fix="pip install shfmt-py"))
    rules = list(BUILTIN_RULES)
    unmatched: Choice | None = None
    unmatched_source = BUILT_IN
    files = [(source, load_rules(source.name, source.text)) for source in sources]
    _check_examples([rule for source, file in files if source.kind != "shipped" for rule in file.rules], parser)
    for source, file in sorted(files, key=lambda pair: not pair[0].is_trusted):
        kept = [rule for rule in file.rules if source.is_trusted or rule.is_refusal]
        rules.extend(kept)
        floor: Choice = unmatched or ("allow" if source.is_trusted else "ask")
        if file.unmatched and CHOICES.index(file.unmatched) >= CHOICES.index(floor) + (not source.is_trusted):
            unmatched, unmatched_source = file.unmatched, file.unmatched_source
        problems.extend(_left_out(source, file, kept, unmatched))
    rules.extend(flag_rule("--allow", text, "allow") for text in dict.fromkeys(allow))
    rules.extend(flag_rule("--deny", text, "deny") for text in dict.fromkeys(deny))
    return PolicyEngine(
        rules=tuple(rules),
        unmatched=unmatched or "ask",
        unmatched_source=unmatched_source,
        is_yolo=is_yolo,
        shell=parser,
        is_bash=is_bash,
        places=places,
        protected=protected,
        find_spec=find_spec or _no_spec,
        source_names=(*(source.name for source in sources), BUILT_IN),
        problems=tuple(problems),
    )


def _check_examples(rules: Sequence[Rule], shell: ShellParser) -> None:
    """Those of shipped profiles cannot have changed since the tests of agentctl ran them, and cost 40 ms."""
    if any(rule.match or rule.not_match for rule in rules):
        from agentctl.policy.examples import check_examples  # most of the shell, only for files with examples

        check_examples(rules, shell)


def _no_spec(_name: str) -> ToolSpec | None:
    return None


def _plain_parser() -> ShellParser:
    from agentctl.policy.plain import PlainParser  # only for machines without shfmt

    return PlainParser()


def _left_out(source: PolicySource, file: RuleFile, kept: list[Rule], unmatched: Choice | None) -> list[Problem]:
    dropped = len(file.rules) - len(kept)
    if source.is_trusted or not (dropped or file.unmatched == "allow" != unmatched):
        return []
    why = f"the file is not trusted in this run, so its allow rules ({dropped}) and a laxer `unmatched` do not count"
    return [
        Problem(
            code="policy-untrusted", what=source.name, why=why, fix="Use --policy with a file outside the workspace."
        )
    ]
