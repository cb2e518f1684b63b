"""The checks and the keys, without any server. What the pool refuses is in tests/pool/test_refusals.py."""

from __future__ import annotations

import json
import math
import os
import re

import hypothesis.strategies as st
import pytest
from hypothesis import given

from relet import names

UTF8 = st.text(st.characters(codec="utf-8"))


def test_the_keys_share_one_hash_tag() -> None:
    keys = names.Keys("relet", "gpu")
    assert keys.root == b"relet:pool:{gpu}"
    assert keys.tracking == b"relet:lease:{gpu}:"


@pytest.mark.parametrize(
    ("ttl", "ms"),
    [
        (0.001, 1),
        (0.0014, 1),
        (0.0016, 2),
        (1, 1000),
        (0.1 + 0.2, 300),
        (29.9999, 30_000),
        (366 * 86400, 31_622_400_000),
    ],
)
def test_a_ttl_is_whole_milliseconds(ttl: float, ms: int) -> None:
    assert names.check_ttl(ttl) == ms
    assert type(names.check_ttl(ttl)) is int


@given(st.floats() | st.integers())
def test_any_number_is_a_ttl_in_its_bounds_or_a_value_error(ttl: float) -> None:
    if math.isfinite(ttl) and names.MIN_TTL_S <= ttl <= names.MAX_TTL_S:
        assert abs(names.check_ttl(ttl) - ttl * 1000) <= 0.5
        assert names.check_ttl(ttl) >= 1
    else:
        with pytest.raises(ValueError, match="a ttl is") as caught:
            names.check_ttl(ttl)
        assert repr(ttl)[:40] in str(caught.value)


@pytest.mark.parametrize(
    ("timeout", "expected"),
    [(None, None), (0, 0.0), (1, 1.0), (0.5, 0.5), (math.inf, None), (1e300, None), (10**400, None), (1e9, 1e9)],
)
def test_a_timeout(timeout: float | None, expected: float | None) -> None:
    assert names.check_timeout(timeout) == expected


@given(UTF8)
def test_any_text_is_a_resource_in_its_bounds_or_a_value_error(name: str) -> None:
    encoded = name.encode()
    is_good = 1 <= len(encoded) <= 512 and not re.search("[\x00-\x1f\x7f-\x9f]", name)
    if is_good:
        assert names.check_resource(name) == encoded
    else:
        with pytest.raises(ValueError, match="a resource's name"):
            names.check_resource(name)


@given(UTF8)
def test_any_text_is_a_pool_in_its_bounds_or_a_value_error(name: str) -> None:
    is_bad = any(c in "{}:" or c.isspace() or c < " " or "\x7f" <= c < "\xa0" for c in name)
    if 1 <= len(name) <= 128 and not is_bad:
        assert names.check_pool(name) == name
    else:
        with pytest.raises(ValueError, match="a pool's name"):
            names.check_pool(name)


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | UTF8,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(UTF8, inner, max_size=3),
    max_leaves=8,
)


@given(st.dictionaries(UTF8, json_values, max_size=4))
def test_attributes_round_trip_in_one_line(attributes: dict[str, object]) -> None:
    encoded = names.check_attributes("r1", attributes)
    assert b"\n" not in encoded, "a line feed ends the name in a grant"
    assert names.decode_attributes(encoded) == json.loads(json.dumps(attributes))


@pytest.mark.parametrize(("encoded", "decoded"), [(b"", {}), (b"{}", {}), (b"[1]", {}), (b'{"a":1}', {"a": 1})])
def test_attributes_are_an_object_whoever_wrote_them(encoded: bytes, decoded: dict[str, object]) -> None:
    assert names.decode_attributes(encoded) == decoded


def test_tokens_are_128_random_bits() -> None:
    tokens = {names.new_token() for _ in range(1000)}
    assert len(tokens) == 1000
    for token in tokens:
        assert names.check_token(token) == token.encode()
    assert len({token[:2] for token in tokens}) > 200
    assert len({token[-2:] for token in tokens}) > 200


def test_the_default_owner_leads_to_the_process(monkeypatch: pytest.MonkeyPatch) -> None:
    assert re.fullmatch(rf".+@.+:{os.getpid()}", names.default_owner().decode())
    names.check_owner(names.default_owner().decode())

    def nobody() -> str:
        raise KeyError("no such user")

    monkeypatch.setattr(names.getpass, "getuser", nobody)
    monkeypatch.setattr(names.socket, "gethostname", lambda: "h\n" + "ö" * 300)
    names._owner_of.cache_clear()
    try:
        owner = names.default_owner().decode()
        names.check_owner(owner)
        assert owner.startswith("?@hö")
        assert owner.endswith(f"ö:{os.getpid()}")
    finally:
        names._owner_of.cache_clear()


def test_a_long_value_is_shortened_in_a_message() -> None:
    with pytest.raises(ValueError, match=r"not 5000: 'aaaa.*… \(5002 characters\)") as caught:
        names.check_resource("a" * 5000)
    assert len(str(caught.value)) < 200


def test_a_message_cannot_write_to_the_terminal() -> None:
    for check in (names.check_resource, names.check_pool, names.check_owner):
        with pytest.raises(ValueError, match="control") as caught:
            check("\x1b[31m\x9b2J\u202eü")
        assert str(caught.value).isprintable()
