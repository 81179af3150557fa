"""What is replaced: public lists of formats, each with its source, and text that must stay."""

import json
import pathlib
import random
import re
import subprocess
import sys
import time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.absent_packages import without
from support.scrubbed_text import US, missed, replaced

from beambert.errors import InputError
from beambert.pipelines.text.scrubbing import PLACEHOLDERS, check_scrubbing, scrub

ALL = tuple(PLACEHOLDERS)
PREAMBLES = json.loads(
    pathlib.Path(__file__).parents[2].joinpath("golden", "preambles.json").read_text("utf-8")
)


# RFC 5322, appendix A.1, RFC 6531's addresses of any script, RFC 3696 (and its errata), section 3,
# and the list of "Email address" in Wikipedia.
ADDRESSES = r"""
jdoe@machine.example mary@x.test smith@home.example john.q.public@example.com joe@where.test
_somename@example.com user.name+tag+sorting@example.com user-@example.org
long.email-address-with-hyphens@and.subdomains.example.com
1234567890123456789012345678901234567890123456789012345678901234@example.com
用户@例子.广告 квіточка@пошта.укр χρήστης@παράδειγμα.ελ Dörte@Sörensen.example.com коля@пример.рф
अजय@डाटा.भारत
"""


def test_addresses_of_mail():
    examples = re.findall(r'(?:"[^"]*"@)?\S+', ADDRESSES)
    assert len(examples) == 16
    assert missed("email", examples) == []
    assert replaced("email", "Mail me@example.org.I will") == "Mail [email].I will"
    text = "me@home, @user, a.b.@c.de, 3@4.5, x @ y.org, a@b, see p. 3@"
    assert replaced("email", text) == text
    # Domains may begin with digits: these are of the greatest providers of mail in China.
    assert missed("email", ["wang@163.com", "li@126.com", "a@1und1.de", "x@9.example"]) == []
    assert replaced("email", "at 3@4.50 each, 2@1.5-2.5 and @163.com") == (
        "at 3@4.50 each, 2@1.5-2.5 and @163.com"
    )
    # Marks that an address may hold stand between addresses, or are those of a program.
    text = "a@x.com/b@y.com|c@z.org, mailto:a@b.com?cc=c@d.com&bcc=e@f.org, `bob@x.org`"
    assert replaced("email", text) == (
        "[email]/[email]|[email], mailto:[email]?cc=[email]&bcc=[email], `[email]`"
    )
    code = "``@pytest.fixture`` and `@babel.core`"
    assert replaced("email", code) == code
    # No spaces part Chinese from an address.
    assert replaced("email", "请联系我们user@example.com联系") == "请联系我们[email]联系"


@pytest.mark.slow
def test_telephone_numbers_of_every_country():
    """The examples of libphonenumber: numbers of all kinds of 245 regions, in four notations."""
    library = pytest.importorskip("phonenumbers")
    notations = library.PhoneNumberFormat
    found = {"foreign": [0, 0], "own": [0, 0]}
    for region in sorted(library.SUPPORTED_REGIONS):
        for kind in (library.PhoneNumberType.FIXED_LINE, library.PhoneNumberType.MOBILE):
            number = library.example_number_for_type(region, kind)
            if number is None:
                continue
            for notation in (notations.E164, notations.INTERNATIONAL, notations.RFC3966):
                text = library.format_number(number, notation)
                found["foreign"][0] += not missed("phone", [text.removeprefix("tel:")])
                found["foreign"][1] += 1
            text = library.format_number(number, notations.NATIONAL)
            # Shorter ones look like any other number.
            if sum(map(str.isdigit, text)) >= 7:
                found["own"][0] += not missed("phone", [text], (region,))
                found["own"][1] += 1
    assert found["foreign"][1] > 1400 and found["own"][1] > 450
    for right, count in found.values():
        assert right / count > 0.98, found


