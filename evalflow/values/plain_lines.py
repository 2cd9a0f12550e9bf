"""Values of JSON as people read them: lines of names and values, without brackets and quotes."""

from __future__ import annotations

from evalflow.values.jsonvalues import is_list, is_mapping


def in_lines(value: object) -> str:
    """A value as lines; what is within another is indented, and null and empty values are left out.

    Example:
        >>> print(in_lines([{"role": "user", "content": "Hi"}, {"role": "assistant", "content": ["a", True]}]))
        role: user
        content: Hi
        <BLANKLINE>
        role: assistant
        content:
          a
          yes
    """
    if isinstance(value, bool):
        return "yes" if value else "no"
    if is_mapping(value):
        return "\n".join(_named(name.replace("_", " "), one) for name, one in value.items() if not _is_empty(one))
    if is_list(value):
        apart = "\n\n" if any(is_mapping(one) for one in value) else "\n"
        return apart.join(in_lines(one) for one in value)
    return "" if value is None else str(value)


def _named(name: str, value: object) -> str:
    lines = in_lines(value)
    if is_mapping(value) or is_list(value):
        lines = "".join(f"\n  {line}" for line in lines.splitlines())
        return f"{name}:{lines}"
    return f"{name}: {lines}"


def _is_empty(value: object) -> bool:
    return value is None or value == "" or value == [] or value == {}
