"""In which encoding a record is written: one function that decodes the files of all formats.

Programs and servers write records in the encoding of their country, and many don't say so, or say something else. A
wrong guess isn't only a wrong name: a second byte of Shift JIS or Big5 may be the code of ``\\`` or ``]``, so SGF loses
moves. A text is therefore decoded as a whole, before anything is parsed, and a file that fits no encoding is refused.

In this order: a byte order mark; the encoding that the record names, if all of it decodes to plausible text; UTF-8; of
the encodings of Japan, China, Taiwan, Korea, Russia and Western Europe the one in which the text is the most plausible.
Records hold little text, often two names of two characters each. So plausibility goes by character: one that records
are full of, one of the common half of its encoding's table, one of the rare half, or one that is hardly ever written.
"""

from __future__ import annotations

import codecs
import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice

from pipeline.errors import MuGoError

MARKS = {  # the longer mark first: UTF-32's begins like that of UTF-16
    codecs.BOM_UTF32_LE: "utf-32",
    codecs.BOM_UTF32_BE: "utf-32",
    codecs.BOM_UTF8: "utf-8-sig",
    codecs.BOM_UTF16_LE: "utf-16",
    codecs.BOM_UTF16_BE: "utf-16",
}
NAMES = {  # of the encodings that are tried, as people call them
    "utf-8": "UTF-8",
    "utf-8-sig": "UTF-8",
    "utf-16": "UTF-16",
    "utf-16-le": "UTF-16",
    "utf-16-be": "UTF-16",
    "utf-32": "UTF-32",
    "cp932": "Shift JIS",
    "gb18030": "GBK",
    "cp950": "Big5",
    "big5hkscs": "Big5",
    "cp949": "EUC-KR",
    "euc_jp": "EUC-JP",
    "iso2022_jp": "ISO-2022-JP",
    "cp1251": "Windows-1251",
    "koi8_r": "KOI8-R",
    "cp1252": "Windows-1252",
    "cp1250": "Windows-1250",
}
# Python's names, as codecs.lookup gives them, with the one to read them by: Windows writes more characters than the
# standards have. Its codecs that aren't of texts, or that take long (idna, punycode), are in no list.
READ_AS = {
    **{name: "utf-8" for name in ("utf-8", "utf-8-sig", "ascii")},
    **{name: name for name in ("utf-16", "utf-16-le", "utf-16-be", "utf-32", "iso2022_jp", "cp1251", "cp1250")},
    **{name: "cp932" for name in ("cp932", "shift_jis", "shift_jis_2004", "shift_jisx0213")},
    **{name: "euc_jp" for name in ("euc_jp", "euc_jis_2004", "euc_jisx0213")},
    **{name: "gb18030" for name in ("gb2312", "gbk", "gb18030", "hz")},
    **{name: "cp950" for name in ("big5", "cp950")},
    "big5hkscs": "big5hkscs",
    **{name: "cp949" for name in ("euc_kr", "cp949", "johab")},
    **{name: "koi8_r" for name in ("koi8-r", "koi8-u")},
    **{name: "cp1252" for name in ("iso8859-1", "iso8859-15", "cp1252", "latin-1")},
    "iso8859-2": "cp1250",
    "iso8859-5": "cp1251",
}
GUESSED = ("cp932", "gb18030", "cp950", "cp949", "euc_jp", "cp1251", "cp1252", "koi8_r")  # the first of equals wins