@pytest.mark.parametrize(
    "text",
    [
        "in 1914-1918 and 1939–1945",
        "1 2 3 4 5 6 7 8 9 10 11 12",
        "Le Port 26 18 4 4 35-14 84",  # a table of a league, whose digits have Luhn's sum
        "a population of 12,345,678 in 2010",
        "ISBN 978-3-16-148410-0",
        "It has 3.14159265358979 and 2 997 924 580",
        "from 10:30 to 12:45 on 2012-10-31",
        "section 4.1.2.3 of version 10.4.11.2 has the OID 1.3.6.1 (see § 4.1.2.3)",
        "text[::100] and rows[1::200] or f(x)[20::300] and a::b",
        "no more than 2147483647 of 4158675309 rows",
        "ISBN 2-253-01041-3, ISBN-10: 2-253-01041-3",
        "PMID 2128675309 and PMID: 212-867-5309",
        "Let x@W.T be x@W.T_0",
        "0.4111111111111111, 0,4111111111111111 and 3.4111111111111111 are decimals",
        " ".join(str(4152000000 + 8111 * n) for n in range(40)),  # a line of a table
        "as defined in DFARS 252.227-7013, or in Clause\n  252.227-7013 (c)(1)",
        "Decimal('31.01875') and (180.79155222, 163.9080892) [174.0  89.0  199.0]",
        "2050488462815550  1.47925220414035e+2050488462815551]",
        "Chrome/91.0.4472.124 of pp. 573-583. 2020",
        "polynomials with coefficients less than 1000::",
    ],
)
def test_other_numbers_stay(text):
    pytest.importorskip("phonenumbers")
    pytest.importorskip("stdnum")
    assert scrub(text, ALL, ("US", "GB", "DE")) == (text, {})


# Examples of the SWIFT IBAN registry (ISO 13616-2).
IBANS = [
    "AD1200012030200359100100",
    "AE070331234567890123456",
    "BE68539007547034",
    "BR1800360305000010009795493C1",
    "CH9300762011623852957",
    "DE89370400440532013000",
    "FR1420041010050500013M02606",
    "GB29NWBK60161331926819",
    "IT60X0542811101000000123456",
    "KW81CBKU0000000000001234560101",
    "MT84MALT011000012345MTLCAST001S",
    "NO9386011117947",
    "QA58DOHB00001234567890ABCDEFG",
]


@pytest.mark.parametrize(
    "text, expected",
    [
        ("12/31/2019 415-867-5309", "12/31/2019 [phone]"),
        ("+1 415-867-5309 in 2019", "[phone] in 2019"),
        ("415-867-5309 17 212-867-5309", "[phone] 17 [phone]"),
        ("tel. 4158675309 or 2128675309", "tel. [phone] or [phone]"),
        ("Call 4158675309.", "Call [phone]."),
        ("415-867-5309 or 020 7946 0958 or 030 23125148", "[phone] or [phone] or [phone]"),
        ("030 23125148, 415-867-5309", "[phone], [phone]"),
        ("12 415-867-5309 " * 3, "12 [phone] " * 3),
    ],
)
def test_telephone_numbers_beside_others(text, expected):
    pytest.importorskip("phonenumbers")
    assert replaced("phone", text, ("US", "GB", "DE")) == expected


def test_tables_of_numbers_take_little_time():
    """Asking the library about each number takes half a minute."""
    pytest.importorskip("phonenumbers")
    draw = random.Random(1)
    text = "\n".join(
        " ".join(str(draw.randrange(10**6, 10**8)) for _ in range(40)) for _ in range(1000)
    )
    started = time.process_time()
    assert replaced("phone", text) == text
    assert time.process_time() - started < 3


def grouped(text: str, mark: str) -> str:
    return mark.join(re.findall(".{1,4}", text))


