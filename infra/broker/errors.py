"""Errors of the development broker. Each message is one sentence with its cure."""

from schemas.errors import CommandError


class BrokerError(CommandError):
    """Base of this package: the broker could not be started, asked or stopped. Show the sentence and stop."""


class JarError(BrokerError):
    """A jar cannot be had, or is not the one that was pinned."""


class PortTaken(BrokerError):
    """Another program took a port between our look and the broker's bind. Choose new ports and start again."""
