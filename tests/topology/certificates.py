"""Certificates for one test run: an authority, a server on 127.0.0.1, a client, and an authority that nobody knows."""

from __future__ import annotations

import subprocess
from pathlib import Path

_DAYS = "2"
_BY_AUTHORITY = "basicConstraints=CA:FALSE\nsubjectAltName=IP:127.0.0.1,DNS:localhost\n"


def make(folder: Path) -> None:
    """Writes ca.crt, stranger.crt, server.crt, client.crt, and a .key to each. Takes the program `openssl`."""
    for authority in ("ca", "stranger"):
        _openssl(
            folder, "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", _DAYS, "-subj", f"/CN={authority}",
            "-keyout", f"{authority}.key", "-out", f"{authority}.crt",
        )  # fmt: skip
    (folder / "extensions").write_text(_BY_AUTHORITY)
    for name in ("server", "client"):
        _openssl(
            folder, "req", "-newkey", "rsa:2048", "-nodes", "-subj", f"/CN={name}", "-keyout", f"{name}.key",
            "-out", f"{name}.csr",
        )  # fmt: skip
        _openssl(
            folder, "x509", "-req", "-in", f"{name}.csr", "-CA", "ca.crt", "-CAkey", "ca.key", "-CAcreateserial",
            "-days", _DAYS, "-extfile", "extensions", "-out", f"{name}.crt",
        )  # fmt: skip


def _openssl(folder: Path, *arguments: str) -> None:
    result = subprocess.run(
        ["openssl", *arguments], cwd=folder, capture_output=True, text=True, timeout=60, check=False
    )
    assert result.returncode == 0, f"openssl {' '.join(arguments)}: {result.stderr}"