def test_bank_accounts_of_many_countries():
    pytest.importorskip("stdnum")
    assert missed("iban", [*IBANS, *(grouped(each, " ") for each in IBANS)]) == []
    for iban in IBANS:
        # One digit is another, or one is missing: the sum or the length is wrong.
        wrong = iban[:-1] + ("1" if iban[-1] != "1" else "2")
        assert replaced("iban", f"Pay to {wrong} now.") == f"Pay to {wrong} now."
        assert replaced("iban", f"Pay to {iban[:-1]} now.") == f"Pay to {iban[:-1]} now."
    text = f"PAY TO {grouped(IBANS[0], ' ')} IN TIME"
    assert replaced("iban", text) == "PAY TO [account] IN TIME"


# The numbers for tests that PayPal, Stripe and Adyen publish.
CARDS = [
    "378282246310005",
    "30569309025904",
    "6011111111111117",
    "3530111333300000",
    "5555555555554444",
    "4111111111111111",
    "4222222222222",
    "2223003122003222",
    "6200000000000005",
    "3056930009020004",
    "36227206271667",
    "6759649826438453",
]


def test_payment_cards():
    pytest.importorskip("stdnum")
    cards = [*CARDS, "5105105105105100"]
    cards += [grouped(card, mark) for card in cards if len(card) == 16 for mark in " -"]
    assert missed("card", [*cards, "3782 822463 10005", "3056 930902 5904"]) == []
    for card in CARDS:
        wrong = card[:-1] + str((int(card[-1]) + 1) % 10)
        assert replaced("card", f"Pay by {wrong}.") == f"Pay by {wrong}."


@pytest.mark.parametrize(
    "text, expected",
    [
        ("4111 1111 1111 1111 123", "[card] 123"),
        ("4111111111111111 123 12/25", "[card] 123 12/25"),
        ("4111 1111 1111 1111 12/25 123", "[card] 12/25 123"),
        ("3782 822463 10005 1234", "[card] 1234"),
        ("No. 12 4111 1111 1111 1111", "No. 12 [card]"),
        ("Jane,4111111111111111,12/25", "Jane,[card],12/25"),
        ("12,4111111111111111,123", "12,[card],123"),
        ("No.4111111111111111.", "No.[card]."),
    ],
)
def test_payment_cards_with_their_date_and_code(text, expected):
    pytest.importorskip("stdnum")
    assert replaced("card", text) == expected


def test_all_at_once():
    pytest.importorskip("phonenumbers")
    pytest.importorskip("stdnum")
    text = "Mail a@b.org or call +44 20 7946 0958;\nhttps://a@b.org/10.0.0.1 and 10.0.0.1."
    scrubbed, counts = scrub(text, ALL, US)
    assert scrubbed == "Mail [email] or call [phone];\n[link] and [host]."
    assert counts == {"email": 1, "phone": 1, "url": 1, "ip": 1}
    assert scrub(scrubbed, ALL, US) == (scrubbed, {})
    assert scrub(text, ("ip",), US)[1] == {"ip": 2}


@pytest.mark.parametrize("language", PREAMBLES)
def test_prose_stays(language):
    pytest.importorskip("phonenumbers")
    pytest.importorskip("stdnum")
    assert scrub(PREAMBLES[language], ALL, US) == (PREAMBLES[language], {})


@settings(derandomize=True, max_examples=80, deadline=None, database=None)
@given(st.text('ab@.:/-"[]() 0123456789\n+W东', max_size=60))
def test_any_text_keeps_its_lines(text):
    """Whatever is replaced, lines stay, and all is counted."""
    pytest.importorskip("phonenumbers")
    pytest.importorskip("stdnum")
    scrubbed, counts = scrub(text, ALL, US)
    assert scrubbed.count("\n") == text.count("\n")
    assert (scrubbed == text) == (not counts)
    for name, placeholder in PLACEHOLDERS.items():
        assert scrubbed.count(placeholder) >= counts.get(name, 0)


