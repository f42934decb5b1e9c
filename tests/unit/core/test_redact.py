"""Secrets in every form and cut at every place."""

from __future__ import annotations

import base64
import binascii
import html
import json
import re
import shlex
import string
from collections.abc import Callable
from functools import partial
from urllib.parse import quote, quote_plus, urlencode
from xml.sax import saxutils

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from agentctl.core.redact import RedactingDecoder, Redactor

KEY = "sk-proj/AbC+12 34=xyz"
TOKEN = "ghp_0123456789abcdefABCDEF"
REDACTOR = Redactor({"OPENAI_API_KEY": KEY, "GITHUB_TOKEN": TOKEN})
MASK = "[masked:OPENAI_API_KEY]"


@pytest.mark.parametrize(
    "form",
    [
        KEY,
        quote(KEY, safe=""),
        quote_plus(KEY),
        quote(KEY, safe="").replace("%2F", "%2f").replace("%2B", "%2b").replace("%3D", "%3d"),
        KEY.encode().hex(),
        KEY.encode().hex().upper(),
    ],
)
def test_forms(form: str) -> None:
    assert REDACTOR.text(f"key is {form}.") == f"key is {MASK}."


@pytest.mark.parametrize("before", ["", "u", "us", "user:"])
@pytest.mark.parametrize("after", ["", "\n", ":more"])
@pytest.mark.parametrize("encode", [base64.b64encode, base64.urlsafe_b64encode])
def test_base64_in_all_alignments(before: str, after: str, encode: object) -> None:
    encoded = encode(f"{before}{KEY}{after}".encode()).decode()  # type: ignore[operator]  # one of the two above
    masked = REDACTOR.text(f"Basic {encoded}")
    assert MASK in masked
    rest = masked.replace("Basic ", "").replace(MASK, "")
    assert len(rest) <= 4 + len(base64.b64encode(before.encode())) + len(base64.b64encode(after.encode()))


def every(template: str, *, is_bytes: bool = True) -> Callable[[str], str]:
    return lambda text: "".join(template.format(item) for item in (text.encode() if is_bytes else map(ord, text)))


def dumps(depth: int, text: str, **options: bool) -> str:
    return dumps(depth - 1, json.dumps(text, **options), **options) if depth else text  # type: ignore[arg-type]  # flags


URL_SAFE = ("", "/", "+", "!'()*~", "-_.!~*'()", ";,/?:@&=+$#", ":/", "/:?=&", "*", "@:", "~")
ENCODERS: dict[str, Callable[[str], str]] = {
    **{f"quote safe={safe}": partial(quote, safe=safe) for safe in URL_SAFE},
    **{f"quote_plus safe={safe}": partial(quote_plus, safe=safe) for safe in URL_SAFE},
    **{f"quote lower safe={safe}": lambda text, safe=safe: lower_hex(quote(text, safe=safe)) for safe in URL_SAFE},
    **{f"quote_plus lower safe={safe}": lambda text, s=safe: lower_hex(quote_plus(text, safe=s)) for safe in URL_SAFE},
    "urlencode": lambda text: urlencode({"": text})[1:],
    "html": html.escape,
    "html without quotes": partial(html.escape, quote=False),
    "html as Go": lambda text: html.escape(text).replace("&quot;", "&#34;").replace("&#x27;", "&#39;"),
    "xml": saxutils.escape,
    "xml attribute": lambda text: saxutils.escape(text, {'"': "&quot;", "'": "&apos;"}),
    **{f"json {depth} times": lambda text, depth=depth: dumps(depth, text)[depth:-depth] for depth in (1, 2, 3)},
    **{f"wide json {n} times": lambda text, n=n: dumps(n, text, ensure_ascii=False)[n:-n] for n in (1, 2, 3)},
    "json as PHP": lambda text: json.dumps(text)[1:-1].replace("/", "\\/"),
    "json as Go": lambda text: json.dumps(text)[1:-1].translate({38: "\\u0026", 60: "\\u003c", 62: "\\u003e"}),
    "repr": lambda text: repr(text)[1:-1],
    "repr of bytes": lambda text: repr(text.encode())[2:-1],
    "repr twice": lambda text: repr(repr(text))[2:-2],
    "ascii": lambda text: ascii(text)[1:-1],
    "shlex": lambda text: shlex.quote(text).removeprefix("'").removesuffix("'"),
    "every %xx": every("%{:02x}"),
    "every %XX": every("%{:02X}"),
    "every \\xNN": every("\\x{:02x}"),
    "every \\xNN, upper case": every("\\x{:02X}"),
    "every \\uNNNN": every("\\u{:04x}", is_bytes=False),
    "every &#N;": every("&#{};", is_bytes=False),
    "every &#xN;": every("&#x{:x};", is_bytes=False),
    "hexlify": lambda text: binascii.hexlify(text.encode()).decode(),
    "hexlify with colons": lambda text: binascii.hexlify(text.encode(), ":").decode(),
    "HEX": lambda text: text.encode().hex(" ").upper(),
    "quopri": lambda text: binascii.b2a_qp(text.encode()).decode(),
    "quopri with blanks": lambda text: binascii.b2a_qp(text.encode(), quotetabs=True).decode(),
    "quopri of a header": lambda text: binascii.b2a_qp(text.encode(), header=True).decode(),
    "cell of CSV": lambda text: text.replace('"', '""'),
    "cell of TSV": lambda text: text.replace("\\", "\\\\"),
    "regular expression": re.escape,
    "base32": lambda text: base64.b32encode(text.encode()).decode().rstrip("="),
    "base85": lambda text: base64.b85encode(text.encode()).decode(),
    "ascii85": lambda text: base64.a85encode(text.encode()).decode(),
}
"""What a program of Python would use, and some of other languages."""


