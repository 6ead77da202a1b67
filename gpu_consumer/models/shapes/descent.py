"""One way down for both trainings: AdamW, a warm-up and a cosine, averaged weights, and a checkpoint to go on from."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import torch

Loss = Callable[[torch.Generator], torch.Tensor]
Report = Callable[[str], None]

_EVERY = 250  # steps between two checkpoints: a minute or two of work to lose
_WARM_STEPS = 150
_FLOOR = 0.02  # of the peak rate, at the end
_CLIP = 1.0
_MEMORY = 0.998  # of the average: some hundred steps


@dataclass(frozen=True, slots=True)
class Descent:
    """`checkpoint` appears every few hundred steps and is left behind; one that is there is taken up again."""

    name: str
    steps: int
    rate: float
    seed: int
    checkpoint: Path
    report: Report

    def run(self, modules: Sequence[torch.nn.Module], loss: Loss) -> None:
        """Train `modules` in place to their averaged weights. Blocks; `loss` draws all its chance from its argument."""
        weights = [weight for module in modules for weight in module.parameters()]
        average = [weight.detach().clone() for weight in weights]
        optimiser = torch.optim.AdamW(weights, self.rate, betas=(0.9, 0.99), weight_decay=1e-3, fused=True)
        chance = torch.Generator().manual_seed(self.seed)
        first = self._resume(weights, average, optimiser, chance)
        recent = math.nan
        for step in range(first, self.steps):
            for group in optimiser.param_groups:
                group["lr"] = self._rate(step)
            now = loss(chance)
            optimiser.zero_grad()
            now.backward()  # type: ignore[no-untyped-call]
            torch.nn.utils.clip_grad_norm_(weights, _CLIP)
            optimiser.step()
            torch._foreach_lerp_(average, [weight.detach() for weight in weights], 1 - min(_MEMORY, step / (step + 9)))
            recent = now.item() if math.isnan(recent) else 0.98 * recent + 0.02 * now.item()
            if (step + 1) % _EVERY == 0:
                self._save(step + 1, weights, average, optimiser, chance)
                self.report(f"{self.name}: step {step + 1} of {self.steps}, loss {recent:.4f}")
        with torch.no_grad():
            for weight, mean in zip(weights, average, strict=True):
                weight.copy_(mean)

    def _rate(self, step: int) -> float:
        cosine = 0.5 + 0.5 * math.cos(math.pi * step / self.steps)
        return self.rate * min(1.0, (step + 1) / _WARM_STEPS) * (_FLOOR + (1 - _FLOOR) * cosine)

    def _save(
        self,
        step: int,
        weights: list[torch.nn.Parameter],
        average: list[torch.Tensor],
        optimiser: torch.optim.Optimizer,
        chance: torch.Generator,
    ) -> None:
        state = {
            "step": step,
            "weights": [weight.detach() for weight in weights],
            "average": average,
            "optimiser": optimiser.state_dict(),
            "chance": chance.get_state(),
        }
        whole = self.checkpoint.with_suffix(".part")
        torch.save(state, whole)
        whole.replace(self.checkpoint)

    def _resume(
        self,
        weights: list[torch.nn.Parameter],
        average: list[torch.Tensor],
        optimiser: torch.optim.Optimizer,
        chance: torch.Generator,
    ) -> int:
        """The step to begin with."""
        if not self.checkpoint.exists():
            return 0
        state = torch.load(self.checkpoint, weights_only=True)
        with torch.no_grad():
            for ours, saved in zip([*weights, *average], [*state["weights"], *state["average"]], strict=True):
                ours.copy_(saved)
        optimiser.load_state_dict(state["optimiser"])
        chance.set_state(state["chance"])
        return int(state["step"])
