"""A placement, partition by partition."""

from schemas.catalogue import ConfigCatalogue
from schemas.control import Placement
from streams.commands.placement import Place, places
from tests.unit.admission.scene import config_file


def test_every_partition_has_its_models_and_configurations_with_their_parts() -> None:
    sketch, painting = config_file("sketch"), config_file("painting", steps=20)
    hashes = [file.versions[1].config_hash for file in (sketch, painting)]
    model = sketch.versions[1].model_key
    table = Placement.model_validate(
        {
            "term": 3, "partitions": 3,
            "models": {model: [{"partition": 0, "weight": 3.0}, {"partition": 1, "weight": 1.0}]},
            "configs": {
                hashes[0]: [{"partition": 0, "weight": 2.0}],
                hashes[1]: [{"partition": 0, "weight": 1.0}, {"partition": 1, "weight": 3.0}],
                "f" * 64: [{"partition": 1, "weight": 1.0}],
            },
        }
    )  # fmt: skip
    assert list(places(table, ConfigCatalogue([sketch, painting]))) == [
        # Versions that draw the same have one place: versions 1 and 2 differ in their number alone.
        Place(0, [model], {"painting@1 = painting@2": 0.25, "sketch@1 = sketch@2": 1.0}),
        Place(1, [model], {"ffffffffffff": 1.0, "painting@1 = painting@2": 0.75}),
        Place(2, [], {}),
    ]
