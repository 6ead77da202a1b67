"""A busy machine makes an example slow, and that says nothing of what it shows."""

from hypothesis import settings

settings.register_profile("any machine", deadline=None)
settings.load_profile("any machine")
