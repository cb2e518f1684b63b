"""What the command line may show: passwords never, and nothing that a terminal would obey."""

from __future__ import annotations

import json

import pytest

from relet.cli.connection import masked, scrubbed
from relet.cli.output import as_json, duration, shown


@pytest.mark.parametrize(
    ("url", "expected"),
    [
        ("redis://localhost:6379/0", "redis://localhost:6379/0"),
        ("redis://h", "redis://h"),
        ("redis://[::1]:6379/0", "redis://[::1]:6379/0"),
        ("unix:///run/redis.sock?db=1", "unix:///run/redis.sock"),
        ("sentinel://a:1,b:2/main", "sentinel://a:1,b:2/main"),
        ("redis://user:hush@h:1/2", "redis://***@h:1/2"),
        ("redis://hush@h", "redis://***@h"),
        ("redis://:hu@sh@h", "redis://***@h"),
        ("redis://:hu/sh@h/0", "redis://***@h/0"),
        ("redis://:hu://sh@h/0", "redis://***@h/0"),
        ("redis://:hu?sh@h", "redis://***@…"),
        ("redis://:hush", "redis://…"),
        ("redis://h/0?password=hush", "redis://h/0"),
        ("redis://h/0?password=hu@sh", "redis://***@…"),
        (":hush", "…"),
        ("hush@h", "***@h"),
    ],
)
def test_a_url_is_shown_without_its_password(url: str, expected: str) -> None:
    assert masked(url) == expected


@pytest.mark.parametrize(
    ("url", "secret"),
    [
        ("redis://:hush-hush@h", "hush-hush"),
        ("redis://u:a%2Fb%40c@h", "a/b@c"),
        ("redis://u:a%2Fb%40c@h", "a%2Fb%40c"),
        ("redis://:hu@sh@h", "hu@sh"),
        ("redis://hush@h", "hush"),
        ("redis://h?db=1&password=hush%21", "hush!"),
        ("redis://h?password=two+words", "two words"),
        ("redis://h?sentinel_password=hush", "hush"),
    ],
)
def test_a_password_in_an_error_is_masked(url: str, secret: str) -> None:
    assert scrubbed(f"it said {secret} to me", url) == "it said *** to me"


def test_an_echoed_login_goes_even_where_it_is_cut_off() -> None:
    echo = "unknown command `HELLO`, with args beginning with: `3`, `AUTH`, `default`, `hush-hu"
    assert scrubbed(echo, "redis://:hush-hush@h") == "unknown command `HELLO`"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("gpu-0 [red]é 漢字", "gpu-0 [red]é 漢字"),
        ("\x1b[31m", "\\x1b[31m"),
        ("\x9b2J", "\\x9b2J"),
        ("a\u202eb\u2066", "a\\u202eb\\u2066"),
        ("a\nb\x7f\x00", "a\\nb\\x7f\\x00"),
        ("\ud800", "\\ud800"),
        ("\U000e0041", "\\U000e0041"),
    ],
)
def test_what_is_not_printable_is_escaped(text: str, expected: str) -> None:
    assert shown(text) == expected


def test_json_is_printable_ascii_and_says_the_same() -> None:
    value = {"é": ["\x1b\x7f\x9b\u202e", 1.5, None]}
    text = as_json(value)
    assert text.isascii()
    assert text.isprintable()
    assert json.loads(text) == value


def test_json_has_no_nan() -> None:
    assert json.loads(as_json({"a": [float("nan")], "b": {"c": float("inf")}, "d": 1})) == {
        "a": [None],
        "b": {"c": None},
        "d": 1,
    }


@pytest.mark.parametrize(
    ("seconds", "expected"),
    [
        (None, ""),
        (0, "0.0 s"),
        (29.94, "29.9 s"),
        (59.97, "1 min 00 s"),
        (60, "1 min 00 s"),
        (3599.9, "1 h 00 min"),
        (7500, "2 h 05 min"),
        (90_000, "1 d 01 h"),
    ],
)
def test_durations(seconds: float | None, expected: str) -> None:
    assert duration(seconds) == expected
