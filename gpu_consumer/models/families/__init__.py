"""What differs between families of pipelines, a file each. The name a config gives one is its entry here."""

from collections.abc import Mapping

from gpu_consumer.models.families.animatediff import ANIMATEDIFF
from gpu_consumer.models.families.base import Family
from gpu_consumer.models.families.schedulers import SCHEDULERS, fresh_scheduler
from gpu_consumer.models.families.sd3 import SD3
from gpu_consumer.models.families.sd15 import SD15
from gpu_consumer.models.families.sdxl import SDXL

__all__ = ["FAMILIES", "SCHEDULERS", "Family", "fresh_scheduler"]

FAMILIES: Mapping[str, Family] = {
    "sd15": SD15,
    "sdxl": SDXL,
    "sd3": SD3,
    "animatediff": ANIMATEDIFF,
}