def lower_hex(text: str) -> str:
    return re.sub("%..", lambda found: found[0].lower(), text)


SPECIAL = st.text(st.sampled_from("aZ09" + string.punctuation + " "), min_size=8, max_size=40)
WIDE = st.text(st.sampled_from("bY7/\\\"'& <%äß€語"), min_size=8, max_size=12)


@pytest.mark.parametrize("name", ENCODERS)
@given(
    secret=st.one_of(SPECIAL, WIDE), before=st.sampled_from(["", "key=", "x "]), after=st.sampled_from(["", "!", " y"])
)
@settings(max_examples=25)
def test_a_secret_comes_out_in_no_encoding(name: str, secret: str, before: str, after: str) -> None:
    assume(len(set(secret)) > 3 and secret == secret.strip() and len(secret.encode()) < 24)
    encoded = ENCODERS[name](secret)
    assert Redactor({"KEY": secret}).text(before + encoded + after).count("[masked:KEY]") == 1
    assert encoded not in streamed(Redactor({"KEY": secret}), list(before + encoded + after))


@pytest.mark.parametrize("size", [12, 13, 14, 15, 40])
@pytest.mark.parametrize("before", range(6))
@pytest.mark.parametrize("encode", [base64.b32encode, base64.b85encode, base64.a85encode])
def test_base32_and_base85_in_all_alignments(before: int, size: int, encode: Callable[[bytes], bytes]) -> None:
    secret = "aB3$xY7/pQ9-" + "k" * (size - 12)
    encoded = encode(b"u" * before + secret.encode() + b"z" * 7).decode()
    masked = Redactor({"KEY": secret}).text(f"is {encoded}.")
    assert masked.count("[masked:KEY]") == 1
    assert len(masked.replace("[masked:KEY]", "")) <= 4 + 8 * (before + 7 + 8) / 5


def test_json_spelling() -> None:
    secret = 'pä"ss\\wörd\n99x'
    redactor = Redactor({"PASSWORD": secret})
    for is_ascii in (True, False):
        assert redactor.text(json.dumps({"p": secret}, ensure_ascii=is_ascii)) == '{"p": "[masked:PASSWORD]"}'


def test_each_line_of_a_secret_of_many_lines() -> None:
    secret = "-----BEGIN KEY-----\nMIIEowIBAAKC\nAQEAabc\n-----END KEY-----\n"
    redactor = Redactor({"PRIVATE_KEY": secret})
    assert redactor.text(secret) == "[masked:PRIVATE_KEY]"
    assert redactor.text("x MIIEowIBAAKC y") == "x [masked:PRIVATE_KEY] y"
    assert redactor.text("AQEAabc") == "AQEAabc"  # shorter than 8


def test_values_are_walked() -> None:
    given_value = {"a": [KEY, 1, None, {KEY: (True, f"x{TOKEN}")}], "b": "plain"}
    assert REDACTOR.value(given_value) == {"a": [MASK, 1, None, {MASK: (True, "x[masked:GITHUB_TOKEN]")}], "b": "plain"}
    assert given_value["a"][0] == KEY  # type: ignore[index]  # what was given is left alone


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (f"echo {MASK}", True),
        ("echo [masked:OTHER]", False),
        ("masked", False),
    ],
)
def test_contains_mask(text: str, expected: bool) -> None:
    assert REDACTOR.contains_mask(text) is expected


