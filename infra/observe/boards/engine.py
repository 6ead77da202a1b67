"""For who looks after cards and models: is a card busy with pictures, and what does it wait for?"""

from infra.observe.panel import ASLEEP, INSTANCE, POOL, RATE, UNDRAWN, Board, Panel, Query

_WHICH = 'pool=~"$pool",instance=~"$instance"'
_NO_CARD = "NVML tells of no card here"

BOARD = Board(
    name="engine",
    title="promptkiln: engines",
    description="What each engine does with its card.",
    variables=(POOL, INSTANCE),
    panels=(
        Panel(
            title="Pictures a second",
            description="That the engine finished, without padding.",
            unit="ops",
            idle=ASLEEP,
            stacked=True,
            queries=(Query(f"sum by (instance) (rate(kiln_gpu_pictures_total{{{_WHICH}}}[{RATE}]))", "{{instance}}"),),
        ),
        Panel(
            title="Batch fill",
            description="The filled share of the slots of what ran. Low with work waiting: too many kinds, or a batch "
            "that waits.",
            unit="percentunit",
            idle="nothing runs",
            queries=(
                Query(
                    f'sum by (instance) (rate(kiln_gpu_slot_seconds_total{{{_WHICH},state="filled"}}[{RATE}])) '
                    f"/ (sum by (instance) (rate(kiln_gpu_slot_seconds_total{{{_WHICH}}}[{RATE}])) > 0)",
                    "{{instance}}",
                ),
            ),
        ),
        Panel(
            title="A step",
            description="The median of the last denoising steps. Ten times as long without a sign of life, and the "
            "engine is killed.",
            unit="s",
            idle="no step was made yet",
            queries=(Query(f"max by (instance) (kiln_gpu_step_seconds{{{_WHICH}}}) > 0", "{{instance}}"),),
        ),
        Panel(
            title="Where a picture's time goes",
            description="The mean a stage, and of storing a job.",
            unit="s",
            idle=UNDRAWN,
            stacked=True,
            queries=(
                Query(
                    f"sum by (stage) (rate(kiln_gpu_stage_seconds_sum{{{_WHICH}}}[{RATE}])) "
                    f"/ (sum by (stage) (rate(kiln_gpu_stage_seconds_count{{{_WHICH}}}[{RATE}])) > 0)",
                    "{{stage}}",
                ),
            ),
        ),
        Panel(
            title="From slot to encoded",
            description="95 % of the pictures took less.",
            unit="s",
            idle=UNDRAWN,
            queries=(
                Query(
                    "histogram_quantile(0.95, "
                    f"sum by (le, lane) (rate(kiln_gpu_run_seconds_bucket{{{_WHICH}}}[{RATE}]))) >= 0",
                    "{{lane}}",
                ),
            ),
        ),
        Panel(
            title="Memory, as the engine sees it",
            description="Allocated, reserved by the allocator, predicted for what runs, free on the device, and all of "
            "it.",
            unit="bytes",
            idle=ASLEEP,
            queries=(Query(f"sum by (instance, kind) (kiln_gpu_memory_bytes{{{_WHICH}}})", "{{instance}} {{kind}}"),),
        ),
        Panel(
            title="Fragmentation",
            description="The share of reserved memory that is not allocated.",
            unit="percentunit",
            idle=ASLEEP,
            queries=(
                Query(f"max by (instance) (kiln_gpu_memory_fragmentation_ratio{{{_WHICH}}}) >= 0", "{{instance}}"),
            ),
        ),
        Panel(
            title="Models loaded within an hour",
            description="Above 20, KilnSwapRate tells: more models than fit, or none placed.",
            unit="short",
            idle=ASLEEP,
            queries=(Query(f"max by (instance) (instance:kiln_model_loads:increase1h{{{_WHICH}}})", "{{instance}}"),),
        ),
        Panel(
            title="The last start",
            description="Seconds a stage, from spawn until warm. Probes and scaling count on the sum.",
            unit="s",
            idle=ASLEEP,
            stacked=True,
            queries=(
                Query(f"max by (instance, stage) (kiln_gpu_start_seconds{{{_WHICH}}})", "{{instance}} {{stage}}"),
            ),
        ),
        Panel(
            title="The card at work",
            description="The highest utilisation in the window of a scrape: time with a kernel running.",
            unit="percentunit",
            queries=(Query(f"max by (instance) (kiln_gpu_card_utilisation_peak_ratio{{{_WHICH}}})", "{{instance}}"),),
            empty=_NO_CARD,
        ),
        Panel(
            title="The card's temperature",
            description="The highest in the window. What it throttles for: the next panel.",
            unit="celsius",
            queries=(Query(f"max by (instance) (kiln_gpu_card_temperature_peak_celsius{{{_WHICH}}})", "{{instance}}"),),
            empty=_NO_CARD,
        ),
        Panel(
            title="Held down",
            description="The share of the time that the card's clock was held down, by reason.",
            unit="percentunit",
            queries=(
                Query(
                    f"sum by (instance, reason) (rate(kiln_gpu_card_throttled_seconds_total{{{_WHICH}}}[{RATE}]))",
                    "{{instance}} {{reason}}",
                ),
            ),
            empty=_NO_CARD,
        ),
    ),
)
