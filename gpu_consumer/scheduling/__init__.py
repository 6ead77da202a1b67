"""Which pictures run next. Pure: every call is given the time."""
