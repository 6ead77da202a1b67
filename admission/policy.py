"""What a content policy is: it reads a text and says nothing, or why the text may not be drawn."""

from dataclasses import dataclass
from functools import cached_property
from typing import Protocol

from admission.text import normalised


@dataclass(frozen=True)
class PolicyText:
    """What is judged: who asks, with which config (name@version), and the two texts as their sender wrote them.

    `prompt_normalised` and `negative_prompt_normalised` are the same in one spelling; see admission.text.
    """

    tenant: str
    config: str
    prompt: str
    negative_prompt: str = ""

    @cached_property
    def prompt_normalised(self) -> str:
        return normalised(self.prompt)

    @cached_property
    def negative_prompt_normalised(self) -> str:
        return normalised(self.negative_prompt)


@dataclass(frozen=True, slots=True)
class PolicyAnswer:
    """A text is refused. `category` is told to its sender, and so is `field`: prompt or negative_prompt."""

    category: str
    field: str = "prompt"


class Policy(Protocol):
    """`judge` is called in the loop that decides, once a request: it computes, quickly, and waits for nothing. The
    same text must get the same answer in every process of a deployment.

    What a policy needs from elsewhere it follows by itself, and while it cannot judge without it `problem` says why:
    nothing is decided then, and nothing refused. What judge() raises is about this one text; a setting says what
    becomes of that.

    One that has `refresh()` besides is asked every few seconds, in a thread, to read again what it was made of. It may
    block. What it raises is told, and the policy goes on as it was.
    """

    @property
    def problem(self) -> str | None: ...

    def judge(self, text: PolicyText) -> PolicyAnswer | None: ...
