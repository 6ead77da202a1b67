"""What can be wrong with admission, and with what it sees of the cluster."""

from collections.abc import Iterator

from infra.observe.rule import Alert, Recording, number, value_of
from infra.observe.settings import AlertSettings

_REJECTED = 'kiln_admission_decisions_total{verdict="rejected"}'
_DEAD_LETTERS = {
    "admission": "kiln_admission_dead_letters_total",
    "a GPU consumer": "kiln_gpu_dead_letters_total",
    "the gate": "kiln_gate_dead_letters_total",
}


def admission_rules(settings: AlertSettings) -> Iterator[Alert | Recording]:
    yield Recording(
        "kiln:rejected:ratio10m",
        f"sum(increase({_REJECTED}[10m])) / sum(increase(kiln_admission_decisions_total[10m]))",
    )
    yield Recording("kiln:dead_letters:increase15m", " or ".join(_dead_letters()))
    yield Alert(
        name="KilnAdmissionAbsent",
        severity="critical",
        expr="absent(kiln_admission_partitions)",
        for_seconds=120,
        summary="Nobody decides requests, or nobody can see it",
        description="No admission process has been scraped for two minutes (expected: 1 or more; missing: "
        "{{ $value }}). Requests wait, and every alert that reads admission is silent.",
    )
    yield Alert(
        name="KilnRequestsStand",
        severity="critical",
        expr="kiln_admission_lag > 0 and changes(kiln_admission_next_offset[5m]) == 0",
        for_seconds=300,
        summary="Requests are not decided",
        description=f"requests[{{{{ $labels.partition }}}}] has {value_of('undecided request')} at "
        "{{ $labels.instance }}, and none was decided for ten minutes.",
    )
    yield Alert(
        name="KilnRejectionSpike",
        severity="warning",
        expr=f"kiln:rejected:ratio10m > {number(settings.rejected_ratio_max)} "
        f"and on() sum(increase({_REJECTED}[10m])) >= {settings.rejected_min}",
        for_seconds=60,
        summary="Many requests are refused",
        description="{{ $value | humanizePercentage }} of the requests of ten minutes were refused, most of them as "
        f"{{{{ with query `topk(1, sum by (code) (increase({_REJECTED}[10m])))` }}}}"
        "{{ . | first | label `code` }}{{ end }}.",
    )
    yield Alert(
        name="KilnDeadLetters",
        severity="warning",
        expr=f"kiln:dead_letters:increase15m > {settings.dead_letters_max}",
        for_seconds=0,
        summary="Records were dead-lettered",
        description=f"Within fifteen minutes {{{{ $labels.by }}}} dead-lettered {value_of('record')} as "
        "{{ $labels.reason }}, for which nobody gets a result.",
    )
    yield Alert(
        name="KilnDecisionsNotEmitted",
        severity="critical",
        expr="min_over_time(kiln_admission_not_emitted[2m]) > 0 "
        "and on(instance) increase(kiln_admission_emission_retries_total[5m]) > 0",
        for_seconds=60,
        summary="Accepted work does not reach its pool",
        description=f"requests[{{{{ $labels.partition }}}}] has {value_of('accepted job')} or more without the "
        "broker's acknowledgement, and producing has failed again and again.",
    )
    yield Alert(
        name="KilnOffsetsNotRenewed",
        severity="warning",
        expr=f"{_renewals('=')} > 0 unless on(group) {_renewals('!=')} > 0",
        for_seconds=3600,
        summary="The offsets of a pool that sleeps may expire",
        description=f"Renewing the offsets of the group {{{{ $labels.group }}}} failed {value_of('time')} within a "
        "day, and never went well: once they expire, KEDA counts as work what was done long ago.",
    )
    yield Alert(
        name="KilnStableOffsetStuck",
        severity="critical",
        expr="max by (topic) (kiln_admission_unstable_seconds or kiln_gpu_unstable_seconds) "
        f"> {number(settings.unstable_seconds_max)}",
        for_seconds=60,
        summary="A transaction stays open and hides everything behind it",
        description="The last stable offset of a partition of {{ $labels.topic }} has stood for "
        "{{ $value | humanizeDuration }} below its end: no reader of committed records sees what came after it.",
    )


def _dead_letters() -> Iterator[str]:
    for by, name in _DEAD_LETTERS.items():
        yield f'label_replace(sum by (reason) (increase({name}[15m])), "by", "{by}", "", "")'


def _renewals(sign: str) -> str:
    return f'sum by (group) (increase(kiln_admission_offset_renewals_total{{outcome{sign}"failed"}}[1d]))'
