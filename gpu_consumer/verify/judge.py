"""What the comparison comes to. Pure."""

from dataclasses import dataclass
from typing import Literal

from gpu_consumer.verify.levels import Unreadable, apart
from schemas.codec import sha256_hex
from schemas.result import Artifact, Environment

Verdict = Literal["identical", "within tolerance", "different", "cannot"]


@dataclass(frozen=True, slots=True)
class Judgement:
    verdict: Verdict
    sentence: str

    def __str__(self) -> str:
        return f"{self.verdict}: {self.sentence}"


def judge(artifact: Artifact, stored: bytes | str, drawn: bytes | str, tolerance_levels: int) -> Judgement:
    """Of one picture. `stored` is what lies in the store, `drawn` what was drawn now, or each why there is none.

    What lies there must first be what the result says; then what was drawn must be that, byte for byte, or be at most
    `tolerance_levels` of 255 from it in every channel of every pixel.
    """
    if isinstance(stored, bytes) and sha256_hex(stored) != artifact.sha256:
        again = isinstance(drawn, bytes) and sha256_hex(drawn) == artifact.sha256
        return Judgement(
            "different",
            f"what lies at {artifact.uri} is not what the result names, {artifact.sha256}: its SHA-256 is "
            f"{sha256_hex(stored)}{'; what was drawn again is' if again else ''}",
        )
    if isinstance(drawn, str):
        return Judgement("cannot", f"it could not be drawn again: {drawn}")
    if sha256_hex(drawn) == artifact.sha256:
        note = "" if isinstance(stored, bytes) else f"; only the result was compared, for {stored}"
        return Judgement("identical", f"SHA-256 {artifact.sha256}{note}")
    if isinstance(stored, str):
        return Judgement("cannot", f"its bytes differ, and nothing tells by how much: {stored}")
    return _measured(stored, drawn, artifact.content_type, tolerance_levels)


def _measured(stored: bytes, drawn: bytes, content_type: str, tolerance_levels: int) -> Judgement:
    try:
        levels = apart(stored, drawn, content_type)
    except Unreadable as error:
        return Judgement("different", str(error))
    if levels is None:
        return Judgement("different", "it has another size or number of frames")
    verdict: Verdict = "within tolerance" if levels.most <= tolerance_levels else "different"
    return Judgement(verdict, f"{levels}; the tolerance is {tolerance_levels}")


def differences(recorded: Environment, here: Environment) -> list[str]:
    """What is not as it was, one clause each. The cards of one product are alike: their ids may differ."""
    found = []
    if recorded.device != here.device:
        found.append(f"it was drawn on {recorded.device}, and here is {here.device}")
    for name in sorted({*recorded.libraries, *here.libraries}):
        then, now = recorded.libraries.get(name), here.libraries.get(name)
        if then != now:
            found.append(f"{name} was {then or 'not there'}, and is {now or 'not there'} here")
    return found
