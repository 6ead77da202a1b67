"""Sixty prompts of our own: by tenant and config, in the languages people write in."""

from typing import NamedTuple


class Order(NamedTuple):
    tenant: str
    config: str
    prompt: str


_ATELIER_SHAPES = (
    "a large red star on the left on a blue background",
    "a small yellow circle at the top on a purple background",
    "a blue square in the centre on a white background",
    "a large green triangle at the bottom on a yellow background",
    "a white heart on the right on a red background",
    "an orange ring at the top on a black background",
    "a purple cross on the left on a white background",
    "a large black circle on the right on an orange background",
    "a small red triangle on a green background",
)
_ATELIER_MOVING = ("a yellow star on the right on a black background",)
_ATELIER_PAINTING = (
    "oil painting of a harbour at dusk, thick strokes",
    "a field of poppies under a heavy sky",
    "a violin on a windowsill, dust in the light",
    "two chairs facing the sea, a fox asleep below 🦊",
    "Stillleben mit Birnen und einem Zinnkrug 🍐",
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
_BAZAAR_SHAPES = (
    "a large white ring on a blue background",
    "a red circle on the left on a yellow background",
    "a large purple heart in the centre on a white background",
    "a green cross at the bottom on a red background",
    "a black square at the top on a yellow background",
    "an orange triangle on the right on a purple background",
    "a large blue star on a white background",
    "a white square on the left on a green background",
    "a large yellow heart at the bottom on a black background",
)
_BAZAAR_MOVING = ("a red ring on the right on a white background",)
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
_CROWD_SHAPES = (
    "a large yellow circle on a red background",
    "a green star on a black background",
    "a large white cross on a red background",
    "a blue circle at the bottom on an orange background",
    "a purple square on the right on a yellow background",
    "a large orange star at the top on a blue background",
    "a red heart on the left on a white background",
    "a black triangle in the centre on a green background",
    "a large white circle at the top on a purple background",
    "a yellow cross on the right on a blue background",
    "a large red square at the bottom on a black background",
    "a blue heart on a yellow background",
)

ORDERS: tuple[Order, ...] = tuple(
    Order(tenant, config, prompt)
    for tenant, config, prompts in (
        ("atelier", "shapes", _ATELIER_SHAPES),
        ("atelier", "moving-shapes", _ATELIER_MOVING),
        ("atelier", "painting", _ATELIER_PAINTING),
        ("atelier", "poster", _ATELIER_POSTER),
        ("bazaar", "shapes", _BAZAAR_SHAPES),
        ("bazaar", "moving-shapes", _BAZAAR_MOVING),
        ("bazaar", "painting", _BAZAAR_PAINTING),
        ("bazaar", "poster", _BAZAAR_POSTER),
        ("crowd", "shapes", _CROWD_SHAPES),
    )
    for prompt in prompts
)
assert len(ORDERS) == 60
