"""Two pools as no deployment has them: each with every objective that a rule reads."""

from schemas.pools import Pool, Pools, Scaling
from schemas.topics import Catalogue, TopicSettings

POOLS = Pools(
    pools={
        "hopper": Pool(
            gpu_product="NVIDIA-H200",
            vram_bytes=141 << 30,
            price_usd_per_hour=4.0,
            budget_usd_per_month=6000.0,
            replicas_max=4,
            load_seconds=60.0,
            scaling=Scaling(wait_seconds=30.0, in_time_ratio=0.99),
        ),
        "ada": Pool(
            gpu_product="NVIDIA-L4",
            vram_bytes=24 << 30,
            price_usd_per_hour=0.8,
            replicas_max=2,
            load_seconds=45.0,
            scaling=Scaling(wait_seconds=50.0, in_time_ratio=0.9),
        ),
    }
)
CATALOGUE = Catalogue(TopicSettings(prefix="kiln"), POOLS)
