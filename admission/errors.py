"""Errors of admission. A refused request is a value, never an error: these end the opening of a partition."""


class AdmissionError(Exception):
    """Base of this package."""


class StateRefused(AdmissionError):
    """The logs do not hold what the window needs, so no honest decision is possible. Stop; a person must look.

    Opening again with `accept_loss` goes on with what is there.
    """
