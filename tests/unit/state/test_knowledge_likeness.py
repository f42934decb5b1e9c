"""Whether two notes say the same, for every script; no likeness may cost a correction."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agentctl.state.knowledge_likeness import compare, is_in, plain, shingles, similarity, subject_of, tokens

SAME = [
    ("Tests run with make test", "tests run with `make test`."),
    ("The build needs Docker to be running", "the build needs docker to be running!"),
    ("Use the staging database for integration tests", "Use staging database for the integration tests"),
    (
        "The linter runs in every job of the pipeline on a commit",
        "The linter runs in every job of the pipelines on a commit",
    ),
    ("Ｔｅｓｔｓ　run with make test", "Tests run with make test"),
    ("单元测试需要先启动数据库服务", "单元测试需要先启动数据库服务。"),
    ("默认的数据库连接池大小由环境变量决定", "默认数据库连接池大小由环境变量决定"),
    ("テストの実行にはデータベースが必要です", "テストの実行にはデータベースが必要です。"),
    ("การทดสอบต้องเปิดฐานข้อมูลก่อนเสมอ", "การทดสอบต้องเปิดฐานข้อมูลก่อนเสมอ "),
]
DIFFERENT = [
    ("The dev server of the project listens on port 8080", "The dev server of the project listens on port 9090"),
    (
        "In this repository all Python files are indented with tabs",
        "In this repository all Python files are indented with dots",
    ),
    ("Release 1.2 of the client library is supported here", "Release 12 of the client library is supported here"),
    ("The cache of the importer lives in redis", "Deploys happen from the main branch"),
    ("数据库服务默认监听端口八零八零并且需要密码", "数据库服务默认监听端口九零九零并且需要密码"),
    ("การทดสอบใช้ฐานข้อมูลหนึ่ง", "เซิร์ฟเวอร์ต้องเริ่มก่อน"),
]
CONTRARY = [
    ("The integration tests do need a running database", "The integration tests do not need a running database"),
    ("单元测试需要先启动数据库服务才能运行", "单元测试不需要先启动数据库服务才能运行"),
    ("การทดสอบต้องเปิดฐานข้อมูลก่อนเสมอทุกครั้ง", "การทดสอบไม่ต้องเปิดฐานข้อมูลก่อนเสมอทุกครั้ง"),
]


@pytest.mark.parametrize(("old", "new"), SAME)
def test_what_says_the_same_is_the_same(old: str, new: str) -> None:
    assert (compare(old, new), compare(new, old)) == ("same", "same")


@pytest.mark.parametrize(("old", "new"), DIFFERENT)
def test_other_values_are_another_note(old: str, new: str) -> None:
    assert (compare(old, new), compare(new, old)) == ("different", "different")


@pytest.mark.parametrize(("old", "new"), CONTRARY)
def test_a_denial_is_the_contrary(old: str, new: str) -> None:
    assert (compare(old, new), compare(new, old)) == ("contrary", "contrary")


def test_more_words_make_the_fuller_note() -> None:
    old = "The integration tests need a running database and the broker"
    new = "The integration tests need a running database and the broker container"
    assert (compare(old, new), compare(new, old)) == ("fuller", "same")


WORDS = st.sampled_from(
    ["tests", "run", "with", "make", "the", "port", "server", "needs", "配置", "默认", "端口", "ทดสอบ"]
)
TEXTS = st.lists(WORDS, min_size=1, max_size=12).map(" ".join)
NUMBERS = st.integers(0, 99_999)


@settings(max_examples=60, deadline=None)
@given(TEXTS)
def test_a_text_is_the_same_as_itself_in_other_cases_blanks_and_signs(text: str) -> None:
    assert compare(text, f"  {text.upper().replace(' ', '   ')}. ") == "same"


@settings(max_examples=60, deadline=None)
@given(TEXTS, TEXTS)
def test_likeness_is_symmetric_but_for_which_is_fuller(one: str, other: str) -> None:
    there, back = compare(one, other), compare(other, one)
    assert {there, back} in ({"same"}, {"different"}, {"contrary"}, {"same", "fuller"})
    assert similarity(shingles(one), shingles(other)) == similarity(shingles(other), shingles(one))


@settings(max_examples=60, deadline=None)
@given(TEXTS, NUMBERS, NUMBERS, TEXTS)
def test_another_number_is_never_the_same_note(before: str, one: int, other: int, behind: str) -> None:
    if one != other:
        assert compare(f"{before} {one} {behind}", f"{before} {other} {behind}") == "different"


@settings(max_examples=60, deadline=None)
@given(TEXTS, TEXTS)
def test_a_denial_is_never_taken_for_the_same(before: str, behind: str) -> None:
    assert compare(f"{before} must {behind}", f"{before} must not {behind}") in ("contrary", "different")


@settings(max_examples=60, deadline=None)
@given(st.text(max_size=400), st.text(max_size=400))
def test_any_text_can_be_compared(one: str, other: str) -> None:
    assert compare(one, one) == "same"
    compare(one, other)
    subject_of("fact", one)
    assert plain(plain(one)) == plain(one)


@pytest.mark.parametrize(
    ("kind", "text", "subject"),
    [
        ("command", "Tests run with make QUARTZ", "command|tests"),
        ("command", "The tests run with tox", "command|tests"),
        ("fact", "The default port is 8080", "fact|default port"),
        ("fact", "Default port: 9090", "fact|default port"),
        ("fact", "DEFAULT_PORT = 9090", "fact|default_port"),
        ("fact", "默认端口是8080", "fact|默 认 端 口"),
        ("fact", "The API is slow", ""),
        ("fact", "src/main.py is generated by tools/gen.py", ""),
        ("gotcha", "Note: run make 2 times", ""),
        ("fact", "It is v1.2", ""),
        ("fact", "The default port is not 8080", ""),
        ("preference", "Prefer small commits", ""),
    ],
)
def test_subjects(kind: str, text: str, subject: str) -> None:
    assert subject_of(kind, text) == subject


def test_unspaced_scripts_have_letters_as_words() -> None:
    assert tokens("默认port是8080") == ["默", "认", "是", "port", "8080"]


@pytest.mark.parametrize(
    ("text", "source", "is_heard"),
    [
        ("Deploys always need the force flag", "x\n- Deploys   ALWAYS need the `force` flag.", True),
        ("Deploys always need the force flag", "Deploys need the force flag", False),
        ("make test", "run make test", False),
        ("部署前总是要先停止所有的后台服务", "注意：部署前总是要先停止所有的后台服务。", True),
        ("默认端口", "默认端口是8080", False),
        ("", "anything", False),
    ],
)
def test_sentences_of_others_are_recognised(text: str, source: str, is_heard: bool) -> None:
    assert is_in(text, ["other", source]) is is_heard
