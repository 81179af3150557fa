"""Hosts and URLs that are replaced, each with its source, and text that must stay."""

import time

import pytest
from support.scrubbed_text import missed, replaced

# RFC 4291, section 2.2, RFC 5952 and RFC 6052, section 2.4.
HOSTS = [
    "ABCD:EF01:2345:6789:ABCD:EF01:2345:6789",
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
