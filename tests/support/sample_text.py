"""Words that look like text, for documents of any number of sentences."""

_TEXT = (
    "the a of and to in is was for on with as by at from it that his her an be this which or are "
    "river city music house year people world war state film team game song album school church "
    "company family village north south east west old new first second large small great long "
    "made found built played wrote won lost began ended lived died born called known used"
)
WORDS = _TEXT.split()


def make_document(random, sentences: int) -> list[str]:
    """Returns sentences of 4 to 14 words."""
    return [
        " ".join(random.choices(WORDS, k=random.randint(4, 14))).capitalize() + "."
        for _ in range(sentences)
    ]
