"""The one exception a user is meant to see: what is wrong, what was expected, what to do."""

from __future__ import annotations

import difflib
from collections.abc import Iterable


class UserError(Exception):
    """A mistake or a circumstance the user can act on; the CLI prints it as one line and exits 2."""


def unknown_name(kind: str, name: str, known: Iterable[str]) -> UserError:
    """An error for a name that is not registered: names the nearest valid one and lists the rest."""
    names = sorted(map(str, known))
    near = difflib.get_close_matches(str(name), names, n=1, cutoff=0.4)
    hint = f" Did you mean {near[0]!r}?" if near else ""
    return UserError(f"{kind}: {name!r} is not known.{hint} Allowed: {', '.join(names) or 'none'}.")
