"""Made-up values for trying templates. The limited process that renders templates imports this module."""

from __future__ import annotations

from collections.abc import Iterator

_OF_JINJA = ("alters_data", "jinja_pass_arg", "unsafe_callable")
"""Attributes that Jinja reads from callable objects."""


class AnyValues(dict[str, object]):
    """A map that has a value under every key."""

    def __init__(self, value: object) -> None:
        super().__init__()
        self._value = value

    def __missing__(self, key: str) -> object:
        return self._value

    def get(self, key: str, default: object = None) -> object:
        return self._value


class UnknownText(str):
    """A text that supports the operations of any type."""

    __slots__ = ()

    def __getattr__(self, name: str) -> UnknownText:
        if name.startswith("_") or name in _OF_JINJA:
            raise AttributeError(name)
        return self

    def __iter__(self) -> Iterator[str]:
        return iter((self, self))

    def _same(self, *_: object, **__: object) -> UnknownText:
        return self

    def _yes(self, _: object) -> bool:
        return True

    def __int__(self) -> int:
        return 1

    def __float__(self) -> float:
        return 1.0

    def __round__(self, _: int = 0) -> int:
        return 1

    __index__ = __int__
    __getitem__ = __call__ = _same  # pyright: ignore
    __add__ = __radd__ = __sub__ = __rsub__ = __mul__ = __rmul__ = __mod__ = __rmod__ = _same  # pyright: ignore
    __truediv__ = __rtruediv__ = __floordiv__ = __rfloordiv__ = __neg__ = __abs__ = _same
    __lt__ = __le__ = __gt__ = __ge__ = _yes  # pyright: ignore
