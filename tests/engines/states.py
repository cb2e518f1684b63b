"""Puts the states of vectors.py on a server, and compares what is there with them."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import redis

from tests.engines.vectors import HASHES, State, Vector

TOKEN = b"of the lease that lapses"
MARK = re.compile(r"<([TUEF])([+-]\d+)>")


class Place:
    """A vector's pool on a server, from the moment when its first state is there."""

    def __init__(self, client: redis.Redis, namespace: str, vector: Vector) -> None:
        self.client = client
        self.vector = vector
        self.namespace = namespace
        self.root = f"{namespace}:pool:{{{vector.pool}}}"
        self.tracking = f"{namespace}:lease:{{{vector.pool}}}:"
        self.wake = f"{namespace}:wake:{{{vector.pool}}}"
        self._has_expiry_times = int(client.info("server")["redis_version"].split(".")[0]) >= 7  # type: ignore[index]
        self._subscriber = client.pubsub()
        channels = [self.wake, *(f"{self.wake}:{name}" for name in vector.listening)]
        self._subscriber.subscribe(*channels)
        for _ in channels:
            self._subscriber.get_message(timeout=5)
        self.start_us = self.now_us()
        self._write(vector.before)

    def now_us(self) -> int:
        seconds, micros = self.client.time()
        return seconds * 1_000_000 + micros

    def let_the_key_expire(self) -> None:
        """The event."""
        with self.client.pipeline() as pipeline:
            pipeline.execute_command("SELECT", self.vector.database)
            pipeline.set(self.tracking + self.vector.event, TOKEN, px=1)
            pipeline.execute_command("SELECT", 0)
            pipeline.execute()

    def has_expired(self) -> bool:
        """Whether the key has; by now it may be the next holder's."""
        with self.client.pipeline() as pipeline:
            pipeline.execute_command("SELECT", self.vector.database)
            pipeline.get(self.tracking + self.vector.event)
            pipeline.execute_command("SELECT", 0)
            return pipeline.execute()[1] != TOKEN

    def differences(self) -> list[str]:
        """How the server differs from the state after the event, a line each."""
        end_us = self.now_us()
        wanted, there = dict(self._flat(self.vector.after)), self._read()
        lines = [f"not there: {key}" for key in wanted.keys() - there.keys()]
        lines += [f"too much: {key} = {there[key]!r}" for key in there.keys() - wanted.keys()]
        lines += self._logged_differently()
        moments: set[int] = set()
        for key in wanted.keys() & there.keys():
            lines += self._unlike(key, wanted[key], there[key], moments)
        if len(moments) > 1 and any("<E" in text or "<F" in text for text in wanted.values()):
            lines.append(f"more than one moment: {sorted(moments)} ms")
        lines += [f"no time of the event: {moment}" for moment in moments if not self._within(moment, end_us)]
        return sorted(lines)

    def said_differently(self) -> list[str]:
        """How what was published differs from what should be. Call it once."""
        said = []
        while message := self._subscriber.get_message(timeout=0.05):
            said.append((_text(message["channel"]), _text(message["data"])))
        wanted = [(self._with_times(channel), self._with_times(text)) for channel, text in self.vector.said]
        if len(said) != len(wanted):
            return [f"published {said!r}, not {wanted!r}"]
        lines = []
        for (channel, text), (wanted_channel, wanted_text) in zip(said, wanted, strict=True):
            lines += self._unlike(wanted_channel, wanted_text, text, set())
            lines += [f"published on {channel}, not {wanted_channel}"] if channel != wanted_channel else []
        return lines

    def clean(self) -> None:
        self._subscriber.close()
        keys = self.client.keys(f"{self.namespace}:*")
        if keys:
            self.client.delete(*keys)

    def _write(self, state: State) -> None:
        with self.client.pipeline() as pipeline:
            for end, content in state.items():
                if isinstance(content, tuple):
                    value, expiry = (self._with_times(text) for text in content)
                    pipeline.execute_command("SET", self._key(end), value, "PXAT", expiry)
                    continue
                filled = {_bytes(name): _bytes(self._with_times(text)) for name, text in content.items()}
                if end in HASHES:
                    pipeline.hset(self._key(end), mapping=filled)  # type: ignore[arg-type]
                else:
                    pipeline.zadd(self._key(end), filled)  # type: ignore[arg-type]
            pipeline.execute()

    def _flat(self, state: State) -> Iterator[tuple[str, str]]:
        """Every value of a state by a path: key, and field or member."""
        for end, content in state.items():
            key = self._key(end)
            if isinstance(content, tuple):
                yield key, self._with_times(content[0])
                yield f"{key} expires", self._with_times(content[1]) if self._has_expiry_times else "yes"
                continue
            for name, text in content.items():
                yield f"{key} → {name}", self._with_times(text)

    def _read(self) -> dict[str, str]:
        found = {}
        for raw in self.client.keys(f"{self.namespace}:*"):
            key, kind = _text(raw), _text(self.client.type(raw))
            if kind == "hash":
                found |= {f"{key} → {_text(name)}": _text(value) for name, value in self.client.hgetall(raw).items()}
            elif kind == "zset":
                pairs = self.client.zrange(raw, 0, -1, withscores=True)
                found |= {f"{key} → {_text(name)}": f"{score:.17g}" for name, score in pairs}
            elif kind != "stream":
                found[key] = _text(self.client.get(raw))
                found[f"{key} expires"] = self._expiry(raw)
        return found

    def _logged_differently(self) -> list[str]:
        """Each lapse is in the log once: deadline, fence, since when, and owner, as the lease's record had them."""
        before = {name: dict(self.vector.before.get(name, {})) for name in ("", "leased")}
        after = dict(self.vector.after.get("leased", {}))
        wanted = {}
        for name, score in before["leased"].items():
            if after.get(name) != score:
                facts = before[""].get(f"r:{name}", "- 0 0 ").partition(" ")[2]
                wanted[name] = f"{self._with_times(score)} {self._with_times(facts)}"
        there: list[tuple[str, str]] = []
        for _, entry in self.client.xrange(f"{self.root}:log"):
            fields = [(_text(name), _text(value)) for name, value in entry.items()]
            if fields[0] != ("event", "lapse") or len(fields) > 51:
                return [f"logged {fields!r}"]
            there += fields[1:]
        return [] if sorted(there) == sorted(wanted.items()) else [f"logged {there!r}, not {wanted!r}"]

    def _expiry(self, key: bytes) -> str:
        if self._has_expiry_times:
            return str(self.client.execute_command("PEXPIRETIME", key))
        return "yes" if self.client.pttl(key) > 0 else "no"

    def _unlike(self, key: str, wanted: str, there: str, moments: set[int]) -> list[str]:
        """Compares one text, and collects the ms that its marks of the event stand for."""
        marks = MARK.findall(wanted)
        pattern = "".join(r"(\d+)" if MARK.fullmatch(part) else re.escape(part) for part in _parts(wanted))
        match = re.fullmatch(pattern, there, re.S)
        if not match:
            return [f"{key} is {there!r}, not {wanted!r}"]
        for (kind, offset), digits in zip(marks, match.groups(), strict=True):
            value = int(digits) - int(offset)
            moments.add(value if kind == "E" else value // 1000)
        return []

    def _within(self, moment_ms: int, end_us: int) -> bool:
        return self.start_us // 1000 <= moment_ms <= end_us // 1000

    def _with_times(self, text: str) -> str:
        def time(mark: re.Match[str]) -> str:
            if mark[1] in "EF":
                return mark[0]
            return str((self.start_us // 1000 if mark[1] == "T" else self.start_us) + int(mark[2]))

        return MARK.sub(time, text.replace("<wake>", self.wake))

    def _key(self, end: str) -> str:
        if end.startswith("lease:"):
            return self.tracking + end.removeprefix("lease:")
        return f"{self.root}:{end}" if end else self.root


def _parts(text: str) -> list[str]:
    """The text cut before and behind each mark."""
    return re.split(r"(<[EF][+-]\d+>)", text)


def _bytes(text: str) -> bytes:
    return text.encode("utf-8", "surrogateescape")


def _text(value: Any) -> str:
    return value.decode("utf-8", "surrogateescape") if isinstance(value, bytes) else str(value)