FREQUENT, COMMON, RARE, ODD = 1.0, 0.6, 0.3, 0.0  # plausibility of a character
DECLARED_BONUS = 0.4  # an encoding that is named may hold rare characters
LEAST = 0.28  # mean plausibility of a text that is believed
MOST_CHARACTERS = 4000  # that are looked at, without ASCII
SYMBOLS = "«»“”„‘’–—…№·°½¼¾©®\u00a0"
_FOREIGN = re.compile("[^\\x00-\\x7f]")
_LONG = re.compile("[^\\x00-\\u07ff]")  # three bytes and more in UTF-8
_CONTROLS = re.compile("[\\x00-\\x08\\x0e-\\x19\\x1b-\\x1f\\x7f-\\x9f\\ufeff\\ue000-\\uf8ff]")
_WORD = re.compile(r"[^\W\d_]+|[^\x00-\x7f]")
# Characters that people's names and the words of records are full of. Not by count of a corpus: what the lists leave
# out is only less plausible.
CHINESE = set(
    "王李张刘陈杨赵黄周吴徐孙胡朱高林何郭马罗梁宋郑谢韩唐冯于董萧程曹袁邓许傅沈曾彭吕苏卢蒋蔡贾丁魏薛叶阎余潘杜戴夏钟汪田任姜"
    "范方石姚谭廖邹熊金陆郝孔白崔康毛邱秦江史顾侯邵孟龙万段雷钱汤尹黎易常武乔贺赖龚文柯洁朴廷桓古力昊聂卫平晓春耀烨时越昱睿羊伟杰"
    "钰笑党毅飞鼎新梓豪尔嘉阳钦诚浩星云嵩强明华国建军志海波辉玲东宇天子大小一二三四五六七八九十中上下人名的是了不我在有这个们来"
    "说为着手先后执黑胜负半目盘棋围战赛杯段级业余第届局决本因坊对贴让年月日对弈快友谊网络测试谱用白开始还没想好要怎么都会成功很好"
    "新手路爱好者无敌师猫分钟秒读又北京上海广州杭州中国日本韩国职士老虎风雨山水火"
    "張劉陳楊趙黃吳孫馬羅鄭謝韓馮蕭鄧許呂蘇盧賈葉閻鍾譚鄒陸顧龍萬錢湯賀賴龔皓鋐元均俊勳詩淵君諺輔栩立誠簡靖庭家正浩祥"
    "勝負盤圍戰賽級業餘屆決對讓時執後個們來說為著測試譜還沒開會樣應該長連飛壓扳斷愛網路學習師聯台灣臺北恩徐嘉俞俐育蓋押這是一份"
)
JAPANESE = set(
    "田山本川村井中小大木野上下藤高松島原林石橋森池清水谷西東北南金岡三一二五郎太夫男子雄治夫正和光秀明美也介樹平斎佐伊加近遠"
    "渡辺鈴後長前内坂垣依張栩芝虎丸羽根直紀尾紳路敬吾栄行坊策安知道井裕力遼関航佐史菫牛因愛咲里菜家元許生善聡瀬章渡"
    "黒白番勝負押目半棋戦名人天王座碁聖十段九八七六四初先手後局譜対記録級杯予選決挑準第回日月年時分秒棋院将竜玉飛角銀桂香歩成"
    "平詰投了作者場所終開始消費間数指合割終了表戦型備考"
)
KOREAN = set(
    "김이박최정강조윤장임한오서신권황안송류전홍고문양손배백허유남심노하곽성차주우구민현준지영수진호동승원태재상석경혜은희철훈창세돌"
    "흑불계반집기국단급제회다는을를가에의로도과와그대결선본전인시험둘나것으만든보입니합점두아직생각고있습시합대회바둑명왕위"
)


@dataclass(frozen=True)
class Text:
    """A decoded file. encoding: one of NAMES' values; note: what to tell people about it, "" for UTF-8 as usual."""

    text: str
    encoding: str
    note: str = ""


def decode(data: bytes, declared: str = "") -> Text:
    """Decode a whole file. declared: the encoding that it names, in any spelling; "": none.

    The text has no byte order mark. Raises MuGoError for a file that fits no encoding.
    """
    for mark, encoding in MARKS.items():
        if data.startswith(mark):
            return _marked(data, encoding, declared)
    if data.isascii() and not (b"\x1b$" in data or b"\0" in data):
        return Text(data.decode(), NAMES["utf-8"])
    _check_utf8(data)
    score, encoding, text = max(_readings(data, _known(declared)), key=lambda one: one[0], default=(0.0, "", ""))
    if score < LEAST:
        raise MuGoError(
            "in no known encoding: no plausible text in UTF-8, Shift JIS, EUC-JP, GBK, Big5, EUC-KR, Windows-1251 or "
            "Windows-1252; wanted UTF-8"
        )
    return Text(text, NAMES[encoding], _note(encoding, declared))


def _marked(data: bytes, encoding: str, declared: str) -> Text:
    try:
        return Text(data.decode(encoding), NAMES[encoding], _note(encoding, declared))
    except UnicodeDecodeError as error:
        raise MuGoError(f"damaged: its mark says {NAMES[encoding]}, but byte {error.start} doesn't fit") from error


def _check_utf8(data: bytes) -> None:
    """Raise MuGoError for UTF-8 with a damaged place, such as the end of a file that was cut off within a character."""
    try:
        data.decode("utf-8")
    except UnicodeDecodeError as error:
        text = data.decode("utf-8", "replace")
        damaged = text.count("\ufffd")
        if len(_LONG.findall(text)) - damaged >= 2 * damaged:
            raise MuGoError(f"damaged: UTF-8 except for byte {error.start:,}; was the file cut off?") from error


def _known(declared: str) -> str:
    """The codec for a declared encoding; "" if it is none of those that are read."""
    try:
        return READ_AS.get(codecs.lookup(declared.strip()[:20]).name, "") if declared.strip().isascii() else ""
    except (LookupError, ValueError):
        return ""


def _note(encoding: str, declared: str) -> str:
    name = NAMES[encoding]
    if not declared.strip() or NAMES.get(_known(declared)) == name:
        return "" if name == NAMES["utf-8"] else f"its text is in {name}"
    return f"its text is in {name}, not in {declared.strip()[:20]!r} as it says"


