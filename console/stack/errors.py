"""Why the embedded stack could not do what was asked: one clear text for a person at a shell."""

from __future__ import annotations


class StackError(Exception):
    """The text says what happened, to what, and what to do next."""


class ProgramMissing(StackError):
    """A program that a service needs is not on this machine."""
