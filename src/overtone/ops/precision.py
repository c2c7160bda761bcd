"""Autocast as the operators see it: what it asks for, and how to leave it."""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext

import torch


def autocast_dtype(device: str) -> torch.dtype | None:
    """The dtype autocast asks for on this kind of device; None where it is off or unknown (meta)."""
    if torch.amp.is_autocast_available(device) and torch.is_autocast_enabled(device):
        return torch.get_autocast_dtype(device)
    return None


def without_autocast(device: str) -> AbstractContextManager[object]:
    """A context in which every product runs in the dtype of its operands."""
    return torch.autocast(device, enabled=False) if torch.amp.is_autocast_available(device) else nullcontext()
