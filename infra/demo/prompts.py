"""Sixty prompts of our own: by tenant and config, in the languages people write in."""

from typing import NamedTuple


class Order(NamedTuple):
    tenant: str
    config: str
    prompt: str


_ATELIER_SKETCH = (
    "a lighthouse at the edge of a frozen lake",
    "three paper boats in a puddle, morning light",
    "an old bicycle leaning against a blue door",
    "a fox asleep under a kitchen table 🦊",
    "ein roter Drachen über den Dünen",
    "un chat noir sur un toit de zinc",
    "una plaza vacía después de la lluvia",
    "夜の海辺に立つ小さな灯台",
    "雪山脚下的一座木屋",
    "маленький дом с жёлтыми окнами в лесу",
)
_ATELIER_PAINTING = (
    "oil painting of a harbour at dusk, thick strokes",
    "a field of poppies under a heavy sky",
    "a violin on a windowsill, dust in the light",
    "two chairs facing the sea",
    "Stillleben mit Birnen und einem Zinnkrug",
    "la mer par temps calme, trois voiles",
    "il mercato del pesce all'alba",
    "桜並木を歩く犬 🌸",
    "한옥 지붕 위에 내린 눈",
    "старый мост в тумане",
)
_ATELIER_POSTER = (
    "travel poster: the night train to the north",
    "jazz on the roof, 1962, bold letters and a moon 🌙",
    "a giant teapot over a tiny village",
    "swim in the river! summer festival",
    "Ausstellung der Uhren und Automaten",
    "fête du cerf-volant, plage du nord",
)
_BAZAAR_SKETCH = (
    "a copper kettle, product photo, white background",
    "hand-woven basket with a lid",
    "a pair of green rubber boots",
    "brass desk lamp, soft shadow",
    "ceramic mug with a glaze like the sea 🌊",
    "sandalias de cuero marrón",
    "théière en fonte, fond clair",
    "手作りの木のスプーン三本",
    "青花瓷碗，白色背景",
    "λευκό πήλινο βάζο με ελιές",
)
_BAZAAR_PAINTING = (
    "a spice stall, sacks of turmeric and chilli 🌶️",
    "carpets hanging in a narrow street",
    "lanterns of coloured glass, evening",
    "a seller of birds and his cages",
    "Gewürze in kleinen Schalen, warmes Licht",
    "marché aux fleurs sous la pluie ☔",
    "puesto de naranjas al sol 🍊",
    "夜市に並ぶ金魚 🐟",
)
_BAZAAR_POSTER = (
    "SALE: everything for the garden",
    "new: wool blankets from the hills",
    "the great tea tasting, Saturday ☕",
    "秋の収穫祭 🍁",
)
_CROWD_SKETCH = (
    "a doodle of a cactus in a hat 🌵",
    "a doodle of a very long dog",
    "a doodle of two snails racing",
    "a doodle of a cloud with boots",
    "a doodle of a robot watering plants 🤖",
    "a doodle of a whale on a bus 🐋",
    "a doodle of a sleepy dragon",
    "a doodle of a chess knight eating hay",
    "a doodle of an owl reading the news",
    "a doodle of a pear with wings",
    "a doodle of a penguin in the rain",
    "a doodle of a tiny castle on a turtle 🐢",
)

ORDERS: tuple[Order, ...] = tuple(
    Order(tenant, config, prompt)
    for tenant, config, prompts in (
        ("atelier", "sketch", _ATELIER_SKETCH),
        ("atelier", "painting", _ATELIER_PAINTING),
        ("atelier", "poster", _ATELIER_POSTER),
        ("bazaar", "sketch", _BAZAAR_SKETCH),
        ("bazaar", "painting", _BAZAAR_PAINTING),
        ("bazaar", "poster", _BAZAAR_POSTER),
        ("crowd", "sketch", _CROWD_SKETCH),
    )
    for prompt in prompts
)
assert len(ORDERS) == 60
