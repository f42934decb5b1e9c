"""Every known quirk of the services, and the test that covers it.

A row is a quirk: what a server sends or refuses. Behind it stand the cases that hold it, `FILE/ID` for a line of
tests/cases/wire_FILE.jsonl and `FILE::TEST` for a test beside this file.
"""

from __future__ import annotations

import ast
import json
import re
import socket
from collections.abc import Mapping
from functools import cache
from pathlib import Path

import pytest

HERE = Path(__file__).parent
CASES = HERE.parents[1] / "cases"
QUIRKS = 139
NOT_APPLICABLE: Mapping[str, str] = {}
"""Quirk and the missing part that it is about; at most one in twenty."""
PARTLY: Mapping[str, str] = {
    "an-17-many-image-2000px": "no image library scales: images beyond the number and refused ones go as notes",
}
"""Covered but for what is named."""
ROWS = """
    tc-01-index-absent: chat/tc-01-index-absent
    tc-02-index-null: chat/tc-02-index-null
    tc-03-two-calls-no-index: chat/tc-03-two-calls-no-index chat/tc-03b-two-calls-no-index-no-id
    tc-04-args-before-name: chat/tc-04-args-before-name chat/tc-04b-name-never-comes
    tc-06-null-continue: chat/tc-06-null-continue
    tc-09-id-too-long: chat/tc-09-id-too-long
    tc-10-id-changes: chat/tc-10-id-changes
    tc-12-fragments-then-whole: chat/tc-12-fragments-then-whole chat/tc-12b-many-fragments-then-whole
    tc-13-interleaved: chat/tc-13-interleaved chat/tc-13b-indexes-out-of-order
    tc-14-bridge-all-zero: chat/tc-14-bridge-all-zero chat/tc-14b-all-zero-no-ids
    tc-15-args-object: chat/tc-15-args-object
    tc-18-args-null-or-absent: chat/tc-18-args-null chat/tc-18b-args-absent
    tc-23-none-choice-tool-finish: chat/tc-23-none-choice-tool-finish
    tc-24-id-empty: chat/tc-24-id-empty
    tc-25-truncated-args: chat/tc-25-truncated-args
    tc-26-call-as-text: chat/tc-26-call-as-text chat/tc-26b-call-as-fenced-json chat/tc-26c-json-answer
        chat/tc-26d-recovered-tag chat/tc-26e-recovered-two-tags chat/tc-26f-recovered-tag-without-end
        chat/tc-26g-recovered-fence chat/tc-26h-recovered-bare chat/tc-26i-recovered-arguments-as-text
        chat/tc-26j-recovered-text-behind chat/tc-26k-hosted-is-not-read chat/tc-26l-compatible-is-not-read
        chat/tc-26m-unknown-tool chat/tc-26n-one-of-two-is-broken chat/tc-26o-an-example-in-prose
        chat/tc-26p-other-json chat/tc-26q-code-in-a-fence chat/tc-26r-cut-call chat/tc-26s-no-tools
        chat/tc-26t-tool-name-alone chat/tc-26u-end-inside-an-opening
    tc-27-legacy-function_call: chat/tc-27-legacy-function_call
    tc-28-nonstream-index: chat/tc-28-nonstream-index
    rs-01-deepseek-echo: chat/rs-01-deepseek-echo chat/rs-01b-deepseek-foreign-turn
        chat/rs-01c-deepseek-thinking-off chat/rs-01d-deepseek-healed
    rs-02-openrouter-details: chat/rs-02-openrouter-details chat/rs-02b-details-of-another-model
    rs-03-extra_content-signature: chat/rs-03-extra_content-signature
    rs-07-both-fields: chat/rs-07-both-fields
    rs-08-think-split: chat/rs-08-think-split chat/rs-08b-think-off chat/rs-08c-held-back-to-the-end
    rs-09-literal-close-tag: chat/rs-09-literal-close-tag
    rs-10-content-parts: chat/rs-10-content-parts
    an-01-signature-after-switch: anthropic/an-01-signature-after-switch anthropic/an-01-healed
    an-02-fake-signature: anthropic/an-02-fake-signature
    an-03-signature-not-stored: anthropic/an-03-signature-merged anthropic/an-03-replayed anthropic/an-03-unsigned
    an-04-thinking-before-tool_use: anthropic/an-04-order-kept anthropic/an-04-thinking-lost
        anthropic/an-04-made-elsewhere anthropic/an-04-legally-without anthropic/an-04-later-turn
        anthropic/an-04-text-behind-results
    an-05-redacted_thinking: anthropic/an-05-redacted-decoded anthropic/an-05-redacted-replayed
    an-06-dangling-tool_use: anthropic/an-06-dangling-tool_use
    an-07-orphan-tool_result: anthropic/an-07-orphan-tool_result
    an-08-orphan-server-tool-result: anthropic/an-08-orphan-server-tool-result
    an-09-whitespace-text: anthropic/an-09-whitespace-text anthropic/an-09-empty-result
    an-11-auto-cache-slot: anthropic/an-11-auto-cache-slot
    an-14-refusal: anthropic/an-14-refusal
    an-16-prefill: anthropic/an-16-prefill anthropic/an-16-begins-with-assistant
    an-17-many-image-2000px: anthropic/an-17-many-images anthropic/an-17-images-refused errors/an-17-many-image
    an-18-image-8000-and-413: anthropic/an-18-too-large
    an-19-no-event-line: anthropic/an-19-no-event-line anthropic/an-19-nothing-usable
    an-20-midstream-error-event: anthropic/an-20-midstream-error-event anthropic/an-20-error-flat
        anthropic/an-20-error-empty
    an-21-eof-before-stop: anthropic/an-21-eof-before-stop anthropic/an-21-partial-call
        anthropic/an-21-no-stop-reason anthropic/an-21-no-message_stop
    an-22-unknown-event: anthropic/an-22-unknown-event
    an-23-max_tokens-rules: anthropic/an-23-max_tokens anthropic/an-23-catalogue anthropic/an-23-window
        anthropic/an-23-above-budget anthropic/an-23-budget-in-limit anthropic/an-23-no-room anthropic/an-23-low
        anthropic/an-23-max anthropic/an-23-healed
    an-24-auth-header-change: anthropic/an-24-auth-header-change anthropic/an-24-bearer
    an-25-beta-header: anthropic/an-25-beta-header
    us-01-usage-chunk-no-choices: chat/us-01-usage-chunk-no-choices
    us-02-choices-null: chat/us-02-choices-null
    us-03-delta-null-or-missing: chat/us-03-delta-null-or-missing
    us-04-azure-first-chunk: chat/us-04-azure-first-chunk
    us-05-usage-null-each: chat/us-05-usage-null-each responses/us-05-usage-null
    us-07-anthropic-cumulative: anthropic/us-07-cumulative
    us-08-delta-erases-input: anthropic/us-08-delta-erases-input
    us-09-cache-excluded: anthropic/us-09-cache-excluded
    us-10-cache-included: chat/us-10-cache-included chat/us-10b-cache-written chat/us-10c-cache-hit-tokens
        responses/us-10-cache-included
    us-11-x_groq: chat/us-11-x_groq
    us-14-stream_options-rejected: chat/us-14-stream_options-rejected chat/us-14b-stream_options-not-known
    ss-01-comment: chat/ss-01-comment
    ss-02-bare-colon: chat/ss-02-bare-colon
    ss-03-comment-as-data: chat/ss-03-comment-as-data
    ss-04-crlf: chat/ss-04-crlf chat/ss-04b-cr
    ss-05-no-space: chat/ss-05-no-space
    ss-06-multiline-data: chat/ss-06-multiline-data
    ss-07-bom: chat/ss-07-bom
    ss-08-no-final-blank-line: chat/ss-08-no-final-blank-line chat/ss-08b-no-final-line-end
    ss-09-event-without-data: chat/ss-09-event-without-data
    ss-10-error-event-no-data: chat/ss-10-error-event-no-data
    ss-11-error-event-chat: chat/ss-11-error-event-chat
    ss-13-done-no-finish: chat/ss-13-done-no-finish chat/ss-13b-done-no-finish-call
    ss-14-finish-no-done: chat/ss-14-finish-no-done
    ss-15-eof-neither: chat/ss-15-eof-neither chat/ss-15b-nothing
    ss-16-eof-mid-tool: chat/ss-16-eof-mid-tool chat/ss-16b-eof-mid-frame
    ss-18-utf8-split: chat/ss-18-utf8-split
    ss-19-gzip: test_transport.py::test_the_bytes_arrive_whole
        test_wire_provider.py::test_the_form_of_the_answer_makes_no_difference
    ss-20-invalid-json-frame: chat/ss-20-invalid-json-frame
    ss-21-cut-chunked: test_transport.py::test_a_connection_that_breaks_inside_the_answer
        test_wire_provider.py::test_what_is_no_answer_is_a_broken_stream
    ss-22-stall: test_transport.py::test_silence_inside_the_answer_ends
        test_transport.py::test_every_byte_counts_as_life
    ss-23-keepalive-reuse: test_transport.py::test_a_kept_connection_that_was_closed_is_replaced_at_once
    er-01-200-error-body: chat/er-01-200-error-body errors/er-01-200-error-body errors/er-01-raw-text
    er-03-200-json-instead-of-sse: chat/er-03-200-json-instead-of-sse chat/er-03b-200-other-json
    er-04-choice-error: chat/er-04-choice-error chat/er-04b-network_error chat/er-04c-insufficient_system_resource
        errors/er-04-choice-error errors/er-04-network-error errors/er-04-insufficient-resource
    er-05-midstream-error-shapes: chat/er-05-error-string chat/er-05b-error-object chat/er-05c-error-type
        chat/er-05d-usage-before-error errors/er-05-string errors/er-05-object errors/er-05-typed
        errors/er-05-nothing errors/er-05-null errors/er-05-server-error errors/er-05-invalid-request
        errors/er-05-json-in-string
    er-06-error-list: errors/er-06-error-list errors/er-06-key-400
    er-07-error-string-html-empty: errors/er-07-html errors/er-07-string errors/er-07-empty
    er-08-insufficient_quota: errors/er-08-insufficient_quota errors/er-08-no-credit errors/er-08-gemini-free-minute
    er-09-429-monthly: errors/er-09-429-monthly errors/er-09-429-far-reset errors/er-09-429-near-reset
        errors/er-09-rate-per-day
    er-10-402: errors/er-10-402 errors/er-10-402-afford
    er-11-retry-after-forms: test_waits.py::test_headers
        test_resilience.py::test_a_wait_that_is_too_long_fails_at_once_and_is_named errors/er-11-retry-after
    er-12-529: errors/er-12-529
    er-13-groq-tool_use_failed: errors/er-13-groq-tool_use_failed
    ov-openai: errors/ov-openai
    ov-openai-resp: errors/ov-openai-resp errors/ov-openai-resp-400
    ov-anthropic-413: errors/ov-anthropic-413 errors/ov-anthropic-413-bytes
    ov-bedrock: errors/ov-bedrock errors/ov-bedrock-input
    ov-vllm: errors/ov-vllm
    ov-llamacpp: errors/ov-llamacpp
    ov-ollama-cohere: errors/ov-ollama errors/ov-cohere
    ov-neg-throttle: errors/ov-neg-throttle errors/ov-neg-throttle-400
    ov-neg-generic: errors/ov-neg-generic
    ov-output-cap: errors/ov-output-cap
    ov-ollama-500: errors/ov-ollama-500
    rq-01-top-level-anyOf: chat/rq-01-top-level-anyOf
    rq-02-non-object-root: chat/rq-02-non-object-root chat/rq-02b-array-root-is-left-out
    rq-03-no-properties: chat/rq-03-no-properties chat/rq-03b-no-parameters
    rq-04-strict: chat/rq-04-strict-is-not-sent
    rq-05-required-missing: chat/rq-05-required-missing
    rq-07-empty-enum: chat/rq-07-empty-enum
    rq-08-unknown-body-field: chat/rq-08-unknown-body-field
    rq-09-tool-name-chars: chat/rq-09-tool-name-chars
    rq-11-temperature: chat/rq-11-no-sampling-fields errors/param-8-temperature errors/param-9-temperature
        test_resilience.py::test_a_refused_request_is_changed_once
    rq-12-tools-unsupported: errors/rq-12-tools-unsupported
    rq-13-developer-role: chat/rq-13-system-not-developer errors/rq-13-jinja
    rq-15-alternation: chat/rq-15-alternation chat/rq-15b-no-alternation
    rq-16-user-after-tool: chat/rq-16-user-after-tool
    rq-17-mistral-id: chat/rq-17-mistral-id
    rq-18-tool-content-list: chat/rq-18-tool-content-string
    rq-22-tool_choice-object: chat/rq-22-no-tool_choice
    rq-23-parallel_tool_calls: chat/rq-23-dropped-parameter errors/param-1-parallel_tool_calls
    rq-24-image-unsupported: chat/rq-24-image chat/rq-24b-image-unsupported chat/rq-24c-image-stripped
        chat/rq-24d-image-of-a-tool errors/rq-24-image-unsupported
    rq-25-surrogates: chat/rq-25-surrogates
    rq-26-null-content: chat/rq-26-null-content chat/rq-26b-empty-content
    rp-01-reasoning-unpaired: responses/rp-01-reasoning-unpaired responses/rp-01-reasoning-at-end
        responses/rp-01-reasoning-paired
    rp-02-store-false-id: errors/rp-02-item responses/rp-02-store-false responses/rp-02-no-encrypted-content
        responses/rp-02-decoded-without-content
    rp-03-item_reference: responses/rp-03-item_reference
    rp-04-reasoning-shape: responses/rp-04-reasoning-shape responses/rp-04-duplicate
    rp-05-id-stripped: responses/rp-05-id-stripped responses/rp-05-healed
    rp-06-call-without-output: responses/rp-06-call-without-output
    rp-07-output-without-call: responses/rp-07-output-without-call
    rp-08-id-prefix: responses/rp-08-id-prefix
    rp-09-id-length: responses/rp-09-id-length
    rp-11-previous_response_id: responses/rp-11-previous_response_id
    rp-12-phase-dropped: responses/rp-12-phase-stored responses/rp-12-phase-replayed responses/rp-12-phase-foreign
    rp-13-commentary-visible: responses/rp-13-commentary-and-call responses/rp-13-commentary-alone
        responses/rp-13-commentary-and-final responses/rp-13-commentary-replayed responses/rp-13-two-messages
        responses/rp-13-two-finals
    rp-14-failed-incomplete: responses/rp-14-failed responses/rp-14-failed-overflow
        responses/rp-14-incomplete-length responses/rp-14-incomplete-call responses/rp-14-incomplete-filter
        responses/rp-14-refusal
    rp-15-no-terminal: responses/rp-15-no-terminal responses/rp-15-items-but-no-terminal
    rp-16-completed-empty-output: responses/rp-16-completed-empty-output responses/rp-16-other-ids
        responses/rp-16-only-in-the-end responses/rp-16-rotating-ids responses/rp-16-unfinished-call
    rp-17-error-event: responses/rp-17-error-event responses/rp-17-error-nested responses/rp-17-error-untyped
    px-03-proxy-rewrites-error: errors/px-03-proxy-rewrites-error
    px-06-mock-escapes: test_wire_rows.py::test_a_test_reaches_no_other_machine
"""


