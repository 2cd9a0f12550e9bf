"""Passwords hashed at the least cost that argon2 takes: at the real one, a test that signs in is mostly hashing."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from pwdlib import PasswordHash
from pwdlib.hashers.argon2 import Argon2Hasher


def hash_cheaply(patch: Callable[[Any, str, Any], None]) -> None:
    """`patch` is `setattr`, or that of a MonkeyPatch."""
    cheap = PasswordHash((Argon2Hasher(time_cost=1, memory_cost=8, parallelism=1),))
    patch(PasswordHash, "recommended", lambda: cheap)
