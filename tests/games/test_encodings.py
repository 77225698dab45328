"""In which encoding a file is: as people and servers write records, with and without a word about it."""

from __future__ import annotations

import codecs
from itertools import pairwise

import pytest

from pipeline.errors import MuGoError
from pipeline.games.encodings import decode
from pipeline.games.sgf import main_line, read_sgf
from pipeline.games.specs import parse_game

# Second halves of characters are "\" or "]" in 表, 能, 十, Ⅸ and ゾ, Ⅹ of Shift JIS, in 功, 許, 蓋, 育 of Big5, and in
# 誠, 謀 of GBK. The others only lose names and comments.
JAPAN = ("ソラ表", "ゾラ能", "これは試しに並べただけの棋譜です。白はまだ考えていない。つぎの一手は星、十")
TAIWAN = ("測功", "許蓋育", "這是一份測試用的棋譜，黑棋先下在星位，白棋還沒有想好要怎麼下，大家都說會成功")
CHINA = ("试手誠", "测手謀", "这是一份测试用的棋谱，黑棋先下在星位，白棋还没有想好要怎么下，大家都说很誠")
KOREA = ("시험하나", "시험둘", "이것은 시험으로 만든 기보입니다. 흑은 화점에 두고 백은 아직 생각하고 있습니다.")
ROMAN = ("ソラⅩ", "ゾラⅨ", JAPAN[2][:-1] + "Ⅸ")  # Ⅹ and Ⅸ are in Windows' Shift JIS alone
RARE = ("똠하나", "펲둘", KOREA[2])  # 똠 and 펲 are in Windows' EUC-KR alone
EAST_ASIA = [  # a codec, (black, white, comment), what the file calls its encoding, what it is
    ("cp932", JAPAN, ["", "UTF-8", "ISO-8859-1"], "Shift JIS"),
    ("cp932", ROMAN, ["Shift_JIS"], "Shift JIS"),
    ("euc_jp", JAPAN, ["", "Shift_JIS"], "EUC-JP"),
    ("big5", TAIWAN, ["", "UTF-8", "windows-1252", "gb2312"], "Big5"),
    ("gbk", CHINA, ["", "UTF-8", "GB2312"], "GBK"),
    ("euc_kr", KOREA, ["", "UTF-8"], "EUC-KR"),
    ("cp949", RARE, ["EUC-KR"], "EUC-KR"),
    ("utf-16-le", JAPAN, ["", "UTF-16LE", "UTF-8"], "UTF-16"),
    ("utf-16-be", CHINA, ["", "UTF-8"], "UTF-16"),
    ("utf-8-sig", KOREA, ["", "Shift_JIS"], "UTF-8"),
    ("utf-8", JAPAN, ["", "GBK", "nonsense", "idna", "_x"], "UTF-8"),
]
MARKS = {"utf-16-le": codecs.BOM_UTF16_LE, "utf-16-be": codecs.BOM_UTF16_BE}


@pytest.mark.parametrize(
    ("codec", "people", "charset", "name"),
    [(codec, people, charset, name) for codec, people, charsets, name in EAST_ASIA for charset in charsets],
)
def test_records_of_east_asia(codec: str, people: tuple[str, str, str], charset: str, name: str) -> None:
    (black, white, comment), said = people, f"CA[{charset}]" * bool(charset)
    text = f"(;GM[1]FF[4]{said}SZ[19]PB[{black}]PW[{white}]KM[6.5]RE[W+R];B[qd]C[{comment}];W[cp];B[dc];W[qq])"
    data = MARKS.get(codec, b"") + text.encode(codec, "replace")
    line, record = main_line(data), read_sgf(data, parse_game("go:19"))
    assert (record.black, record.white, line.nodes[1]["C"]) == (black, white, [comment])
    assert (record.komi, len(record.moves), record.moves[-1]) == (6.5, 4, (1, 16 * 19 + 16))
    notes = " ".join(record.notes)
    assert ("" if name == "UTF-8" else f"in {name}") in notes and ("as it says" not in notes or charset in notes)


