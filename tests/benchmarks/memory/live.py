"""Memory measured from live tensors: every storage that an operator makes is counted until it is gone.

Not from a ledger: what is counted is what torch made and what Python let go of. It costs a fifth to nearly all of the
time of a tiny model's step again, which is why the CPU device does not do it. What kernels take within one operator is
not seen.
"""

import weakref
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode


class LiveTensors(TorchDispatchMode):
    """Counts what is made while it is entered; `now` goes on falling afterwards. What was there before is not seen."""

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.now = 0
        self.peak = 0
        self._watched: dict[int, weakref.ref[torch.UntypedStorage]] = {}

    def __torch_dispatch__(
        self,
        func: Callable[..., Any],
        types: Sequence[type],
        args: Sequence[Any] = (),
        kwargs: Mapping[str, Any] | None = None,
    ) -> Any:
        result = func(*args, **(kwargs or {}))
        inputs = {arg.untyped_storage()._cdata for arg in args if isinstance(arg, torch.Tensor)}
        for one in result if isinstance(result, tuple | list) else (result,):
            if isinstance(one, torch.Tensor):
                self._watch(one.untyped_storage(), inputs)
        return result

    def _watch(self, storage: torch.UntypedStorage, inputs: set[int]) -> None:
        key, size = storage._cdata, storage.nbytes()
        if key in self._watched or key in inputs:  # a view, of a weight too
            return

        def gone(_: object) -> None:
            self.now -= size
            del self._watched[key]

        self._watched[key] = weakref.ref(storage, gone)
        self.now += size
        self.peak = max(self.peak, self.now)