@pytest.mark.parametrize(
    "names, regions, message",
    [
        (["phone"], ("UK",), "--phone_regions=UK: is not a region"),
        (["email"], ("GB",), "--phone_regions=GB: has no effect without --scrub=phone"),
    ],
)
def test_refused(names, regions, message):
    if "phone" in names:
        pytest.importorskip("phonenumbers")
    with pytest.raises(InputError, match=re.escape(message)):
        check_scrubbing(names, regions)


@pytest.mark.parametrize("name, package", [("phone", "phonenumbers"), ("card", "stdnum")])
def test_a_missing_package_is_named(name, package):
    code = without({package}) + (
        "from beambert.pipelines.text.scrubbing import check_scrubbing\n"
        "from beambert.errors import InputError\n"
        "check_scrubbing(['email', 'url', 'ip'], ('US',))\n"
        f"try: check_scrubbing(['{name}'], ('US',))\n"
        "except InputError as error: print(error)\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert "pip install -e '.[scrub]'" in done.stdout


# RFC 4291, section 2.2, RFC 5952 and RFC 6052, section 2.4.
HOSTS = [
    "2001:DB8:0:0:8:800:200C:417A",
    "FF01:0:0:0:0:0:0:101",
    "2001:DB8::8:800:200C:417A",
    "FF01::101",
    "0:0:0:0:0:0:13.1.68.3",
    "0:0:0:0:0:FFFF:129.144.52.38",
    "::13.1.68.3",
    "::FFFF:129.144.52.38",
    "2001:db8::1",
    "fe80::1ff:fe23:4567:890a",
    "64:ff9b::192.0.2.33",
    "2001:db8:122:344::192.0.2.33",
    "127.0.0.1",
    "192.168.0.1",
    "255.255.255.255",
    "8.8.8.8",
]


def test_hosts():
    assert missed("ip", HOSTS) == []
    text = "std::string a::b x[::2] 10:20:30 12::30 1.2.3 1.2.3.4.5 256.1.1.1 v1.2.3.4 add::bad"
    assert replaced("ip", text) == text


# RFC 3986, section 1.1.2 and others.
URLS = [
    "http://www.ietf.org/rfc/rfc2396.txt",
    "ftp://ftp.is.co.za/rfc/rfc1808.txt",
    "http://[2001:db8::7]/c=GB?objectClass?one",
    "https://en.wikipedia.org/wiki/Rust_(language)",
    "http://user@host.example:8080/p?q=1&r=a,b#c",
    "www.example.com/a",
    "HTTPS://EXAMPLE.ORG",
    "https://пример.рф/путь",
]


def test_urls():
    assert missed("url", URLS) == []
    assert replaced("url", "See <http://a.b/c>. (Also www.d.e!)") == "See <[link]>. (Also [link]!)"
    assert replaced("url", "Www.example.com and wWw") == "[link] and wWw"
    text = "the www. prefix, http:// and and/or 3://4, http://. Go on"
    assert replaced("url", text) == text


@pytest.mark.parametrize(
    "text, expected",
    [
        ("见http://x.cn/a，然后我们走了。", "见[link]，然后我们走了。"),
        ("请看https://example.com/a?b=1。谢谢", "请看[link]。谢谢"),
        ("詳細はhttps://example.jp/をご覧ください", "詳細は[link]をご覧ください"),
        ("公式サイト（http://www.example.jp/）。", "公式サイト（[link]）。"),
        ("网址www.example.cn：打开", "网址[link]：打开"),
        ("「http://x.jp/a」、「http://x.jp/b」！", "「[link]」、「[link]」！"),
        ("ดูhttps://example.th/ครับ", "ดู[link]ครับ"),
    ],
)
def test_urls_in_scripts_without_spaces(text, expected):
    """A URL begins and ends beside such a letter, and no word of the text goes with it."""
    assert replaced("url", text) == expected


def test_many_brackets_take_no_more_time_than_other_letters():
    """Counting them again for each one would take minutes."""
    text = "(http://x/" + ")" * 300_000
    started = time.process_time()
    assert replaced("url", text) == "([link]" + ")" * 300_000
    assert time.process_time() - started < 2
