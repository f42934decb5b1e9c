"""How a run can end: one closed table that the code, `agentctl --help`, the docs and the tests read."""

from __future__ import annotations

from agentctl.core.record import Record


class Ending(Record):
    name: str
    exit_code: int
    when: str


ENDINGS: dict[str, Ending] = {
    row.name: row
    for row in (
        Ending(name="completed", exit_code=0, when="the model ended the turn and every requested check held"),
        Ending(name="error", exit_code=1, when="a bug or an unexpected failure; a journal that cannot be written"),
        Ending(
            name="usage", exit_code=2, when="a bad flag, config, policy, agent or prompt; no session for -c; --strict"
        ),
        Ending(name="unmet", exit_code=3, when="a verb that checks, such as doctor, found what does not hold"),
        Ending(name="denied", exit_code=4, when="--fail-on denied at the end of the turn, or the denial limit at once"),
        Ending(name="limit", exit_code=5, when="steps, tool calls, tokens, cost or a loop; done.limit says which"),
        Ending(name="suspended", exit_code=6, when="calls wait for approval (--on-ask suspend); see done.approvals"),
        Ending(name="question", exit_code=7, when="the model needs an answer (--on-question fail); see done.questions"),
        Ending(
            name="provider",
            exit_code=8,
            when="a rejected request, a refusal, a cut or empty answer, a context that cannot be made to fit",
        ),
        Ending(name="auth", exit_code=9, when="a missing or bad key, no credit, no such model"),
        Ending(name="busy", exit_code=10, when="another run holds the session"),
        Ending(
            name="unavailable",
            exit_code=75,
            when="rate limit, overload, network or a broken stream after all retries: try again later",
        ),
        Ending(name="timeout", exit_code=124, when="the wall clock (--timeout)"),
        Ending(
            name="cancelled",
            exit_code=143,
            when="SIGHUP (129), SIGINT (130), SIGTERM (143), reader of stdout gone (141)",
        ),
    )
}
"""Every ending this version can reach; `unmet` by verbs only. `cancelled` carries the exit code of its signal."""