SHORT = [  # records hold little else than two names
    ("gb18030", ["俞斌 曹大元", "檀啸 毛睿龙", "飘零剑客 醉卧沙场", "绝艺 星阵", "猪八戒 孙悟空", "芈昱廷 唐韦星"]),
    ("cp950", ["夏大銘 林至涵", "張栩 王立誠", "楊士海 周平強", "孫悟空 豬八戒"]),
    ("cp932", ["趙治勲 小林光一", "大竹英雄 加藤正夫", "謝依旻 向井千瑛", "名無し ゲスト", "井山裕太 一力遼"]),
    ("euc_jp", ["趙治勲 小林光一", "河野臨 村川大介", "羽生善治 谷川浩司"]),
    ("cp949", ["유창혁 목진석", "왕초보 천하무적", "신진서 박정환", "최정 오유진"]),
    ("cp1251", ["Натансон Богданов", "Дмитрий Сурин"]),
    ("koi8_r", ["Иван Петров"]),
    ("cp1252", ["Jérôme Håkan", "José Müller", "Pérez Núñez"]),
    ("iso2022_jp", ["大竹英雄 加藤正夫"]),
    ("utf-16-le", ["大竹英雄 Müller"]),
    ("utf-8", ["大竹英雄 加藤正夫", "José Müller", "檀啸 毛睿龙", "Иван Петров", "Pérez Núñez"]),
]


@pytest.mark.parametrize(("codec", "names"), [(codec, names) for codec, each in SHORT for names in each])
def test_two_names_are_enough(codec: str, names: str) -> None:
    black, white = names.split()
    text = f"(;GM[1]FF[4]SZ[19]PB[{black}]PW[{white}]KM[6.5];B[qd];W[dc];B[dp])\n"
    declared = ["", codec, "UTF-8", "ISO-8859-1"] if codec != "utf-8" else ["", "GBK", "Shift_JIS", "ISO-8859-1"]
    for charset in declared:
        assert decode(text.encode(codec), charset).text == text


# Names that aren't in the lists of encodings.py, by the encodings that people of their language use, the usual one
# first. Alone, many second bytes are those of "]" in Big5, GBK or Shift JIS: "ł]" is one character there.
EUROPE = [
    ("cp1250 iso8859-2", "Wałęsa Ziółkowski Gałązka Łoś Świątek Głowacki Szczęsny Řezníček Zemánek Kubíček Jeřábek"),
    ("cp1250 iso8859-2", "Šebesta Tříska Roubíček Klíč Hőgyes Kőműves Gyürki Böröcz Győri Hegedűs Lőrincz"),
    ("cp1252 iso8859-1", "Höfer Küster Weißmann Gärtner Aurélie Françoise Guérin Castañeda Zúñiga Åstrand"),
    ("cp1254 iso8859-9", "Demirtaş Kılıçoğlu Işık Bağcı Ağca Soğukpınar Yiğit Başaran"),
    ("cp1253 iso8859-7", "Καζαντζάκης Ελύτης Αριστοτέλης Βενιζέλος Κυριάκος Δέσποινα Λουκάς"),
    ("cp1251 koi8-r cp866 iso8859-5", "Гоголь Достоевский Щербаков Рябов Толстой Пушкин Чайковский Ушаков Юдин"),
    ("cp1251 koi8-u", "Хмельницький Грушевський Зеленський Їжакевич Яценюк Тарас Сікорський"),
]
SIGNS = "€£§©®°±²µ·º¿¡¢«»–—‘’“”•…™½¼¾×ª¤¦¶ÖÄéßØÞ"


def _read(text: str, codec: str) -> tuple[str, str]:
    """The names of a record of four moves and a komi of 6.5, whose moves and komi are never lost."""
    record = read_sgf(text.encode(codec), parse_game("go:19"))
    assert (len(record.moves), record.komi) == (4, 6.5)
    return record.black, record.white


@pytest.mark.parametrize(("codec", "names"), [(codec, names) for codecs_, names in EUROPE for codec in codecs_.split()])
def test_records_of_europe(codec: str, names: str) -> None:
    people = names.split()
    for declared in ("", f"CA[{codec}]", "CA[UTF-8]"):
        for black, white in [*pairwise(people), *((name, "Smith") for name in people)]:
            text = f"(;GM[1]{declared}SZ[19]KM[6.5]PB[{black}]PW[{white}];B[pd];W[dd];B[pp];W[dp])"
            assert _read(text, codec) == (black, white)


@pytest.mark.parametrize(("codec", "komi", "name"), [("cp1252", "6½", "José"), ("cp1250", "6.5", "Paweł")])
def test_one_sign_loses_no_move(codec: str, komi: str, name: str) -> None:
    for sign in filter(lambda sign: sign.encode(codec, "ignore"), SIGNS):
        for value in (f"Smith{sign}", sign, f"50 {sign}", f"{sign}100", f"{sign}x", f"x{sign}y"):
            for black in ("Smith", name):
                _read(f"(;SZ[19]EV[{value}]KM[{komi}]PB[{black}]PW[{value}];B[pd];W[dd]C[{value}];B[pp];W[dp])", codec)


