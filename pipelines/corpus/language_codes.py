"""Codes of languages, as flags and the columns of corpora name them. Pure."""

import re

from beambert.errors import InputError

# The codes of ISO 639-1, each with that of ISO 639-3.
_CODES = (
    "aa:aar ab:abk ae:ave af:afr ak:aka am:amh an:arg ar:ara as:asm av:ava ay:aym az:aze ba:bak "
    "be:bel bg:bul bi:bis bm:bam bn:ben bo:bod br:bre bs:bos ca:cat ce:che ch:cha co:cos cr:cre "
    "cs:ces cu:chu cv:chv cy:cym da:dan de:deu dv:div dz:dzo ee:ewe el:ell en:eng eo:epo es:spa "
    "et:est eu:eus fa:fas ff:ful fi:fin fj:fij fo:fao fr:fra fy:fry ga:gle gd:gla gl:glg gn:grn "
    "gu:guj gv:glv ha:hau he:heb hi:hin ho:hmo hr:hrv ht:hat hu:hun hy:hye hz:her ia:ina id:ind "
    "ie:ile ig:ibo ii:iii ik:ipk io:ido is:isl it:ita iu:iku ja:jpn jv:jav ka:kat kg:kon ki:kik "
    "kj:kua kk:kaz kl:kal km:khm kn:kan ko:kor kr:kau ks:kas ku:kur kv:kom kw:cor ky:kir la:lat "
    "lb:ltz lg:lug li:lim ln:lin lo:lao lt:lit lu:lub lv:lav mg:mlg mh:mah mi:mri mk:mkd ml:mal "
    "mn:mon mr:mar ms:msa mt:mlt my:mya na:nau nb:nob nd:nde ne:nep ng:ndo nl:nld nn:nno no:nor "
    "nr:nbl nv:nav ny:nya oc:oci oj:oji om:orm or:ori os:oss pa:pan pi:pli pl:pol ps:pus pt:por "
    "qu:que rm:roh rn:run ro:ron ru:rus rw:kin sa:san sc:srd sd:snd se:sme sg:sag si:sin sk:slk "
    "sl:slv sm:smo sn:sna so:som sq:sqi sr:srp ss:ssw st:sot su:sun sv:swe sw:swa ta:tam te:tel "
    "tg:tgk th:tha ti:tir tk:tuk tl:tgl tn:tsn to:ton tr:tur ts:tso tt:tat tw:twi ty:tah ug:uig "
    "uk:ukr ur:urd uz:uzb ve:ven vi:vie vo:vol wa:wln wo:wol xh:xho yi:yid yo:yor za:zha zh:zho "
    "zu:zul"
)
_LONG_CODES = {long: short for short, long in (pair.split(":") for pair in _CODES.split())}
LANGUAGES = frozenset(_LONG_CODES.values())
# Codes of ISO 639-3 for the standard form of a language, which corpora of the web use in its place.
_LONG_CODES |= {
    **{"arb": "ar", "azj": "az", "cmn": "zh", "ekk": "et", "khk": "mn", "lvs": "lv", "npi": "ne"},
    **{"ory": "or", "pes": "fa", "swh": "sw", "uzn": "uz", "yue": "zh", "zsm": "ms"},
}
DEFAULT_LANGUAGE = "en"
# A tag of BCP 47, such as zh-Hant-TW, also with underscores, as in eng_Latn.
_TAG = re.compile(r"([a-z]{2,3})(?:[-_][a-z0-9]{1,8})*", re.IGNORECASE)


def language_of(tag: str) -> str:
    """Returns the code of a tag's language; "" if it is no language.

    It is the code of ISO 639-1 where the language has one. Any other code of three letters stands
    for itself, as there are some 7,000 of them.

    Args:
      tag: tag of BCP 47, such as "de", "zh-Hant", "pt_BR" or "tha_Thai".
    """
    found = _TAG.fullmatch(tag.strip())
    code = found[1].lower() if found else ""
    if len(code) == 2:
        return code if code in LANGUAGES else ""
    return _LONG_CODES.get(code, code)


def check_language(language: str) -> None:
    """Refuses what is no code of a language, as of a country.

    Raises:
      InputError: it is no code of ISO 639-1.
    """
    if language not in LANGUAGES:
        raise InputError(
            f"--language={language}: is no ISO 639-1 code; name that of the text, such as en or "
            "zh, or of a related language"
        )
