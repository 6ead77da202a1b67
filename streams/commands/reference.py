"""How a configuration is named at the command line."""

from schemas.reference import config_ref

__all__ = ["config_ref"]
