"""Stories of admission."""

from tests.infra.rules.case import Case, Firing

_A = 'instance="a:1"'
_HOPPER = 'pool="hopper",instance="a:1"'
_DECISIONS = "kiln_admission_decisions_total"

ADMISSION = (
    Case(
        "KilnAdmissionAbsent",
        "nobody tells of partitions",
        {"kiln_gpu_paused": "0x10"},
        3,
        [
            Firing(
                "No admission process has been scraped for two minutes (expected: 1 or more; missing: 1). Requests "
                "wait, and every alert that reads admission is silent."
            )
        ],
        not_yet=1,
    ),
    Case("KilnAdmissionAbsent", "one process is there", {'kiln_admission_partitions{state="open"}': "4x10"}, 9),
    Case(
        "KilnAdmissionAbsent",
        "it was gone for a minute",
        {'kiln_admission_partitions{state="open"}': "4 stale 4x10"},
        1,
    ),
    Case(
        "KilnRequestsStand",
        "a topic is missing, and admission waits for it by name",
        {
            f'kiln_admission_lag{{partition="2",{_A}}}': "5x20",
            f'kiln_admission_next_offset{{partition="2",{_A}}}': "100x20",
            f"kiln_admission_stalled_seconds{{{_A}}}": "0x20",
        },
        12,
        [
            Firing(
                "requests[2] has 5 undecided requests at a:1, and none was decided for ten minutes.",
                {"partition": "2", "instance": "a:1"},
            )
        ],
        not_yet=4,
    ),
    Case(
        "KilnRequestsStand",
        "a backlog that is worked on, and a partition without requests",
        {
            f'kiln_admission_lag{{partition="2",{_A}}}': "500x20",
            f'kiln_admission_next_offset{{partition="2",{_A}}}': "0x4 50x4 100x4 150x8",
            f'kiln_admission_lag{{partition="3",{_A}}}': "0x20",
            f'kiln_admission_next_offset{{partition="3",{_A}}}': "7x20",
        },
        12,
    ),
    Case(
        "KilnRejectionSpike",
        "half of the requests are refused, most for their quota",
        {
            f'{_DECISIONS}{{verdict="accepted",code="",{_A}}}': "0+10x20",
            f'{_DECISIONS}{{verdict="rejected",code="rate_limited",{_A}}}': "0+8x20",
            f'{_DECISIONS}{{verdict="rejected",code="unknown_config",{_A}}}': "0+2x20",
        },
        15,
        [Firing("50% of the requests of ten minutes were refused, most of them as rate_limited.")],
        not_yet=2,
    ),
    Case(
        "KilnRejectionSpike",
        "a tenth is refused",
        {
            f'{_DECISIONS}{{verdict="accepted",code="",{_A}}}': "0+90x20",
            f'{_DECISIONS}{{verdict="rejected",code="rate_limited",{_A}}}': "0+10x20",
        },
        15,
    ),
    Case(
        "KilnRejectionSpike",
        "all are refused, and they are few",
        {f'{_DECISIONS}{{verdict="rejected",code="unknown_config",{_A}}}': "0+1x20"},
        15,
    ),
    Case(
        "KilnDeadLetters",
        "one record cannot be read",
        {f'kiln_gpu_dead_letters_total{{reason="malformed",{_HOPPER}}}': "0x4 1x20"},
        10,
        [
            Firing(
                "Within fifteen minutes a GPU consumer dead-lettered 1 record as malformed, for which nobody gets a "
                "result.",
                {"by": "a GPU consumer", "reason": "malformed"},
            )
        ],
    ),
    Case(
        "KilnDeadLetters",
        "there were some long ago",
        {f'kiln_admission_dead_letters_total{{reason="malformed",{_A}}}': "0 7x30"},
        25,
    ),
    Case(
        "KilnDecisionsNotEmitted",
        "the broker refuses work",
        {
            f'kiln_admission_not_emitted{{partition="2",{_A}}}': "0 7x20",
            f"kiln_admission_emission_retries_total{{{_A}}}": "0 0+1x20",
        },
        8,
        [
            Firing(
                "requests[2] has 7 accepted jobs or more without the broker's acknowledgement, and producing has "
                "failed again and again.",
                {"partition": "2", "instance": "a:1"},
            )
        ],
        not_yet=3,
    ),
    Case(
        "KilnDecisionsNotEmitted",
        "whenever one looks some are on their way, and none has failed",
        {
            f'kiln_admission_not_emitted{{partition="2",{_A}}}': "7x20",
            f"kiln_admission_emission_retries_total{{{_A}}}": "3x20",
        },
        8,
    ),
    Case(
        "KilnDecisionsNotEmitted",
        "one failed and went through at once",
        {
            f'kiln_admission_not_emitted{{partition="2",{_A}}}': "0 7 0 7 0 7 0 7 0 7 0 7",
            f"kiln_admission_emission_retries_total{{{_A}}}": "0 0 1x20",
        },
        9,
    ),
    Case(
        "KilnOffsetsNotRenewed",
        "a right is missing",
        {f'kiln_admission_offset_renewals_total{{group="kiln.gpu.hopper",outcome="failed",{_A}}}': "0x9 1x200"},
        90,
        [
            Firing(
                "Renewing the offsets of the group kiln.gpu.hopper failed 1 time within a day, and never went well: "
                "once they expire, KEDA counts as work what was done long ago.",
                {"group": "kiln.gpu.hopper"},
            )
        ],
        not_yet=60,
    ),
    Case(
        "KilnOffsetsNotRenewed",
        "one failed, and the next went well",
        {
            f'kiln_admission_offset_renewals_total{{group="kiln.gpu.hopper",outcome="failed",{_A}}}': "0x9 1x200",
            f'kiln_admission_offset_renewals_total{{group="kiln.gpu.hopper",outcome="renewed",{_A}}}': "3x50 4x200",
        },
        120,
    ),
    Case(
        "KilnStableOffsetStuck",
        "a stranger's transaction stays open",
        {
            f'kiln_admission_unstable_seconds{{topic="kiln.results",{_A}}}': "0 0+60x10",
            f'kiln_gpu_unstable_seconds{{topic="kiln.work.hopper.bulk",{_HOPPER}}}': "0x10",
        },
        5,
        [
            Firing(
                "The last stable offset of a partition of kiln.results has stood for 4m 0s below its end: no reader of "
                "committed records sees what came after it.",
                {"topic": "kiln.results"},
            )
        ],
        not_yet=3,
    ),
    Case(
        "KilnStableOffsetStuck",
        "an owner was killed, and its transaction runs out",
        {
            f'kiln_admission_unstable_seconds{{topic="kiln.results",{_A}}}': "0 18 0 0 12 0 0 0 0 0",
            f'kiln_gpu_unstable_seconds{{topic="kiln.work.hopper.bulk",{_HOPPER}}}': "50x10",
        },
        5,
    ),
)
