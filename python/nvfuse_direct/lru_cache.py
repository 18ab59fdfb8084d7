# SPDX-License-Identifier: BSD-3-Clause
"""LruFusionCache: reuses compiled fusions between definitions that are equal."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from ._C_DIRECT import LRUCache
from .definition import FusionDefinition


class LruFusionCache:
    """Decorator for functions that return a FusionDefinition.

    Equal definitions share one executor cache; the `max_fusions` most recently used ones are kept.
    The decorated function has stats() and num_fusions().
    """

    def __init__(self, max_fusions: int = 16384) -> None:
        self.cache = LRUCache(max_fusions=max_fusions)

    def __call__(self, func: Callable[..., FusionDefinition]) -> Callable[..., FusionDefinition]:
        @functools.wraps(func)
        def cached(*args: Any, **kwargs: Any) -> FusionDefinition:
            fd = func(*args, **kwargs)
            fd.fec = self.cache.cache_compile(fd.fusion)
            del fd._fusion
            return fd

        cached.stats = self.cache.stats  # type: ignore[attr-defined]
        cached.num_fusions = self.cache.num_fusions  # type: ignore[attr-defined]
        return cached