def table() -> dict[str, list[str]]:
    rows: dict[str, list[str]] = {}
    for word in ROWS.split():
        if word.endswith(":"):
            rows[word.removesuffix(":")] = []
        else:
            rows[next(reversed(rows))].append(word)
    return rows


@cache
def cases(name: str) -> frozenset[str]:
    lines = (CASES / f"wire_{name}.jsonl").read_text("utf-8").splitlines()
    return frozenset(json.loads(line)["id"] for line in lines)


@cache
def functions_of(name: str) -> frozenset[str]:
    tree = ast.parse((HERE / name).read_text("utf-8"))
    return frozenset(node.name for node in tree.body if isinstance(node, ast.FunctionDef))


def is_there(place: str) -> bool:
    file, separator, test = place.partition("::")
    if separator:
        return test in functions_of(file)
    file, _, case = place.partition("/")
    return case in cases(file)


@pytest.mark.parametrize("quirk", [*table(), *NOT_APPLICABLE])
def test_a_quirk_is_covered(quirk: str) -> None:
    places = table().get(quirk, [])
    assert places or NOT_APPLICABLE[quirk]
    assert [place for place in places if not is_there(place)] == []


def test_the_table_is_whole() -> None:
    rows = table()
    assert len(rows) + len(NOT_APPLICABLE) == QUIRKS
    assert len(NOT_APPLICABLE) <= QUIRKS // 20
    assert not rows.keys() & NOT_APPLICABLE.keys()
    assert PARTLY.keys() <= rows.keys()


def number_of(name: str) -> str:
    """tc-03b-two-calls → tc-03; a name without a number is its own."""
    found = re.match(r"[a-z]+-\d\d", name)
    return found[0] if found else name


def test_a_case_that_is_numbered_like_a_quirk_stands_in_its_row() -> None:
    named = {place for places in table().values() for place in places}
    numbers = {number_of(quirk) for quirk in table()}
    numbered = {
        f"{file}/{case}"
        for file in ("chat", "responses", "anthropic", "errors")
        for case in cases(file)
        if number_of(case) in numbers
    }
    assert numbered - named == set()


def test_a_test_reaches_no_other_machine() -> None:
    """Mocks of one HTTP library let the traffic of another through; here nothing leaves the machine at all."""
    with socket.socket() as outside, pytest.raises(AssertionError, match="tried to reach"):
        outside.connect(("192.0.2.1", 443))
