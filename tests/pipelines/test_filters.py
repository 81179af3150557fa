"""Filters: each rule on text that breaks it alone, n-grams against plain counting, real prose."""

import collections
import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pipelines.cleaning import normalize_text
from pipelines.documents import Document
from pipelines.filters import FilterSettings, QualityThresholds, why_dropped
from pipelines.formats import READERS

QUALITY = FilterSettings(quality=QualityThresholds())
# The preamble of the Universal Declaration of Human Rights, a work in the public domain.
PREAMBLES = {
    "English": "Whereas recognition of the inherent dignity and of the equal and inalienable rights of all members of the human family is the foundation of freedom, justice and peace in the world, Whereas disregard and contempt for human rights have resulted in barbarous acts which have outraged the conscience of mankind, and the advent of a world in which human beings shall enjoy freedom of speech and belief and freedom from fear and want has been proclaimed as the highest aspiration of the common people,",
    "German": "Da die Anerkennung der angeborenen Würde und der gleichen und unveräußerlichen Rechte aller Mitglieder der Gemeinschaft der Menschen die Grundlage von Freiheit, Gerechtigkeit und Frieden in der Welt bildet, da die Nichtanerkennung und Verachtung der Menschenrechte zu Akten der Barbarei geführt haben, die das Gewissen der Menschheit mit Empörung erfüllen, und da verkündet worden ist, daß einer Welt, in der die Menschen Rede- und Glaubensfreiheit und Freiheit von Furcht und Not genießen, das höchste Streben des Menschen gilt,",
    "Chinese": "鉴于对人类家庭所有成员的固有尊严及其平等的和不移的权利的承认,乃是世界自由、正义与和平的基础,鉴于对人权的无视和侮蔑已发展为野蛮暴行,这些暴行玷污了人类的良心,而一个人人享有言论和信仰自由并免予恐惧和匮乏的世界的来临,已被宣布为普通人民的最高愿望,鉴于为使人类不致迫不得已铤而走险对暴政和压迫进行反叛,有必要使人权受法治的保护,鉴于有必要促进各国间友好关系的发展,鉴于各联合国国家的人民已在联合国宪章中重申他们对基本人权、人格尊严和价值以及男女平等权利的信念,并决心促成较大自由中的社会进步和生活水平的改善,",
    "Japanese": "人類社会のすべての構成員の固有の尊厳と平等で譲ることのできない権利とを承認することは、世界における自由、正義及び平和の基礎であるので、人権の無視及び軽侮が、人類の良心を踏みにじった野蛮行為をもたらし、言論及び信仰の自由が受けられ、恐怖及び欠乏のない世界の到来が、一般の人々の最高の願望として宣言されたので、人間が専制と圧迫とに対する最後の手段として反逆に訴えることがないようにするためには、法の支配によって人権を保護することが肝要であるので、諸国間の友好関係の発展を促進することが肝要であるので、",
    "Thai": "โดยที่การยอมรับศักดิ์ศรีแต่กำเนิด และสิทธิที่เท่าเทียมกันและที่ไม่อาจเพิกถอนได้ของสมาชิกทั้งมวลแห่งครอบครัวมนุษยชาติ เป็นพื้นฐานแห่งอิสรภาพ ความยุติธรรมและสันติภาพในโลก โดยที่การไม่นำพาและการหมิ่นในคุณค่าของสิทธิมนุษยชน ได้ยังผลให้มีการกระทำอันป่าเถื่อน ซึ่งเป็นการขัดอย่างร้ายแรงต่อมโนธรรมของมนุษยชาติ",
    "Korean": "모든 인류 구성원의 천부의 존엄성과 동등하고 양도할 수 없는 권리를 인정하는 것이 세계의 자유, 정의 및 평화의 기초이며, 인권에 대한 무시와 경멸이 인류의 양심을 격분시키는 만행을 초래하였으며, 인간이 언론과 신앙의 자유, 그리고 공포와 결핍으로부터의 자유를 누릴 수 있는 세계의 도래가 모든 사람들의 지고한 열망으로서 천명되어 왔으며, 인간이 폭정과 억압에 대항하는 마지막 수단으로서 반란을 일으키도록 강요받지 않으려면, 법에 의한 통치에 의하여 인권이 보호되어야 하는 것이 필수적이며,",
    "Hindi": "चूंकि मानव परिवार के सभी सदस्यों के जन्मजात गौरव और समान तथा अविच्छिन्न अधिकार की स्वीकृति ही विश्व-शान्ति, न्याय और स्वतन्त्रता की बुनियाद है, चूंकि मानव अधिकारों के प्रति उपेक्षा और घृणा के फलस्वरूप ही ऐसे बर्बर कार्य हुए जिनसे मनुष्य की आत्मा पर अत्याचार किया गया, चूंकि एक ऐसी विश्व-व्यवस्था की उस स्थापना को जिसमें लोगों को भाषण और धर्म की आज़ादी तथा भय और अभाव से मुक्ति मिलेगी, सर्वसाधारण के लिए सर्वोच्च आकांक्षा घोषित किया गया है,",
}  # fmt: skip


