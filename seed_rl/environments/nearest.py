"""Finds the valid names closest to a mistyped one, for error messages."""

import difflib
from collections.abc import Iterable


def nearest(name: str, valid: Iterable[str], count: int = 3) -> list[str]:
    """Up to `count` of the valid names that resemble `name`, best first; letter case is ignored."""
    by_lower = {candidate.lower(): candidate for candidate in sorted(valid)}
    return [by_lower[match] for match in difflib.get_close_matches(name.lower(), by_lower, n=count)]
