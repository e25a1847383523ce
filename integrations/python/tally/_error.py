"""The one exception of this package."""

from __future__ import annotations


class Error(RuntimeError):
    """An operation or a session failed.

    status       what happened, a word of docs/errors.md: "peer lost", "deadline", "mismatch", ...
    culprit      the rank to blame, or None
    inputs_gone  True: part of the result may have overwritten the inputs of an operation in place
    """

    def __init__(self, message: str, status: str = "internal", culprit: int | None = None,
                 inputs_gone: bool = False) -> None:
        super().__init__(message)
        self.status = status
        self.culprit = culprit
        self.inputs_gone = inputs_gone

    def __str__(self) -> str:
        return f"{self.status}: {super().__str__()}"

    def __reduce__(self):
        return type(self), (self.args[0], self.status, self.culprit, self.inputs_gone)
