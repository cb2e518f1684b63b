"""gears/reclaim.py without RedisGears: only its three globals are bound to a real server.

A test plays RedisGears: it feeds the handler the expired events that the server sent as notifications.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import redis

from relet.engines.gears1 import source
from tests.servers import Server

SETTING = "notify-keyspace-events"


class Host:
    """Runs reclaim.py for one namespace, as the server would with RedisGears: always in database 0, whichever
    ``database`` the events are from. A context manager, which sends the server's notifications on meanwhile."""

    def __init__(self, server: Server, namespace: str, database: int = 0) -> None:
        self.client = server.client(decode_responses=True)
        before: dict[str, str] = self.client.config_get(SETTING)  # type: ignore[assignment]
        self._before = before[SETTING]
        self.client.config_set(SETTING, "Ex")
        self.subscriber = server.client().pubsub()
        self.subscriber.subscribe(f"__keyevent@{database}__:expired")
        self.subscriber.get_message(timeout=5)
        self.registered: dict[str, Any] = {}
        self.log: list[str] = []
        self.calls: list[tuple[Any, ...]] = []
        self.handled = 0
        bound = {"GB": self._builder, "execute": self._execute, "log": self._log}
        self.module: dict[str, Any] = {**bound}
        exec(compile(source(namespace), "reclaim.py", "exec"), self.module)

    def handle(self, key: str | bytearray) -> None:
        self.registered["handler"]({"event": "expired", "key": key})

    def pump(self) -> int:
        """Hands over the events that have come; answers how many there were so far."""
        while message := self.subscriber.get_message(ignore_subscribe_messages=True, timeout=0.01):
            try:
                key: str | bytearray = message["data"].decode()
            except UnicodeDecodeError:
                key = bytearray(message["data"])
            prefix = self.registered["prefix"].rstrip("*")
            if message["data"].startswith(prefix.encode()):
                self.handle(key)
                self.handled += 1
        return self.handled

    def __enter__(self) -> Host:
        return self

    def __exit__(self, *_: object) -> None:
        self.subscriber.close()
        self.client.config_set(SETTING, self._before)
        self.client.close()

    def _log(self, text: str, level: str) -> None:
        self.log.append(f"{level}: {text}")

    def _execute(self, *command: Any) -> Any:
        self.calls.append(command)
        if command[0] == "RG.DUMPREGISTRATIONS":
            return []
        try:
            return self.client.execute_command(*command)
        except redis.exceptions.NoScriptError as error:  # redis-py leaves the code out, RedisGears does not
            raise RuntimeError(f"NOSCRIPT {error}") from None

    def _builder(self, reader: str, desc: str) -> Any:
        host = self

        class Builder:
            def foreach(self, handler: Callable[[dict[str, Any]], None]) -> Builder:
                host.registered["handler"] = handler
                return self

            def register(self, **options: Any) -> None:
                host.registered.update(options, reader=reader, desc=desc)

        return Builder()