def test_without_secrets_nothing_changes() -> None:
    redactor = Redactor({})
    stream = redactor.stream()
    value = {"a": "b"}
    assert (redactor.text(KEY), redactor.value(value), redactor.contains_mask(MASK)) == (KEY, value, False)
    assert (stream.feed(KEY), stream.end()) == (KEY, "")


def test_an_empty_value_masks_nothing() -> None:
    assert Redactor({"EMPTY_TOKEN": ""}).text("abc") == "abc"


def streamed(redactor: Redactor, chunks: list[str]) -> str:
    stream = redactor.stream()
    return "".join([*map(stream.feed, chunks), stream.end()])


@pytest.mark.parametrize("cut", range(len(TOKEN) + 1))
def test_a_secret_cut_anywhere(cut: int) -> None:
    assert streamed(REDACTOR, ["a ", TOKEN[:cut], TOKEN[cut:], " b"]) == "a [masked:GITHUB_TOKEN] b"


def test_character_by_character() -> None:
    text = f"start {TOKEN} middle {base64.b64encode(KEY.encode()).decode()} ghp_01 end"
    assert streamed(REDACTOR, list(text)) == REDACTOR.text(text)


def test_only_the_beginning_of_a_secret_is_held_back() -> None:
    stream = REDACTOR.stream()
    assert stream.feed("hello wor") == "hello wor"
    assert stream.feed("ld ghp_012") == "ld "
    assert stream.feed("x") == "ghp_012x"
    assert stream.feed("y ghp") == "y "
    assert stream.end() == "ghp"


def test_a_secret_that_begins_another() -> None:
    redactor = Redactor({"SHORT": "abcd1234", "LONG": "abcd1234efgh"})
    assert streamed(redactor, ["x abcd1234", "efgh y"]) == "x [masked:LONG] y"
    assert streamed(redactor, ["x abcd1234", "ef y"]) == "x [masked:SHORT]ef y"
    assert streamed(redactor, ["x abcd1234"]) == "x [masked:SHORT]"


CHUNKS = st.lists(st.sampled_from(["ab1", "cab1", "dab1cab", "x", "1c", "b1ca", " "]), max_size=12)


@given(CHUNKS)
def test_pieces_give_what_the_whole_gives(chunks: list[str]) -> None:
    redactor = Redactor({"ONE": "ab1cab1d", "TWO": "cab1x", "THREE": "ab1cab1dab1c"})
    assert streamed(redactor, chunks) == redactor.text("".join(chunks))


@given(CHUNKS)
def test_pieces_stay_apart_but_for_secrets(chunks: list[str]) -> None:
    redactor = Redactor({"ONE": "ab1cab1d", "TWO": "cab1x", "THREE": "ab1cab1dab1c"})
    pieces = redactor.pieces()
    shown = [piece for chunk in chunks for piece in pieces.feed(chunk)] + pieces.end()
    assert "".join(shown) == redactor.text("".join(chunks))
    if "[masked" not in "".join(shown):
        assert shown == chunks
    again = Redactor({}).pieces()
    assert [piece for chunk in shown for piece in again.feed(chunk)] == shown, "who knows no secret shows the same"


def test_bytes_of_a_program() -> None:
    data = f"ä {TOKEN} ö".encode() + b"\xff\xfe" + "€".encode()[:2]
    decoder = RedactingDecoder(REDACTOR)
    text = "".join([*(decoder.feed(data[at : at + 1]) for at in range(len(data))), decoder.end()])
    assert text == "ä [masked:GITHUB_TOKEN] ö\ufffd\ufffd\ufffd"


@pytest.mark.parametrize("kept", [4, 7, 12, len(TOKEN)])
@pytest.mark.parametrize("sign", ["…", "… [line cut, 9,000 bytes in all]", "\n... [diff cut]\n"])
def test_the_beginning_of_a_secret_before_a_cut(kept: int, sign: str) -> None:
    assert REDACTOR.text(f"x {TOKEN[:kept]}{sign} y") == f"x [masked:GITHUB_TOKEN]{sign} y"


@pytest.mark.parametrize("text", ["see ghp…", "ghp_0123 and so on", "… ghp_0123", "ordinary text… and more…"])
def test_what_is_not_cut_out_of_a_secret_stays(text: str) -> None:
    assert REDACTOR.text(text) == text


def test_a_reversed_secret() -> None:
    assert REDACTOR.text(f"tac: {TOKEN[::-1]}") == "tac: [masked:GITHUB_TOKEN]"
