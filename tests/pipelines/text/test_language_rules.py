"""Rules of languages, and texts in another language than the flag says."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.languages import ARTICLE_1

from beambert.pipelines.corpus.documents import Document
from beambert.pipelines.text.languages import language_notes
from beambert.pipelines.text.sentences import SHORTEST_THAI, split_sentences, with_stand_ins

# Language -> texts, with "|" where a sentence ends.
CASES = [
    ("zh", "他来了。|她走了！|你呢？|好。"),
    ("zh", "工程于1907年完成。|2009年，贝拉克·奥巴马就职。|“好。”|１９９９年结束。"),
    ("zh", "价格是3.5元。|他说：“走吧。”"),
    ("ja", "雨が降った。|2020年だ！|え？|はい。"),
    ("ja", "彼は「行く。」と言った。|「行く？」って聞いた。|そうだ。"),
    ("th", "ผมไปตลาดเมื่อวานนี้กับเพื่อนสองคน |เราซื้อผลไม้และผักสดมากมาย และกลับบ้านตอนเย็น"),
    ("th", "เขาเกิดเมื่อวันที่ 5 ธันวาคม 2470 และเริ่มเรียนปี 2490"),
    ("km", "ខ្ញុំទៅផ្សារ។ |គាត់មក។|គាត់ទៅ។"),
    ("my", "ကျွန်တော်သွားတယ်။ |သူလာတယ်။"),
    ("my", "လမ်းကြား၏ အဆုံးတွင် ရှိသည်။ |သူလာတယ်။"),
    ("bo", "བོད་ནི་ཡུལ་ཆེན་པོ་ཞིག་ཡིན། |རྒྱལ་ས་ལྷ་ས་ཡིན།"),
    ("el", "Ποιος ήρθε\u037e |Ο Γιάννης."),
    ("ar", "جاء د. أحمد إلى البيت. |هل ذهب الولد؟ |نعم! |انظر ص. 12 من الكتاب."),
    ("fa", "این خانه است. |آیا او آمد؟ |بله."),
    ("ur", "یہ گھر ہے۔ |وہ آیا۔|کیا وہ گیا؟"),
    ("he", 'או"ם הקים סוכנות ב-1949. |נולד בתל אביב, בירת צה"ל. |האם הלך?'),
    ("hi", "डॉ. राम आए। |वे प्रो. शर्मा से मिले। |क्या वह गया? |हाँ!"),
    ("bn", "সে এসেছে। |তুমি কি যাবে?"),
    ("ru", "Он читал журналы, книги и др. литературу. |В 1895 г. Пушкин приехал. |Да?"),
    ("de", "Das kostet z. B. 5 Euro. |Dr. Meier kam am 3. Mai. |Wirklich? |Ja."),
    ("de", "Siehe Art. 5. |Er lebte. |Nr. 5 und Bd. 3, Hrsg. Müller."),
    ("tr", "M.Ö. 50 yılında doğdu. |Gitti. |Kaldı."),
    ("it", "L'art. 5 e il n. 3. |Dott. Bianchi venne. |Il card. Dini rimase."),
    ("pl", "O tym mowa w art. 26 ust. 2. |Konsumenci byli u św. Daniela."),
    ("ro", "El a venit ieri. |Ea a plecat dimineața. |nu se știe unde. |El așteaptă cca. un an."),
    ("fr", 'Elle est partie hier. |" Je reste ici. " |Il dort.'),
    ("sv", "Kl. 5. |T.ex. Stockholm. |Man skiljer sig. |Det är sent."),
    ("ro", "Este stabilit în anexă. |(d) promovarea organelor. |Conform art. 15 alin. (5) e bine."),
    ("de", "Im Hl. Land traf er Richard, den 3. Duke von York. |Er blieb bis zum 3. |Das war gut."),
    ("hr", "Rok je od 1. 3. i traje. |Ako je sv. Pavao rekao. |I to je sve."),
    ("cs", "Č. 5. |Např. Praha. |Prof. Novák."),
    ("da", "Nr. 5 var hr. Jensen. |Den 3. maj 1990 kom han."),
    ("vi", "TP. Hồ Chí Minh lớn. |GS. Lan."),
    ("en", "Of all, 74% (46) African-American were old. |FEV (1) was low."),
    (
        "en",
        'Give it to me. |"Not me." |She said no. |He fell ill. |See no. 5, approx. a mile.',
    ),
    ("es", "El río llega al mar. |En verano no. |Sí."),
    ("nb", "Han gjorde det. |Hun gikk ut. |Vi er her."),
    ("it", "Se ne va. |Non torna mai. |Viene la sig. Rossi."),
    ("en", "She stayed.[a] |Then he died.* |It ended.[1][2] |See Vol. II, No. 3."),
    ("hu", "Az 5. fejezet a 19. században íródott. |II. Rákóczi Ferenc élt. |Ld. 5. oldal."),
    ("cs", "Viz str. 5 a obr. 3. |Král Karel IV. vládl."),
    ("tr", "II. Mehmed geldi. |Örn. Ankara büyük."),
    ("lt", "Gimė 3 d. Vilniuje. |Pvz. Kaunas didelis. |Žr. 5 psl."),
    ("ko", '그는 1990. 5. 3. 태어났다. |"가자."라고 말했다. |끝.'),
    ("is", "Sjá bls. 5. |Á 19. öld bjó hann."),
    ("en", '"We saw Mr. Hook. |He left." |He said: "Go. |Now." |“Is it so? |Yes, Capt. Hook.”'),
    ("de", "„Er kam. |Sie ging.“ |Ja."),
    ("en", "We took vit. D in Figs. 3-4."),
    ("en", "It is (1) Red, (2) Green and (3) Blue in Vol. 2, pp. 3-4."),
    ("ko", "그는 왔다. |어디 가요? |3.5킬로입니다."),
    ("en", "It came to Base X. |The lake is 5 m. |It freezes. |J. Adams saw it at 3 p.m. |So?"),
    ("en", "'No! |I'm not going. |They left.' |He went."),
    ("en", "(Aside.) |Listen. |(It was late.) |Then it rained. |Why (he asked)?"),
    ("en", "They ran, swam (a mile. |Then they slept. |She asked the captain--Dr. Bell. |Yes."),
    (
        "en",
        "He fled.[citation needed] |She stayed.:93 |As Smith et al.[12] show, p! + 1 is odd. |So.",
    ),
    ("en", "He is ill. |'Tis late. |Ms. Bell met Chr. Hansen."),
    ("de", "Das gilt für Gruppe X. |Der Rest ging. |(Es war spät.) |Er kam mit A. Meier."),
    ("fr", "Il habite au bloc B. |Dans la rue, on rit. |(Elle est là.) |Il part avec J. Le Goff."),
    ("es", "Vive en el bloque C. |Los demás no. |(Es tarde.) |Vino J. Ruiz.[cita requerida] |Sí."),
    ("ro", "Se aplică în UE. |1.1. Încercările încep. |Stă pe str. Costache Negri."),
    ("de", "``Er wartet! '' |Der Stuhl ist da. |`` Die Wissenschaft lebt.''"),
    ("en", '"It is bad. |I know," he said. |"Do you? |So do I," said the dog (Mr. Fox).'),
    ("en", "Lord J. You are late. |He went to Plan B. |The dog left."),
    ("fr", "Il dit : « Je pars. |Le train est là » et sort (réf. Dupont). |Non."),
    ("it", "Disse: “È tardi. |Vado a casa” e uscì (cfr. Bianchi). |Poi tornò."),
    ("tr", 'Dedi ki: "Geç oldu. |Ev uzak" ve gitti. |Bitti.'),
    (
        "ro",
        "A spus („Este târziu. |Plec acasă”), apoi a ieșit. |(b) nu a venit (figura 3). |e bine.",
    ),
    ("sl", "Vse je v redu. |»Voila!« je vzkliknil. |Bilo je pozno. |»Vem. |Grem.«"),
    ("fi", "Asetus on annettu. |(11) Jotta se toimii, on sovittu. |(12) Sitten kaikki päättyi."),
    ("nb", "Det var f.eks. Ole Hansen. |Han gikk."),
    ("pl", "Przyszła dr hab. Anna Nowak. |Usiadła."),
    ("en", "'It's a pun!' the King added. |'No, no!' said the Queen. |She left the dogs' bone."),
    ("en", "It is 100 mph ( 160 km / h ) . |At the time it rained ."),
    ("et", "Pidu peeti maha. |“ Nüüd on kõik. |Mul on lehm, ” naerab ta. |Ilus!"),
    ("hr", "U 19. stoljeću je živio. |Dana 5. 6. 1990. došao je. |Npr. tako je. |Umro je 1991."),
    ("pt", "Ver pág. 12. |O séc. XIX foi longo."),
    ("es", "Murió en el año 14 d. C. |Fue rey."),
    ("fi", "Hän tuli. |-Hyvä on! |Hän meni."),
    ("bn", "ড. রহমান এলেন। |খ্রি. পূ. ৫০ সালে জন্ম।"),
    ("ta", "டாக்டர். ராமன் வந்தார். |அவர் கி.மு. 50 இல் பிறந்தார். |திரு. குமார் போனார்."),
    ("fa", "او در سال ۵۰ ق.م. در رم زاده شد. |دکتر آمد."),
    ("zh", "他在U.S.工作。|Ｊ．Ｋ．罗琳来了。"),
    ("th", "อาจารย์ ดร.สมชาย"),
    ("kk", "Ол 1990 ж. Алматыда туған. |XIX ғ. ол осында тұрған."),
    ("tr", "Atatürk Cad. 5 numara. |Bu G. |Bu ev."),
    (
        "en",
        "It rained.(5) |She left.¹ |It is so good.1 |See Refs. [3]–[5] and Fig. 2(a). |It works.",
    ),
    ("am", "ሰላም ነው። |እንዴት ነህ፧"),
    ("hy", "Սա տուն է։ |Նա եկավ։"),
]


@pytest.mark.parametrize(("language", "text"), CASES)
def test_cases(language, text):
    found = split_sentences(Document(text.replace("|", "")), language)
    assert found == [sentence.strip() for sentence in text.split("|")]


@pytest.mark.parametrize("language", ARTICLE_1)
def test_the_first_article_has_two_sentences(language):
    """In Thai the second one has a space inside, before "and"."""
    text = ARTICLE_1[language]
    found = split_sentences(Document(text), language)
    assert len(found) == 2
    assert "".join("".join(found).split()) == "".join(text.split())


def test_a_thai_sentence_is_not_short():
    words = "ไป มา กิน นอน " * 40
    found = split_sentences(Document(words), "th")
    assert len(found) > 10 and all(len(sentence) >= SHORTEST_THAI for sentence in found[:-1])


def test_stand_ins_have_the_length_of_the_text():
    for language, text in CASES:
        assert len(with_stand_ins(text, language)) == len(text)


ALPHABET = "аб. !?…\"'”()0\n。！？9「」とてא\"ב'אبدأ. वडॉ.។៕กขแที่ 😀\u200dé"


@pytest.mark.parametrize("language", ["zh", "ja", "he", "ar", "hi", "ru", "km", "th", "ko"])
def test_nothing_but_white_space_is_lost(language):
    @settings(derandomize=True, max_examples=100, deadline=None, database=None)
    @given(st.text(st.sampled_from(ALPHABET), max_size=60))
    def check(text):
        sentences = split_sentences(Document(text), language)
        assert "".join("".join(sentences).split()) == "".join(text.split())
        assert all(sentence == sentence.strip() and sentence for sentence in sentences)
        assert len(with_stand_ins(text, language)) == len(text)

    check()


GERMAN = "Die Entscheidung ist nicht mit der Klage, sondern mit einer Rüge auf dem Weg."
ENGLISH = "The decision of the court was not in the file, and it is for that reason with him."
FRENCH = "La décision est dans le dossier, et elle est pour les parties une surprise."
RUSSIAN = "Решение суда не было в деле, и поэтому оно стало для сторон неожиданностью."
CHINESE = "法院的判决不在案卷之中,因此双方都感到意外。"
JAPANESE = "裁判所の判決は記録になく、当事者にとって意外なものであった。"
THAI = "คำพิพากษาของศาลไม่อยู่ในสำนวน"


@pytest.mark.parametrize(
    ("text", "code"),
    [
        *((RUSSIAN, "ru"), ("यह है। वह नहीं है।", "hi")),
        *((CHINESE, "zh"), (JAPANESE, "ja"), (THAI, "th")),
        *((GERMAN * 3, "CODE"), (FRENCH * 3, "CODE")),
    ],
)
def test_another_language_is_told(text, code):
    (note,) = language_notes([text] * 3, "en")
    assert f"--language={code}," in note


@pytest.mark.parametrize(
    "texts",
    [
        [ENGLISH] * 30,
        ["모든 인간은 태어날 때부터 자유롭다."] * 3,
        [ENGLISH, GERMAN],
        [GERMAN],
        [ENGLISH, FRENCH, RUSSIAN],
        ["River, city."],
        [""],
        [],
    ],
)
def test_english_mixed_and_silent_texts_tell_nothing(texts):
    assert language_notes(texts, "en") == []


def test_a_language_that_is_given_is_right():
    assert language_notes([RUSSIAN], "ru") == language_notes([RUSSIAN], "uk") == []
