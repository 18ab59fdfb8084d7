# SPDX-License-Identifier: BSD-3-Clause
"""Version of the API that this package offers."""

from __future__ import annotations

from typing import Any

from .version import _version_str


class _LazyVersion:
    """``packaging.version.Version``, imported when it is first used.

    Calling it makes a Version; isinstance() works through it.
    """

    @staticmethod
    def _class() -> type:
        from packaging.version import Version as PackagingVersion

        return PackagingVersion

    def __call__(self, text: str) -> Any:
        return self._class()(text)

    def __instancecheck__(self, instance: object) -> bool:
        return isinstance(instance, self._class())


Version = _LazyVersion()


def _release(text: str) -> tuple[int, ...]:
    """Numbers before the first part that is none ("0.2.36.dev0+git1" -> (0, 2, 36))."""
    numbers = []
    for part in text.split("+")[0].split("."):
        if not part.isdigit():
            break
        numbers.append(int(part))
    while numbers and numbers[-1] == 0:
        numbers.pop()
    return tuple(numbers)


class NvfuserVersion(str):
    """A version string that compares by its release, with strings and packaging Versions."""

    @staticmethod
    def _key(other: object) -> tuple[int, ...]:
        if isinstance(other, str):
            return _release(other)
        if type(other).__name__ == "Version" and hasattr(other, "release"):
            return _release(".".join(map(str, other.release)))
        raise ValueError(f"cannot compare a version with {type(other).__name__}")

    def __eq__(self, other: object) -> bool:
        return _release(self) == self._key(other)

    def __ne__(self, other: object) -> bool:
        return not self == other

    def __lt__(self, other: Any) -> bool:
        return _release(self) < self._key(other)

    def __le__(self, other: Any) -> bool:
        return _release(self) <= self._key(other)

    def __gt__(self, other: Any) -> bool:
        return _release(self) > self._key(other)

    def __ge__(self, other: Any) -> bool:
        return _release(self) >= self._key(other)

    def __hash__(self) -> int:
        return str.__hash__(self)


__version__ = NvfuserVersion(_version_str)
