"""Stories of any process that works: admission, a GPU consumer, the external scaler."""

from tests.infra.rules.case import Case, Firing

_A = 'instance="a:1"'
_HOPPER = 'pool="hopper",instance="a:1"'

PROCESSES = (
    Case(
        "KilnNoProgress",
        "a consumer's client has died without a word",
        {
            f"kiln_gpu_stalled_seconds{{{_HOPPER}}}": "0 0 50 110",
            f"kiln_admission_stalled_seconds{{{_A}}}": "0x10",
        },
        2,
        [
            Firing(
                "a:1 has work, waits for nothing that it could name, and has not moved for 50s.",
                {"pool": "hopper", "instance": "a:1"},
            )
        ],
    ),
    Case(
        "KilnNoProgress",
        "admission stands",
        {'kiln_admission_stalled_seconds{instance="b:1"}': "0 0 46"},
        2,
        [
            Firing(
                "b:1 has work, waits for nothing that it could name, and has not moved for 46s.",
                {"instance": "b:1"},
            )
        ],
    ),
    Case("KilnNoProgress", "it stood and moved", {f"kiln_gpu_stalled_seconds{{{_HOPPER}}}": "0 40 5 30 0"}, 3),
    Case(
        "KilnLeasesNotOpen",
        "two indexes do not open",
        {
            f'kiln_gpu_indexes{{state="opening",{_HOPPER}}}': "0 2x9",
            f'kiln_admission_partitions{{state="opening",{_A}}}': "0x9",
        },
        3,
        [
            Firing(
                "a:1 has 2 partitions that it could not open for a minute; the work there stands.",
                {"pool": "hopper", "instance": "a:1"},
            )
        ],
        not_yet=1,
    ),
    Case("KilnLeasesNotOpen", "a rebalance", {f'kiln_gpu_indexes{{state="opening",{_HOPPER}}}': "0 2 0 0 1 0"}, 4),
    Case(
        "KilnProcessRestarts",
        "a consumer is started again and again",
        {
            f"process_start_time_seconds{{{_HOPPER}}}": "1x5 2x5 _ 3x5 4x5 _ 5x5 6x20",
            f"kiln_gpu_pictures_total{{{_HOPPER}}}": "0x5 0x5 _ 0x5 0x5 _ 0x5 0x20",
        },
        40,
        [Firing("a:1 was started again 5 times within an hour.", {"pool": "hopper", "instance": "a:1"})],
    ),
    Case(
        "KilnProcessRestarts",
        "the external scaler is, and says two things of its answers",
        {
            'process_start_time_seconds{instance="s:1"}': "1x5 2x5 3x5 4x5 5x20",
            'kiln_scaler_answers_total{method="GetMetrics",status="OK",instance="s:1"}': "0x40",
            'kiln_scaler_answers_total{method="GetMetrics",status="UNAVAILABLE",instance="s:1"}': "0x40",
        },
        40,
        [Firing("s:1 was started again 4 times within an hour.", {"instance": "s:1"})],
    ),
    Case(
        "KilnProcessRestarts",
        "a process that is not ours is",
        {'process_start_time_seconds{instance="c:1"}': "1x5 2x5 3x5 4x5 5x5 6x20"},
        40,
    ),
    Case(
        "KilnProcessRestarts",
        "a rolling upgrade",
        {
            f"process_start_time_seconds{{{_A}}}": "1x20 2x20",
            f"kiln_admission_repeats_total{{{_A}}}": "5x20 0x20",
        },
        40,
    ),
    Case(
        "KilnViewStale",
        "control is not heard of any more",
        {
            f'kiln_gpu_view_age_seconds{{view="control",{_HOPPER}}}': "1 1+60x10",
            f'kiln_admission_view_age_seconds{{view="control",{_A}}}': "1x10",
        },
        5,
        [
            Firing(
                "a:1 has heard nothing of control for 4m 1s: what was said since is not known there.",
                {"instance": "a:1", "view": "control"},
            )
        ],
        not_yet=2,
    ),
    Case(
        "KilnViewStale",
        "the external scaler hears nothing of a ledger",
        {'kiln_scaler_source_age_seconds{pool="hopper",source="ledger",instance="s:1"}': "1 1+60x10"},
        5,
        [
            Firing(
                "s:1 has heard nothing of ledger for 4m 1s: what was said since is not known there.",
                {"instance": "s:1", "view": "ledger"},
            )
        ],
    ),
    Case(
        "KilnViewStale",
        "the broker was started again",
        {
            f'kiln_gpu_view_age_seconds{{view="control",{_HOPPER}}}': "1 31 1 1 70 1 1",
            f'kiln_gpu_view_age_seconds{{view="cancels",{_HOPPER}}}': "50x10",
        },
        4,
    ),
)
