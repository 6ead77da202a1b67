"""A number of things, as a sentence says it."""


def counted(number: float, thing: str) -> str:
    """1 model, 2 models, 12,000 models."""
    return f"{format(number, ',' if isinstance(number, int) else 'g')} {thing if number == 1 else f'{thing}s'}"
