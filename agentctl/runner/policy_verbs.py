"""`policy check`, `explain`, `test` and `show`."""

from __future__ import annotations

from collections.abc import Sequence

from agentctl.config.options import Options
from agentctl.config.trust import WorkspaceReader
from agentctl.core.codec import dumps, loads
from agentctl.core.errors import UsageError
from agentctl.core.record import as_dict
from agentctl.core.types import JsonObject
from agentctl.policy.engine import PolicyEngine
from agentctl.policy.rules import Rule
from agentctl.runner.document import UNMET, settings_of, show, table, verb
from agentctl.runner.output import print_bytes
from agentctl.runner.policies import load_run_policy


@verb
def policy_check(options: Options) -> int:
    """Loads every policy source of a run; a wrong one is a usage error with file and line."""
    engine = _loaded(options)
    document = {
        "ok": True,
        "digest": engine.digest,
        "sources": list(engine.source_names),
        "problems": as_dict(engine.problems),
    }
    lines = [f"ok: {', '.join(engine.source_names)}", f"digest {engine.digest}"]
    return show(options, document, [*lines, *_problem_lines(engine)])


@verb
def policy_test(options: Options) -> int:
    """Runs all examples, also of shipped profiles, and names the rules that no `match` covers: exit code 3."""
    engine = _loaded(options)
    engine.check_examples()
    rules = [rule for rule in engine.rules if rule.is_from_file]
    uncovered = [rule for rule in rules if not rule.match]
    examples = sum(len(rule.match) + len(rule.not_match) for rule in rules)
    document = {
        "ok": not uncovered,
        "sources": list(engine.source_names),
        "rules": len(rules),
        "examples": examples,
        "uncovered": [{"rule": rule.id, "source": rule.source} for rule in uncovered],
        "problems": as_dict(engine.problems),
    }
    head = f"{examples} examples of {len(rules)} rules hold: {', '.join(engine.source_names)}"
    lines = [f"{rule.source}: rule {rule.id!r} has no example in match" for rule in uncovered]
    show(options, document, [head, *lines, *_problem_lines(engine)])
    return UNMET if uncovered else 0


@verb
def policy_explain(options: Options, tool: str, input: str | None) -> int:
    """The decision about one call, or, for `-`, about each `{tool, input}` line of stdin."""
    from agentctl.runner.explain import explain_call, read_calls

    engine = _loaded(options)
    if tool == "-":
        for name, arguments in read_calls(0):
            print_bytes(dumps(explain_call(engine, name, arguments)))
        return 0
    try:
        arguments = loads(input or "{}")
    except ValueError as error:
        raise UsageError(
            f"the input {input!r} is not JSON: {error}", hint='For example: policy explain bash \'{"command": "ls"}\''
        ) from None
    if not isinstance(arguments, dict):
        raise UsageError(f"the input {input!r} is not a JSON object")
    row = explain_call(engine, tool, arguments)
    return show(options, row, _explained(row))


def _explained(row: JsonObject) -> list[str]:
    lines = [
        f"{'runs' if row['runs'] else 'does not run'}: {row['verdict']}",
        f"rule {row['rule']} ({row['source']})",
        str(row["reason"]),
    ]
    if row["allow_with"] and not row["runs"]:
        lines.append(f"allow with: --allow {row['allow_with']!r}")
    return lines + [f"lost: {lost['verdict']} {lost['rule']} ({lost['source']})" for lost in row["losing"]]


@verb
def policy_show(options: Options, profile: str | None) -> int:
    """A shipped profile as the file it is; without a name the rules of a run, each with its source."""
    if profile:
        from agentctl.policy.shipped import profile_text

        text = profile_text(profile)
        return show(options, {"name": profile, "text": text}, [text.rstrip("\n")])
    engine = _loaded(options)
    document = {
        "digest": engine.digest,
        "unmatched": engine.unmatched,
        "unmatched_source": engine.unmatched_source,
        "yolo": engine.is_yolo,
        "sources": list(engine.source_names),
        "rules": [_rule_row(rule) for rule in engine.rules],
        "problems": as_dict(engine.problems),
    }
    return show(options, document, [*_shown_rules(engine), *_problem_lines(engine)])


def _rule_row(rule: Rule) -> JsonObject:
    return {
        "id": rule.id,
        "source": rule.source,
        "decision": rule.decision,
        "tool": list(rule.tools),
        **rule.conditions,
        "reason": rule.reason,
    }


def _shown_rules(engine: PolicyEngine) -> Sequence[str]:
    """Refusals first, as they win; a rule with many patterns is shown with the first of them."""
    order = sorted(engine.rules, key=lambda rule: ("deny", "ask", "allow").index(rule.decision))
    rows = [(rule.decision, rule.id, ", ".join(rule.tools), rule.source, _conditions(rule)) for rule in order]
    rows.append((engine.unmatched, "unmatched", "*", engine.unmatched_source, "what no rule matches"))
    return [*table(rows), f"digest {engine.digest}"]


_SHOWN_PATTERNS = 4


def _conditions(rule: Rule) -> str:
    shown = []
    for name, value in rule.conditions.items():
        texts = [f"{key}={text}" for key, row in value.items() for text in row] if name == "args" else value
        more = f" and {len(texts) - _SHOWN_PATTERNS} more" if len(texts) > _SHOWN_PATTERNS else ""
        shown.append(f"{name} {', '.join(map(repr, texts[:_SHOWN_PATTERNS]))}{more}")
    return "; ".join(shown) or "every call"


def _problem_lines(engine: PolicyEngine) -> list[str]:
    return [f"{item.what}: {item.why}" for item in engine.problems]


def _loaded(options: Options) -> PolicyEngine:
    settings = settings_of(options)
    return load_run_policy(settings, WorkspaceReader(settings.root, settings.trust))
