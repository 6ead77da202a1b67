"""A number of things, as a sentence says it."""


def counted(number: float, thing: str) -> str:
    """1 model, 2 models."""
    return f"{number if isinstance(number, int) else format(number, 'g')} {thing if number == 1 else f'{thing}s'}"
