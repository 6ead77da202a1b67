"""Families that run step by step, a file each. A family that is not here runs in the pipeline engine."""

from collections.abc import Mapping

from gpu_consumer.engine.stepwise.families.animatediff import ANIMATEDIFF
from gpu_consumer.engine.stepwise.families.base import StepFamily
from gpu_consumer.engine.stepwise.families.sd3 import SD3
from gpu_consumer.engine.stepwise.families.sd15 import SD15
from gpu_consumer.engine.stepwise.families.sdxl import SDXL

STEP_FAMILIES: Mapping[str, StepFamily] = {
    "StableDiffusionPipeline": SD15,
    "StableDiffusionXLPipeline": SDXL,
    "StableDiffusion3Pipeline": SD3,
    "AnimateDiffPipeline": ANIMATEDIFF,
}