def _readings(data: bytes, declared: str) -> Iterator[tuple[float, str, str]]:
    """(plausibility, encoding, text) of every encoding in which all of the data can be decoded, the preferred first."""
    wide = _without_mark(data)
    tried = dict.fromkeys([*([declared] if declared else []), *([wide] if wide else []), "utf-8", *GUESSED])
    if declared == "cp950" or not declared:
        tried["big5hkscs"] = None
    if b"\x1b$" in data:
        tried = dict.fromkeys(["iso2022_jp", *tried])
    for encoding in tried:
        try:
            text = data.decode(encoding)
        except UnicodeDecodeError:
            continue
        score = _plausibility(text, encoding)
        if encoding == declared:
            score += DECLARED_BONUS * (score > 0)
        if encoding == "utf-8" and score:
            # Hardly any text in another encoding is UTF-8, except a few pairs of bytes.
            is_long = _LONG.search(text) or len(data) - len(text) > 4
            score += 1.0 if is_long or _letters(text, False) > 0.5 else 0.3
        yield score * (0.95 if encoding == "euc_jp" else 1.0), encoding, text


def _without_mark(data: bytes) -> str:
    """UTF-16 whose byte order mark is missing: every other byte of its first characters is 0."""
    begin = data[:8]
    if len(begin) == 8 and len(data) % 2 == 0:
        if not any(begin[1::2]) and all(begin[::2]):
            return "utf-16-le"
        if not any(begin[::2]) and all(begin[1::2]):
            return "utf-16-be"
    return ""


def _plausibility(text: str, encoding: str) -> float:
    """The mean over the characters that aren't ASCII, 0 to 1; 0 for control characters that no text has."""
    if _CONTROLS.search(text):
        return 0.0
    characters = [found[0] for found in islice(_FOREIGN.finditer(text), MOST_CHARACTERS)]
    if not characters:
        return FREQUENT
    if encoding in ("cp1251", "koi8_r", "cp1252", "cp1250"):
        return _letters(text, encoding in ("cp1251", "koi8_r"))
    counts = Counter(characters)
    return sum(_worth(character, encoding) * count for character, count in counts.items()) / len(characters)


def _worth(character: str, encoding: str) -> float:
    """How plausible a character is in a text of this encoding."""
    if encoding.startswith("utf"):
        return ODD if not character.isprintable() and not character.isspace() else COMMON
    raw = character.encode(encoding)
    if "\uff61" <= character <= "\uff9f":  # kana of half width
        return ODD
    if encoding in ("cp932", "euc_jp", "iso2022_jp"):
        if "\u3041" <= character <= "\u30fe" or character in JAPANESE:
            return FREQUENT
        lead = character.encode("cp932", "replace")[0]
        return COMMON if lead in (0x81, 0x82) or 0x88 <= lead <= 0x97 else RARE if 0x98 <= lead <= 0xEA else ODD
    if len(raw) != 2:
        return ODD
    lead, trail = raw
    if encoding == "cp949":
        if character in KOREAN:
            return FREQUENT
        if 0xB0 <= lead <= 0xC8 and trail >= 0xA1:
            return COMMON
        return RARE if lead in (0xA1, 0xA3) or "\uac00" <= character <= "\ud7a3" else 0.15
    if character in CHINESE:
        return FREQUENT
    if encoding == "gb18030":
        if trail < 0xA1 or lead < 0xA1:
            return 0.1
        return COMMON if lead in (0xA1, 0xA3) or 0xB0 <= lead <= 0xD7 else RARE if 0xD8 <= lead <= 0xF7 else ODD
    return COMMON if 0xA1 <= lead <= 0xC6 and lead != 0xA3 else RARE if 0xC9 <= lead <= 0xF9 else ODD


def _letters(text: str, cyrillic: bool) -> float:
    """For encodings of one byte: how many of the letters that aren't ASCII are where people write them, 0 to 0.75.

    That is, in words without a capital behind a small letter, and in Latin with letters of ASCII beside them.
    """
    good = bad = 0
    words = (found[0] for found in _WORD.finditer(text) if not found[0].isascii())
    for word in islice(words, MOST_CHARACTERS):
        if not word.isalpha():
            bad += sum(character not in SYMBOLS for character in word)
            continue
        foreign = _FOREIGN.findall(word)
        fits = word[1:].islower() or len(word) == 1 or word.isupper()
        if cyrillic:
            fits &= len(word) > 1 and all("\u0400" <= letter <= "\u045f" for letter in word)
        else:
            fits &= len(foreign) < len(word) < 2 * len(word) - 2 * len(foreign) + 2 or word.lower() in "àéèíóòùú"
        good, bad = good + fits * len(foreign), bad + (not fits) * len(foreign)
    return 0.75 * good / (good + bad) if good + bad else COMMON
