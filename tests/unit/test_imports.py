"""Of two modules one is below the other: a circle is two names for one thing, or a name in the wrong place."""

from graphlib import TopologicalSorter

import grimp


def test_no_module_comes_round_to_itself() -> None:
    """Imports within functions are counted, too."""
    graph = grimp.build_graph("schemas", "admission", "streams", "gpu_consumer", "infra", cache_dir=None)
    below = {module: graph.find_modules_directly_imported_by(module) for module in graph.modules}
    TopologicalSorter(below).prepare()  # raises CycleError, which names them
