"""Why admission says no: each code with its cause, its cure and what bounds it. The docs have their tables from it."""

from collections.abc import Mapping
from dataclasses import dataclass

from admission.settings import AdmissionLimits
from schemas.codec import NESTED_MAX
from schemas.decision import DeadLetterReason, RejectionCode
from schemas.topics import REQUEST_BYTES_MAX


@dataclass(frozen=True, slots=True)
class Code:
    """`stages` are the modules of admission.stages that say it; none: reserved, and nothing is refused with it yet.

    A dead letter is said before the first stage. `limits` are fields of AdmissionLimits; `declared` says what else
    bounds it. `passes_later`: the same request, under a new request id, may enter without being changed.
    """

    cause: str
    cure: str
    stages: tuple[str, ...] = ()
    limits: tuple[str, ...] = ()
    declared: str = ""
    passes_later: bool = False


REJECTIONS: Mapping[RejectionCode, Code] = {
    "invalid_request": Code(
        "The body is not strict JSON although its name can be read (NaN, a key that stands twice, an integer of "
        "hundreds of digits, a lone surrogate); a field is unknown, missing, null or of another type; a text holds "
        "U+0000, nothing that can be seen, or a flood of marks; there is too much metadata; more images are asked for "
        "than allowed; the record's key is not the tenant.",
        "Correct the field that `field` names. Key records by their tenant, or send no key.",
        stages=("config", "decode", "limits"),
        limits=(
            "unseen_run_max",
            "metadata_entries_max",
            "metadata_key_bytes_max",
            "metadata_value_bytes_max",
            "images_max",
        ),
        declared="`max_images` of the config",
    ),
    "unsupported_schema": Code(
        "`schema_version` is not the integer 1.",
        "Send version 1, or upgrade admission before its producers.",
        stages=("limits",),
    ),
    "too_large": Code(
        "The record has too many headers, or its headers or all of it have too many bytes. A value that is larger than "
        "requests may be is a dead letter instead: it is not read.",
        "Send fewer bytes. Headers are not carried to the result; what is to come back belongs into `metadata`.",
        stages=("limits",),
        limits=("headers_max", "headers_bytes_max", "record_bytes_max"),
    ),
    "prompt_too_long": Code(
        "A prompt has too many code points, or too many bytes in UTF-8; characters that cannot be seen count, too. Or, "
        "where `prompt_tokens` says refuse, it has more tokens than its model reads.",
        "Shorten the prompt that `field` names.",
        stages=("limits", "tokens"),
        limits=(
            "prompt_tokens",
            "prompt_code_points_max",
            "prompt_bytes_max",
            "negative_prompt_code_points_max",
            "negative_prompt_bytes_max",
        ),
    ),
    "invalid_dimensions": Code(
        "The config draws larger pictures or longer videos than this deployment allows, or all pictures of the request "
        "together are too many pixels.",
        "Choose a smaller config, or ask for fewer images.",
        stages=("dimensions",),
        limits=("pixels_max", "family_pixels_factor_max", "frames_max", "video_seconds_max", "request_pixels_max"),
        declared="`width`, `height`, `frames` and `frames_per_second` of the config",
    ),
    "invalid_seed": Code(
        "The seed is not an integer from 0 to 2^53 - 1, or the seed of the last picture would be above that.",
        "Send a smaller seed, fewer images, or no seed: one is drawn then, and the result tells it.",
        stages=("limits",),
    ),
    "unknown_tenant": Code(
        "The tenant has no quota, and there is no default one.",
        "Correct the tenant, or ask the operators to add it.",
        stages=("tenant",),
        declared="`tenants` and `default` of tenants.yaml",
    ),
    "unknown_config": Code(
        "No config has this name, or it has no such channel.",
        "Choose one of those that the message lists.",
        stages=("config",),
        declared="the files in infra/configs, `kiln configs publish`",
    ),
    "config_version_mismatch": Code(
        "The config has no such version, and declares no other compatible with it.",
        "Choose one of the versions that the message lists, or name a channel.",
        stages=("config",),
        declared="`versions` and `compatible` of the config",
    ),
    "config_retired": Code(
        "The version of the config is retired, and no other is declared compatible with it. Or all versions of the "
        "channel are.",
        "Use the channel `stable`, or one of the versions that the message lists.",
        stages=("config",),
        declared="`retired` and `compatible` of the config, `kiln configs retire`",
    ),
    "policy_violation": Code(
        "A content policy objects to the prompt or the negative prompt, or fails on it. The message names the policy "
        "and a category, and quotes nothing.",
        "Change the text that `field` names. Where the category is `unjudged`, tell the operators: the policy failed.",
        stages=("policy",),
        limits=("policy_on_failure",),
        declared="the policies that KILN_ADMISSION_POLICY_PLUGINS names",
    ),
    "paused": Code(
        "The tenant, the config, this version of it or its pool is paused; what was accepted before still runs.",
        "Send it again under a new request id after `retry_after_seconds`; where there is none, once it is resumed.",
        stages=("paused",),
        declared="`kiln pause`",
        passes_later=True,
    ),
    "exceeds_vram": Code(
        "The config needs more memory than a GPU of its pool has.",
        "Choose a smaller config.",
        stages=("memory",),
        declared="`price.vram_bytes` of the config, `vram_bytes` of its pool",
    ),
    "deadline_infeasible": Code(
        "The deadline has passed, or is nearer than one picture takes after the work that waits before it, with as "
        "many GPUs as the pool may have. A deadline that is too far away is not refused: it is shortened.",
        "Send a later deadline, or none.",
        stages=("deadline",),
        limits=("default_deadline_seconds", "deadline_seconds_max"),
        declared="`price.gpu_seconds` of the config, `replicas_max` of its pool",
    ),
    "rate_limited": Code(
        "The tenant, or the key of it that asks, has used up what it may have: requests or GPU-seconds, at once, a day "
        "or a month (UTC). The message names the meter that keeps the request out the longest. What is refused costs "
        "nothing, and a repeat is free.",
        "Send it again under a new request id after `retry_after_seconds`, with `retry_of`. Where there is none, the "
        "request costs more GPU-seconds than the meter ever has: ask for fewer images or a cheaper config.",
        stages=("quota",),
        limits=("price_factor_max",),
        declared="the quota of the tenant and its keys in tenants.yaml, `price.gpu_seconds` of the config",
        passes_later=True,
    ),
    "overloaded": Code(
        "More work waits for the pool than all GPUs that it may have can do in good time.",
        "Send it again under a new request id after `retry_after_seconds`, with `retry_of`. A config that declares a "
        "cheaper sibling is degraded to it first where the request says `may_degrade`.",
        stages=("overload",),
        limits=("degrade_wait_seconds", "refuse_wait_seconds"),
        declared="`degrade_wait_seconds`, `refuse_wait_seconds` and `replicas_max` of the pool",
        passes_later=True,
    ),
    "pool_unavailable": Code(
        "The pool of the config is not declared, or its work topics are not there.",
        "Tell the operators; `kiln topics create` creates what is declared. Then send it again under a new request id.",
        stages=("config", "route"),
        declared="pools.yaml, `pool` of the config",
        passes_later=True,
    ),
}

