"""Who uses how much: counted for the metrics page as it is committed, and summed from the topics for a bill."""

from collections import Counter
from dataclasses import dataclass, field

from admission.state import Result
from schemas.decision import Decision
from schemas.tenancy import Outstanding
from schemas.tenants import Tenants
from streams.metrics import AdmissionMetrics

OTHER = (
    "other"  # all tenants that are not declared by name: a label must not have as many values as there are strangers
)


@dataclass(slots=True)
class UsageCounts:
    """What one transaction adds. Counted only once it is committed; after doubt it stays uncounted, never twice."""

    decisions: Counter[tuple[str, str]] = field(default_factory=Counter)
    jobs: Counter[tuple[str, str]] = field(default_factory=Counter)
    gpu_seconds: dict[str, float] = field(default_factory=dict)

    def decided(self, decision: Decision, tenants: Tenants) -> None:
        self.decisions[_label(decision.tenant, tenants), decision.verdict] += 1

    def ended(self, job: Outstanding, result: Result, tenants: Tenants) -> None:
        """`job`: what the result ended; a result that ends nothing is a second one, and not told."""
        label = _label(job.tenant, tenants)
        self.jobs[label, result.status] += 1
        self.gpu_seconds[label] = self.gpu_seconds.get(label, 0.0) + getattr(result, "gpu_seconds", 0.0)

    def count_into(self, metrics: AdmissionMetrics) -> None:
        for (tenant, verdict), number in self.decisions.items():
            metrics.count("tenant_decisions_total", number, tenant=tenant, verdict=verdict)
        for (tenant, status), number in self.jobs.items():
            metrics.count("tenant_jobs_total", number, tenant=tenant, status=status)
        for tenant, seconds in self.gpu_seconds.items():
            metrics.count("tenant_gpu_seconds_total", max(0.0, seconds), tenant=tenant)


def _label(tenant: str, tenants: Tenants) -> str:
    return tenant if tenant in tenants.tenants else OTHER
