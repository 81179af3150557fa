"""The texts with which the page begins."""

TEXT = (
    "The river rises in the mountains and flows through the old town. "
    "In spring the melting snow makes it overflow its banks."
)
DOCUMENTS = """The river rises in the mountains. It flows through the old town. In spring the \
melting snow makes it overflow. People built a wall in 1901. The wall was raised twice.

The band began in a small school. Three of its members played the guitar. Their first album sold \
well. They won a prize for the second one. After ten years they parted.

The war began in the north. The king sent an army of ten thousand. It lost the first battle. \
Winter came early in that year. Both sides made peace in the spring."""
SENTENCES = """water | The river flows through the town.
water | The lake is deep and cold.
water | Rain fell on the sea all night.
music | The band played a new song.
music | She sings in a choir.
music | The album was recorded in a week."""
PAIR = ("The playwright overestimated the river.", "It was flooding.")
ATTENDED, HIDDEN = "The river rises in the mountains.", "The river [MASK] in the mountains."
OPINION, NAMES = "A joy from start to end.", "Anna Weber flew from Hamburg to Rome ."
TWO_TEXTS = ("The river flooded the town.", "The town was under water.")
ENDINGS = (
    "The river flooded the town.",
    "The people",
    """built a wall.
went on.
sang about it.
did nothing.""",
)
QUESTION = (
    "When was the wall built?",
    "The river rises in the mountains. People built a wall in 1901. It was raised twice.",
)