DEAD_LETTERS: Mapping[DeadLetterReason, Code] = {
    "malformed": Code(
        "No name can be read: there is no value; it is larger than any request may be, no UTF-8, no JSON object, "
        "nested too deeply, or its tenant or request id is missing, stands twice or has another form. Or the record "
        "could not be read at all, or not be brought to its tenant's partition; or it asks for a cancel and is not "
        "exactly that.",
        "Correct the producer; `kiln submit` writes records that can be read. A stored request cannot be deleted by a "
        "record without a value: send a cancel.",
        declared=f"a value of {REQUEST_BYTES_MAX} bytes, {NESTED_MAX} levels",
    ),
    "unproven": Code(
        "The tenant must sign its requests, and this one is not signed, or not with a key of it, or not what came, or "
        "too long before; or its record's key, headers or size, of which a signature says nothing, are not as they "
        "must be. Or it came through another tenant's topic. It is no event of that tenant and takes no request id.",
        "Sign as docs/admission.md says and send it again; the request id is free. Ask the operators for a key.",
        limits=("signature_tolerance_seconds",),
        declared="`signed` and `topic` of the tenant in tenants.yaml, KILN_ADMISSION_SERVICE_SIGNING_KEYS",
    ),
    "conflicting_duplicate": Code(
        "Another payload came under this request id within the window. The first one stands; `kiln-first-offset` says "
        "where it is.",
        "Send a change under a new request id, with `retry_of`. A retry must be the same payload; how it is spelt as "
        "JSON does not matter.",
        limits=("dedupe_window_seconds",),
    ),
}


def bounds(code: Code) -> tuple[str, ...]:
    """What bounds a code: each limit by the name of its variable with its default, then what else is declared."""
    fields = AdmissionLimits.model_fields
    prefix = AdmissionLimits.model_config["env_prefix"]
    limits = tuple(f"`{prefix}{name.upper()}` ({fields[name].default})" for name in code.limits)
    return (*limits, code.declared) if code.declared else limits
