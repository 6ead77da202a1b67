"""What happened when, printed as it happens, and drawn."""

import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path


@dataclass(frozen=True, slots=True)
class Moment:
    """`wanted` is what the Deployment asks for, `pods` what there is of it, `ready` the consumers that take work,
    `jobs` those that are not done."""

    seconds: float
    wanted: int
    pods: int
    ready: int
    jobs: int


@dataclass(slots=True)
class Timeline:
    """Of one pool, from its first moment on."""

    title: str
    moments: list[Moment] = field(default_factory=list)
    events: list[tuple[float, str]] = field(default_factory=list)
    _began: float = field(default_factory=time.monotonic)

    def see(self, *, wanted: int, pods: int, ready: int, jobs: int) -> None:
        now = Moment(time.monotonic() - self._began, wanted, pods, ready, jobs)
        before = self.moments[-1] if self.moments else None
        self.moments.append(now)
        if before is None or (before.wanted, before.pods, before.ready) != (wanted, pods, ready):
            print(f"{now.seconds:7.1f} s  wanted {wanted}, pods {pods}, ready {ready}, jobs {jobs}", flush=True)

    def say(self, what: str) -> None:
        seconds = time.monotonic() - self._began
        self.events.append((seconds, what))
        print(f"{seconds:7.1f} s  {what}", flush=True)


def draw(timelines: Sequence[Timeline], path: Path) -> None:
    """One above the other: replicas on the left, jobs on the right; what happened is numbered, and told at the side."""
    import matplotlib as mpl
    from matplotlib.figure import Figure

    mpl.rcParams |= {"svg.hashsalt": "promptkiln", "svg.fonttype": "none"}
    figure = Figure(figsize=(10, 3.2 * len(timelines)), layout="constrained")
    for axes, timeline in zip(figure.subplots(len(timelines), 1, squeeze=False)[:, 0], timelines, strict=True):
        seconds = [each.seconds for each in timeline.moments]
        jobs_axes = axes.twinx()
        jobs_axes.fill_between(
            seconds, [each.jobs for each in timeline.moments], step="post", color="0.88", linewidth=0
        )
        jobs_axes.set_ylabel("jobs not done (grey)", fontsize=8)
        jobs_axes.set_ylim(bottom=0)
        axes.set_zorder(jobs_axes.get_zorder() + 1)
        axes.patch.set_visible(False)
        axes.step(seconds, [each.wanted for each in timeline.moments], where="post", label="replicas wanted")
        axes.step(seconds, [each.ready for each in timeline.moments], where="post", ls="--", label="consumers ready")
        most = max(each.wanted for each in timeline.moments)
        for number, (at, _) in enumerate(timeline.events, 1):
            axes.axvline(at, color="0.5", linewidth=0.6, linestyle=":")
            axes.annotate(str(number), (at, most + 0.2 + 0.25 * (number % 3)), fontsize=7, ha="center")
        told = "\n".join(f"{number}  {what}" for number, (_, what) in enumerate(timeline.events, 1))
        axes.text(1.1, 1, told, transform=axes.transAxes, fontsize=7, va="top", linespacing=1.6)
        axes.set_title(timeline.title, loc="left", fontsize=10)
        axes.set_xlabel("seconds", fontsize=8)
        axes.set_ylabel("replicas", fontsize=8)
        axes.set_ylim(0, most + 1)
        axes.legend(loc="lower center", fontsize=7)
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, bbox_inches="tight", metadata={"Date": None} if path.suffix == ".svg" else None)