@pytest.mark.parametrize(
    ("declared", "codec", "black", "white"),
    [
        ("ISO-8859-15", "iso8859-15", "€", "Žan"),
        ("ISO-8859-2", "iso8859-2", "Šimon", "Žižka"),
        ("IBM866", "cp866", "Ли", "Иванов"),
        ("KOI8-U", "koi8-u", "Їжак", "Ґудзь"),
        ("TIS-620", "cp874", "สมชาย", "ไทย"),
        ("windows-874", "cp874", "สมชาย", "ไทย"),
        ("windows-1255", "cp1255", "שלום", "דוד"),
        ("windows-1257", "cp1257", "Jānis", "Bērziņš"),
        ("macintosh", "mac-roman", "Jörg", "Ünal"),
        ("x-sjis", "cp932", "表", "能"),
        ("Windows-31J", "cp932", "髙尾", "Smith"),
    ],
)
def test_a_declared_encoding_is_obeyed(declared: str, codec: str, black: str, white: str) -> None:
    text = f"(;CA[{declared}]SZ[19]KM[6.5]PB[{black}]PW[{white}];B[pd];W[dd];B[pp];W[dp])"
    assert _read(text, codec) == (black, white)
    assert "as it says" not in decode(text.encode(codec), declared).note


def test_east_asian_text_beside_ascii() -> None:
    for codec, names in [
        ("cp932", "饅 濬 喀 ｱｲｳ ﾔﾏﾀﾞ 能 表 構"),
        ("cp950", "功 許 育 么"),
        ("cp949", "李昌鎬 劉昌赫 朴廷桓 李世乭"),
    ]:
        for name in names.split():
            text = f"(;SZ[19]KM[6.5]PB[Smith]PW[{name}];B[pd];W[dd];B[pp];W[dp])"
            _read(text, codec)
            assert _read(text.replace("SZ", f"CA[{codec}]SZ"), codec) == ("Smith", name)


def test_what_is_told_of_an_encoding() -> None:
    assert decode("ソラ".encode()).note == decode(b"plain", "Big5").note == ""
    assert decode("ソラ表".encode("cp932")).note == "its text is in Shift JIS"
    assert decode("ソラ表".encode("cp932"), "Shift_JIS").note == "its text is in Shift JIS"
    assert decode("ソラ表".encode("cp932"), "utf8").note == "its text is in Shift JIS, not in 'utf8' as it says"
    assert decode("ソラ表を".encode(), "Shift_JIS").note == "its text is in UTF-8, not in 'Shift_JIS' as it says"
    assert decode("½".encode("cp1252")).text == decode("½\0\0".encode("cp1252")).text == "½"


@pytest.mark.parametrize("sign", ["\ue000", "\x85", "\x01", "\x1b", "\x7f", "\ufeff"])
def test_utf8_with_an_odd_sign_is_utf8(sign: str) -> None:
    for declared in ("", "UTF-8", "Shift_JIS"):
        found = decode(f"(;PB[日本{sign}太郎]KM[6.5])".encode(), declared)
        assert (found.text, found.encoding) == (f"(;PB[日本{sign.strip(chr(0xFEFF))}太郎]KM[6.5])", "UTF-8")
    assert decode("(;GM[1]\ufeffKM[6.5])".encode()).text == "(;GM[1]KM[6.5])", "two files, put together"


@pytest.mark.parametrize(
    ("data", "problem"),
    [
        ("(;CA[UTF-8]PB[Иванов Пётр".encode()[:-1] + b"])", "damaged: UTF-8 except for byte 33"),
        (bytes(range(128, 256)), "in no known encoding"),
        (b"\x89PNG\r\n\x1a\n" + bytes(range(256)), "in no known encoding"),
        ("手合割：平手".encode()[:-1], "damaged: UTF-8 except for byte 15; was the file cut off"),
        (b"(;PB[" + "柯洁".encode() + b"]PW[\xe5];B[ee])", "damaged: UTF-8 except for byte 15"),
        (b"(;PB[\xff\0])", "in no known encoding"),
        (codecs.BOM_UTF16_LE + b"a\0b", "damaged: its mark says UTF-16, but byte 4 doesn't fit"),
        (codecs.BOM_UTF8 + b"\xff", "damaged: its mark says UTF-8"),
    ],
)
def test_what_fits_no_encoding_is_refused(data: bytes, problem: str) -> None:
    for declared in ("", "UTF-8", "Shift_JIS"):
        with pytest.raises(MuGoError, match=problem):
            decode(data, declared)
    with pytest.raises(MuGoError, match="damaged: UTF-8 except for byte 8"):
        decode("(;PB[日本".encode()[:-1] + b"])", "UTF-8")
