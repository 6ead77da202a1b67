"""May it be drawn? Every policy of the deployment reads it; the first that objects decides."""

from admission.draft import Draft, Refusal, StageResult
from admission.policy import Policy, PolicyAnswer, PolicyText
from admission.state import State
from admission.world import World

_UNJUDGED = PolicyAnswer("unjudged")


def policy(draft: Draft, state: State, world: World) -> StageResult:
    """A refusal names the policy and a category, and quotes nothing: what a list holds is not told to those who try
    it out. A policy that fails on a text fails on it again, so the text is not held: a setting refuses it or not."""
    del state
    if not world.policies:
        return None
    request = draft.request
    text = PolicyText(draft.tenant, draft.config.label, request.prompt, request.negative_prompt)
    for name, each in world.policies.items():
        answer = _asked(each, text)
        if answer is None or (answer is _UNJUDGED and world.limits.policy_on_failure == "pass"):
            continue
        if answer is _UNJUDGED:
            problem, cure = "could not be judged by", "change it, or tell the operators, and send it"
        else:
            problem, cure = "is against", "change it and send it"
        return Refusal(
            "policy_violation",
            f"{answer.field} {problem} the content policy {name!r} ({answer.category}); {cure} under a new request id",
            answer.field,
        )
    return None


def _asked(policy: Policy, text: PolicyText) -> PolicyAnswer | None:
    """Whatever a plug-in raises, or answers that is no answer, ends no more than its own word on this text."""
    try:
        answer: object = policy.judge(text)
    except Exception:
        return _UNJUDGED
    return answer if answer is None or isinstance(answer, PolicyAnswer) else _UNJUDGED