def words(count: int, seed: int = 1) -> list[str]:
    draw = random.Random(seed)
    return ["".join(draw.choices("abcdefghij", k=draw.randint(3, 7))) for _ in range(count)]


def lines(count: int, length: int = 12) -> list[str]:
    pieces = words(count * length)
    return [" ".join(pieces[i * length : (i + 1) * length]) for i in range(count)]


@pytest.mark.parametrize("language", PREAMBLES)
def test_prose_of_any_language_stays_and_its_repetition_goes(language):
    text = PREAMBLES[language]
    assert why_dropped(text, QUALITY) is None
    # Judged at all: the same text twice is half repetition.
    assert why_dropped(text + "\n" + text, QUALITY) == "repeated_lines"
    assert why_dropped(text + " " + text, QUALITY) == "repeated_passages"


BREAKS = {
    "word_length": " ".join("a" * 20 + word for word in words(60)),
    "symbols": " ".join(f"{word} #" if i % 5 == 0 else word for i, word in enumerate(words(60))),
    "bullets": "\n".join("• " + line for line in lines(20)),
    "ellipses": "\n".join(line + ("..." if i % 3 else "…") for i, line in enumerate(lines(20))),
    "not_words": " ".join(f"{word} {i * 37}" for i, word in enumerate(words(60))),
    "repeated_lines": "\n".join([*lines(12), *["No."] * 8]),
    "repeated_phrase": " ".join(f"{a} {b} hello world" for a, b in zip(words(60), words(60, 2), strict=True)),
    "repeated_passages": " ".join([*words(60), *words(60)[:20], "and", *words(60)[20:40]]),
}  # fmt: skip


@pytest.mark.parametrize("reason", BREAKS)
def test_each_rule(reason):
    assert why_dropped(BREAKS[reason], QUALITY) == reason
    assert why_dropped(BREAKS[reason], FilterSettings()) is None


@pytest.mark.parametrize(
    "text",
    [
        "",
        "\n",
        "ab " * 20,  # too few words to judge
        "\n".join(lines(20)),
        "\n".join(line + (" ..." if i % 4 == 0 else ".") for i, line in enumerate(lines(20))),
        "\n".join("— " + line for line in lines(20)),  # a dialogue
        " , ".join(words(60)),  # tokenized text
        " ".join(words(200_000)),  # a book
    ],
)
def test_stays(text):
    assert why_dropped(text, QUALITY) is None


def test_one_character_for_ever():
    assert why_dropped("哈" * 10_000, QUALITY) == "repeated_phrase"
    assert why_dropped("ha " * 10_000, QUALITY) == "repeated_phrase"
    assert why_dropped("a" * 10_000, QUALITY) is None  # one word; the tokenizer makes it [UNK]


def test_length():
    settings = FilterSettings(min_characters=10)
    assert why_dropped("123456789", settings) == "too_short"
    assert why_dropped("1234567890", settings) is None


def plain_ngram_reason(text: str, limits: QualityThresholds) -> str | None:
    """Table A1's n-gram rules by counting tuples of words."""
    found = text.split()
    total = sum(map(len, found))
    for n, share in limits.max_top_ngram:
        counts = collections.Counter(zip(*(found[i:] for i in range(n)), strict=False))
        most = max(counts.values())
        longest = max(sum(map(len, gram)) for gram, count in counts.items() if count == most)
        if most > 1 and most * longest > share * total:
            return "repeated_phrase"
    for n, share in limits.max_repeated_ngrams:
        seen, covered = set(), set()
        for i in range(len(found) - n + 1):
            gram = tuple(found[i : i + n])
            if gram in seen:
                covered.update(range(i, i + n))
            seen.add(gram)
        if sum(len(found[i]) for i in covered) > share * total:
            return "repeated_passages"
    return None


@settings(derandomize=True, max_examples=300, deadline=None, database=None)
@given(
    st.lists(st.sampled_from([words(9, seed) for seed in range(8)]), min_size=4, max_size=8),
    st.integers(0, 2**32),
    st.integers(30, 160),
)
def test_repetition_equals_plain_counting(phrases, seed, single_words):
    pieces = [*phrases, *([word] for word in words(single_words, seed))]
    random.Random(seed).shuffle(pieces)
    text = " ".join(word for piece in pieces for word in piece)
    limits = QualityThresholds(min_words=10)
    assert why_dropped(text, FilterSettings(quality=limits)) == plain_ngram_reason(text, limits)


def reasons(paths, format_name: str) -> collections.Counter:
    counts = collections.Counter()
    for path in paths:
        with open(path, "rb") as file:
            for document in READERS[format_name](file):
                if isinstance(document, Document) and document.text.strip():
                    counts[why_dropped(normalize_text(document.text), QUALITY)] += 1
    return counts


def test_real_prose_stays(shared_data):
    novels = reasons(sorted(shared_data.glob("novels/*.txt"))[:5], "text")
    assert set(novels) == {None}
    articles = reasons(sorted(shared_data.glob("wiki_extracted/**/wiki_0*"))[:2], "wikiextractor")
    # Season tables and lists, most of them.
    assert 0.95 <= articles[None] / articles.total() < 1
