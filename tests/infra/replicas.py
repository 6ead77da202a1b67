"""How many replicas a pool may have: KEDA and admission, which places work by it, must be told the same."""

from collections.abc import Iterable, Iterator

import yaml

from schemas.pools import Pools
from tests.infra.rendered import Object


def told_apart(objects: Iterable[Object | None]) -> Iterator[str]:
    """What each pool's ScaledObject says otherwise than the pools.yaml that lies beside it."""
    there = [each for each in objects if each]
    maps = {each["metadata"]["name"]: each["data"] for each in there if each["kind"] == "ConfigMap"}
    if "kiln-declared" not in maps:
        return
    pools = Pools.model_validate(yaml.safe_load(maps["kiln-declared"]["pools.yaml"])).pools
    for each in there:
        if each["kind"] == "ScaledObject":
            name, spec = each["metadata"]["labels"]["promptkiln.dev/pool"], each["spec"]
            said = spec["minReplicaCount"], spec["maxReplicaCount"]
            declared = pools[name].replicas_min, pools[name].replicas_max
            if said != declared:
                yield f"KEDA is told {said} of the replicas of {name}, and admission {declared}"
