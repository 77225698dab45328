r"""In which encoding a record is written: one function that decodes the files of all formats.

Programs and servers write records in the encoding of their country, and many don't say so, or say something else. A
wrong guess isn't only a wrong name: a second byte of Shift JIS or Big5 may be the code of ``\`` or ``]``, so SGF loses
moves. A text is therefore decoded as a whole, before anything is parsed, and a file that fits no encoding is refused.

A byte order mark decides, and so does UTF-8 of some length. Otherwise the reading wins that takes the fewest bits to
write down. Records hold little text, often two names of two characters each, so bits are counted by character:
- a letter of an alphabet takes few where words of its language have it behind the letter before it;
- a character of East Asia takes few if records are full of it, and many from the rare half of its encoding's table;
- a fault in the structure of the format, such as a value that swallowed its ``]``, takes more than any name;
- so does an encoding, by how seldom records are in it, and every other than the declared one takes more.
"""

from __future__ import annotations

import codecs
import math
import re
import unicodedata
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache, lru_cache
from itertools import islice, pairwise

from pipeline.errors import MuGoError

MARKS = {  # the longer mark first: UTF-32's begins like that of UTF-16
    codecs.BOM_UTF32_LE: "utf-32",
    codecs.BOM_UTF32_BE: "utf-32",
    codecs.BOM_UTF8: "utf-8-sig",
    codecs.BOM_UTF16_LE: "utf-16",
    codecs.BOM_UTF16_BE: "utf-16",
}
NAMES = {  # of encodings, as people call them; others by Python's name
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
    "mac-roman": "Mac Roman",
    **{f"cp{number}": f"Windows-{number}" for number in range(1250, 1259)},
    **{f"iso8859-{number}": f"ISO-8859-{number}" for number in range(1, 17)},
}
# Python's names, as codecs.lookup gives them, with the one to read them by: Windows writes more characters than the
# standards have.
READ_AS = {
    **{name: "utf-8" for name in ("utf-8-sig", "ascii")},
    **{name: "cp932" for name in ("shift_jis", "shift_jis_2004", "shift_jisx0213")},
    **{name: "euc_jp" for name in ("euc_jis_2004", "euc_jisx0213")},
    **{name: "gb18030" for name in ("gb2312", "gbk")},
    "big5": "cp950",
    "euc_kr": "cp949",
    "iso8859-1": "cp1252",
    "iso8859-9": "cp1254",
    "tis-620": "cp874",
}
GUESSED = {  # with what a reading costs in bits; the first of equals wins
    name: bits
    for bits, names in (
        (0.0, "utf-8 cp932 gb18030 cp950 cp949 cp1252"),
        (1.0, "cp1250 cp1251"),
        (2.0, "euc_jp big5hkscs cp1253"),
        (3.0, "iso8859-2 iso8859-7 cp1254 koi8-r"),
        (4.0, "koi8-u cp866"),
        (5.0, "iso8859-5"),
        (8.0, "cp850 mac-roman"),
    )
    for name in names.split()
}
EAST_ASIAN = ("cp932", "euc_jp", "iso2022_jp", "gb18030", "cp950", "big5hkscs", "cp949", "johab")

# All in bits, found by trial.
UNDECLARED = 12.0  # an encoding that isn't the declared one
FAULT = 100.0  # of structure
MOST_BITS = 60.0, 10.0  # for a text that is believed, and more for each letter or byte of it that isn't ASCII
FREQUENT, COMMON, RARE, ODD = 9.0, 13.0, 16.0, 19.0  # a character of East Asia
HALF_WIDTH = 6.0  # a kana of half width, and the beginning of a word of them
TOUCHED = 8.0  # a letter of ASCII beside a character of East Asia
OTHER_LETTER = 6.0  # of an alphabet without words below
WRONG_CASE = 8.0  # a capital within a word
SYMBOL, STRANGE = 7.0, 14.0  # a sign that texts have, any other
GLUED = 7.0  # a sign or a digit beside a letter where people leave a blank
DOUBT = 3.0  # how many letters a language's words lack behind each letter
MOST_CHARACTERS = 1000  # that are looked at, without ASCII
SYMBOLS = "«»“”„‘’–—…№·•°ªº½¼¾©®™€£§±×¿¡µ"
OPENING, CLOSING = "«“„”‘’¿¡–—…\u00a0", "»”“’‘–—…®™°ºª²³\u00a0"  # that letters touch: behind, before
_FOREIGN = re.compile("[^\\x00-\\x7f]")
_LONG = re.compile("[^\\x00-\\u07ff]")  # three bytes and more in UTF-8
_CONTROLS = re.compile("[\\x00-\\x08\\x0e-\\x19\\x1b-\\x1f\\x7f-\\x9f\\ufeff\\ue000-\\uf8ff]")
_LETTERS = re.compile(r"[^\W\d_ªºµ¹²³¼½¾]{1,100}")
_LETTERS_BEFORE = re.compile(r"[A-Za-z]*\Z")
_HALF_WIDTH = re.compile("[\uff71-\uff9c][\uff66-\uff9f]*")
_TOUCHING = re.compile("[A-Za-z](?=[^\\x00-\\x7f])|(?<=[^\\x00-\\x7f])[A-Za-z]")
_ASCII = bytes(range(32, 127))
# Names and words, for the pairs of letters in which languages differ.
WORDS = {
    "pl": "paweł michał łukasz stanisław wójcik kamiński zieliński woźniak dąbrowski kozłowski wiśniewski "
    "jabłoński król wróbel zając łódź kraków poznań gdańsk wrocław mistrzostwa świata były grał się że też "
    "już był będzie gracz białe koń rafał bartłomiej świętochowski żółty źle ćwik ślub łąka następny "
    "dziękuję partię przegrał wygrał gościę święta żuk śląsk późno może są mężczyzna główny błąd ręka "
    "książę wziął wciąż częsty męski większy skończył żona szymański dudziński włodek głowa mały cały długo "
    "krzysiek śmigły święcicki gęś kość brzęczy ciężki miesiąc dzień źródło żeński bączek mączyński",
    "cs": "jiří ondřej tomáš lukáš matěj dvořák novák černý šťastný kříž ján ľuboš hašek žižka šimon růžička věra "
    "zdeněk štěpán františek čeněk řehoř žák mistrovství světa příští hráč bílý černá dobře kůň není že "
    "ještě který může být také děkuji měl už při účast více kůže pěkný český košťál ďurica květa náš vůz "
    "procházka kučera veselý horák němec pokorný hájek král jelínek růžek beneš fiala sedláček doležal "
    "kolář navrátil čermák vaněk blažek čtvrtý něco někdy tělo počítač začátek větší člověk období hrací "
    "celá malá čára svátek město těžký veliký poslední hořký bratři děti oběd úspěch tečka žádný",
    "hu": "győző erdős szűcs horváth kovács tóth szabó molnár németh farkas papp takács juhász mészáros józsef "
    "jános zoltán istván sándor gábor péter csába attila ákos ádám bálint mihály lőrinc gergő dezső jenő "
    "ödön őry hősök fűz köszönöm jó játék világos sötét győzelem bajnokság következő között nő két első "
    "döntő mérkőzés fő erő idő lépés szép és így úgy több körül ügyes szőke zsófia réka éva gyönyörű bőr "
    "hétfő cső tűz belső felső később erős",
    "hr": "živko čedomir đorđe matić petrović žan ivić jovanović nikolić marković đurić šarić kovačević čović "
    "žarko šime ljubiša miloš uroš božić aleš tomaž jože matjaž žiga čeh šesto državno prvenstvo bošković "
    "perišić rakitić ştefan ionuţ mureşan dragoş şi că în să mâine două până ţăran bucureşti constanţa "
    "mihăiţă cătălin răzvan ţurcan iaşi braşov",
    "de": "jörg müller jürgen björn götz günther schröder schäfer köhler krüger könig böhm grün weiß groß straße "
    "für über schön spät nächste läuft können möglich größe fällt ähnlich übung öffnen äpfel gäste züge "
    "weißer drückt hält müssen hätte würde köln münchen nürnberg österreich zürich lösung stärker jäger "
    "bäcker händel döring käthe rüdiger",
    "fr": "françois rené andré noël hervé jérôme benoît hélène désirée zoé joël raphaël stéphane frédéric "
    "sébastien cédric grégoire mélanie très après même première forêt hôtel à où être élève château garçon "
    "leçon français déjà joué île dernière deuxième théo léa chloé gaël maël loïc anaïs agnès côté "
    "événement école équipe finale générale œuvre cœur besançon orléans évreux modèle fidèle père mère "
    "siècle règle célèbre répétition légère",
    "es": "josé núñez muñoz peña pérez garcía gonzález rodríguez lópez martínez sánchez fernández gómez jiménez "
    "álvarez díaz martín ángel maría jesús iñaki ramón tomás inés óscar raúl joaquín sebastián españa año "
    "niño mañana señor más también está aquí así después qué cómo días campeón edición íñigo joão conceição "
    "gonçalves araújo simões são não mão coração você três fabrício antónio brandão avançado niccolò nicolò "
    "è più perché così già società virtù pequeño otoño compañero montaña logroño señora español viñedo "
    "cabaña bañera campeã pião estação também até avó",
    "sv": "søren åsa malmö ångström bjørn håkan jørgen åge pål øystein öberg lindström sjöberg nyström björk "
    "åström göran göteborg västerås på får också när från år går står där är för större først også når køb "
    "kjær møller sørensen nørgaard græsk mårten øst kåre bård håvard tromsø ålesund jyväskylä hämäläinen "
    "mäkinen väinö yrjö mäki hyvä pelaa päivä järvinen seppälä virtänen",
    "tr": "öztürk yıldız ıştık şahin çelik yılmaz güneş doğan kılıç aydın özdemir koç kurtuluş uğur çağlar çağrı "
    "gökhan hüseyin ışık oğuz oğlu barış şükrü ümit özgür erdoğan türkiye şampiyonası için çok değil güzel "
    "ağaç taş sıra kırmızı başkan görüş müdür dönem öğrenci eğitim yükseliş kızıl altın çakır tuğba ayşe "
    "kayıp ayı arkadaş dağ sağ çıkar çınar iyi tarafından hakkında kadın hayır karşı yarış pınar nasıl "
    "zayıf sayın hıristiyan teşekkür işçi eşit beş kuş baş şimdi gümüş İstanbul İzmir İsmail İyi",
    "ru": "иван петров сидоров юрий пётр дмитрий алексей сергей андрей михаил николай владимир александр евгений "
    "виктор максим кузнецов смирнов попов васильев соколов новиков фёдоров морозов волков лебедев козлов "
    "степанов чемпионат россии партия белые чёрные хорошая игра спасибо за ход это не что как по на и в с "
    "был его если можно здесь лучше первый второй ошибка команда турнир москва казань илья сурин щука юля "
    "яна эдуард жуков цветков группа профессор линия или фигура типа шина наши лист яблоко ящик япония федя "
    "офис",
    "uk": "андрій кравець їжак юрій олексій сергій мельник шевченко ковальчук бондаренко ткаченко олійник лисенко "
    "київ україна чемпіонат дмитро богдан ігор євген це він його які ще їх її під час гри білі чорні "
    "ґалаґан віталій наталія марія має знає дає їде їсти моє твоя єдність село лісовий леонід пісня якщо "
    "ґанок хлопець місяць заява кінець",
    "el": "παπαδόπουλος νίκος γιώργος δημήτρης κωνσταντίνος ιωάννης βασίλης αθανασίου οικονόμου παππάς γεωργίου "
    "νικολάου μαρία ελένη αλέξανδρος θεσσαλονίκη αθήνα πρωτάθλημα ελλάδος και το της παρτίδα καλή μαύρα "
    "λευκά σπύρος χρήστος μιχάλης σταύρος ηλίας άγγελος τσακίρης καραγιάννης ξένος φίλιππος ψαρράς "
    "ευχαριστώ",
}
LATIN = {  # languages by encoding
    "cp1250": "pl cs hu hr de",
    "iso8859-2": "pl cs hu hr de",
    "cp1252": "de fr es sv",
    "cp1254": "tr de fr",
    "": "de fr es sv pl cs hu hr tr",
}
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
HANJA = set(
    "李金朴崔鄭姜趙尹張林韓吳申權黃安宋柳洪全高文孫梁裵白許南沈盧河郭成車朱禹具閔徐曺劉睦王元昌鎬赫薰鉉奉洙廷桓世乭哲瀚志錫"
    "眞諝東潤鎭碩哲永吉宰豪相勳賢俊英敏秀鎬泰熙允載仁基中東植根初二三四五六七八九段黑白勝"
)


@dataclass(frozen=True)
class Text:
    """A decoded file. encoding: as people call it; note: what to tell people about it, "" for UTF-8 as usual."""

    text: str
    encoding: str
    note: str = ""


def decode(data: bytes, declared: str = "", faults: Callable[[str], int] | None = None) -> Text:
    """Decode a whole file. declared: the encoding that it names, in any spelling; "": none.

    faults: counts the places where a text breaks the structure of its format.
    The text has no byte order mark, and no zeros at its end. Raises MuGoError for a file that fits no encoding.
    """
    for mark, encoding in MARKS.items():
        if data.startswith(mark):
            return _marked(data, encoding, declared)
    wide = _without_mark(data)
    data = data if wide else data.rstrip(b"\0")
    if data.isascii() and not (b"\x1b$" in data or b"\0" in data):
        return Text(data.decode(), NAMES["utf-8"])
    _check_utf8(data, _known(declared) == "utf-8")
    fewest, encoding, text = float("inf"), "", ""
    for bits, candidate, reading in sorted(_readings(data, _known(declared), wide), key=lambda one: one[0]):
        if bits >= fewest:
            break
        bits += FAULT * faults(reading) if faults else 0.0
        if bits < fewest:
            fewest, encoding, text = bits, candidate, reading
    if not encoding:
        raise MuGoError("in no known encoding: no plausible text in any that is tried; wanted UTF-8")
    return Text(text, _name(encoding), _note(encoding, declared))


def _marked(data: bytes, encoding: str, declared: str) -> Text:
    try:
        return Text(data.decode(encoding), NAMES[encoding], _note(encoding, declared))
    except UnicodeDecodeError as error:
        raise MuGoError(f"damaged: its mark says {NAMES[encoding]}, but byte {error.start} doesn't fit") from error


def _check_utf8(data: bytes, is_declared: bool) -> None:
    """Raise MuGoError for UTF-8 with a damaged place, such as a name or a file that was cut off within a character."""
    try:
        data.decode("utf-8")
    except UnicodeDecodeError as error:
        text = data.decode("utf-8", "replace")
        damaged = text.count("\ufffd")
        whole, foreign = (len(kind.findall(text)) - damaged for kind in (_LONG, _FOREIGN))
        if whole >= (1 if is_declared else 2) * damaged or foreign >= 4 * damaged:
            raise MuGoError(f"damaged: UTF-8 except for byte {error.start:,}; was the file cut off?") from error


def _known(declared: str) -> str:
    """The codec for a declared encoding; "" if it is none in which ASCII stays ASCII, or none at all."""
    name = re.sub("^windows-", "cp", declared.strip().lower()[:20].removeprefix("x-")).replace("cp31j", "cp932")
    try:
        found = codecs.lookup(name).name if name.isascii() else ""
        return READ_AS.get(found, found) if found and _ASCII.decode(found) == _ASCII.decode() else ""
    except (LookupError, ValueError):
        return ""


def _name(encoding: str) -> str:
    return NAMES.get(encoding, encoding.upper())


def _note(encoding: str, declared: str) -> str:
    name = _name(encoding)
    if not declared.strip() or _name(_known(declared)) == name:
        return "" if name == NAMES["utf-8"] else f"its text is in {name}"
    return f"its text is in {name}, not in {declared.strip()[:20]!r} as it says"


def _without_mark(data: bytes) -> str:
    """UTF-16 whose byte order mark is missing: every other byte of its first characters is 0."""
    begin = data[:8]
    if len(begin) == 8 and len(data) % 2 == 0:
        if not any(begin[1::2]) and all(begin[::2]):
            return "utf-16-le"
        if not any(begin[::2]) and all(begin[1::2]):
            return "utf-16-be"
    return ""


def _readings(data: bytes, declared: str, wide: str) -> Iterator[tuple[float, str, str]]:
    """(bits, encoding, text) of every encoding in which all of the data can be decoded to a text that is believed.

    The bits don't count faults of structure.
    """
    mail = "iso2022_jp" if b"\x1b$" in data else ""
    for encoding in filter(None, dict.fromkeys([declared, wide, mail, *GUESSED])):
        try:
            text = data.decode(encoding)
        except UnicodeDecodeError:
            continue
        num_foreign = len(text) - len(text.encode("ascii", "ignore"))
        if encoding == "utf-8" and num_foreign and (_LONG.search(text) or num_foreign > 4):
            # Hardly any text in another encoding is UTF-8, except a few pairs of bytes. Marks: of files put together.
            yield -1.0, encoding, text.replace("\ufeff", "")
            return
        if _CONTROLS.search(text):
            continue
        bits = _bits(text, encoding) * max(1.0, num_foreign / MOST_CHARACTERS)
        if bits < MOST_BITS[0] + MOST_BITS[1] * num_foreign * (1 + (encoding in EAST_ASIAN)):
            yield bits + (0.0 if encoding == declared else UNDECLARED + GUESSED.get(encoding, 0.0)), encoding, text


def _bits(text: str, encoding: str) -> float:
    """What the first MOST_CHARACTERS that aren't ASCII take."""
    last = next(islice(_FOREIGN.finditer(text), MOST_CHARACTERS - 1, None), None)
    text = text[: last.end()] if last else text
    if encoding in EAST_ASIAN:
        kana = _HALF_WIDTH.findall(text)
        bits = TOUCHED * len(_TOUCHING.findall(text)) + sum(HALF_WIDTH * (len(run) + 1) for run in kana)
        counts = Counter(_FOREIGN.findall(_HALF_WIDTH.sub("", text)))
        return bits + sum(_character_bits(character, encoding) * count for character, count in counts.items())
    bits, at = 0.0, 0
    while found := _FOREIGN.search(text, at):
        begin = found.start()
        if word := _LETTERS.match(text, begin):
            before = _LETTERS_BEFORE.search(text, max(at, begin - 20), begin)
            bits += _word_bits((before[0] if before else "") + word[0], encoding)
            bits += GLUED * text[max(0, begin - 1) : begin].isdecimal()
            at = word.end()
        else:
            at = begin + 1
            bits += _sign_bits(found[0], text[max(0, begin - 1) : begin], text[at : at + 1])
    return bits


def _character_bits(character: str, encoding: str) -> float:
    """What a character takes in an encoding of East Asia."""
    raw = character.encode(encoding)
    if "\uff61" <= character <= "\uff9f":
        return ODD
    if encoding in ("cp932", "euc_jp", "iso2022_jp"):
        if "\u3041" <= character <= "\u30fe" or character in JAPANESE:
            return FREQUENT
        lead = character.encode("cp932", "replace")[0]
        return COMMON if lead in (0x81, 0x82) or 0x88 <= lead <= 0x97 else RARE if 0x98 <= lead <= 0xEA else ODD
    if len(raw) != 2:
        return ODD * len(raw) / 2
    lead, trail = raw
    if encoding in ("cp949", "johab"):
        if character in KOREAN:
            return FREQUENT
        if character in HANJA or (0xB0 <= lead <= 0xC8 and trail >= 0xA1):
            return COMMON
        return RARE if lead in (0xA1, 0xA3) or "\uac00" <= character <= "\ud7a3" else ODD - 1
    if character in CHINESE:
        return FREQUENT
    if encoding == "gb18030":
        if trail < 0xA1 or lead < 0xA1:
            return ODD - 1
        return COMMON if lead in (0xA1, 0xA3) or 0xB0 <= lead <= 0xD7 else RARE if 0xD8 <= lead <= 0xF7 else ODD
    return COMMON if 0xA1 <= lead <= 0xC6 and lead != 0xA3 else RARE if 0xC9 <= lead <= 0xF9 else ODD


def _sign_bits(sign: str, before: str, behind: str) -> float:
    if unicodedata.category(sign) in (("Mn", "Mc", "Nd") if before.isalpha() else ("Nd",)):
        return OTHER_LETTER  # a vowel of Thai, a digit of Arabic
    wrong = (before.isalpha() and sign not in CLOSING) + (behind.isalpha() and sign not in OPENING)
    wrong += (sign in "«“„¿¡" and not behind.isalnum()) + (sign in "»”" and (before.isspace() or before in "[("))
    return (SYMBOL if sign in SYMBOLS else STRANGE) + GLUED * wrong


@lru_cache(maxsize=1 << 14)
def _word_bits(word: str, encoding: str) -> float:
    """What the letters of a word take that aren't ASCII, and those behind them, in the likeliest language."""
    bits = 0.0 if word.isupper() else WRONG_CASE * sum(letter.isupper() for letter in word[1:])
    script = max(word)
    if script >= "\u0370" and min(word) <= "z":
        bits += STRANGE
    if script >= "\u0500":
        return bits + OTHER_LETTER * len(word)
    languages = "ru uk" if script >= "\u0400" else "el" if script >= "\u0370" else LATIN.get(encoding, LATIN[""])
    letters = " " + word.lower().replace("i\u0307", "İ") + " "
    steps = [step for step in pairwise(letters) if not "".join(step).isascii()]
    return bits + min(sum(_step_bits(language, *step) for step in steps) for language in languages.split())


@lru_cache(maxsize=1 << 14)
def _step_bits(language: str, before: str, letter: str) -> float:
    """What a letter takes behind another: pairs as they are counted in the words, half believed."""
    pairs, letters = _counted(language)
    alone = (letters[letter] + 0.02) / (letters.total() + 2)
    return -math.log2((pairs[before, letter] + DOUBT * alone) / (letters[before] + DOUBT))


@cache
def _counted(language: str) -> tuple[Counter[tuple[str, str]], Counter[str]]:
    text = f" {WORDS[language]} "
    return Counter(pairwise(text)), Counter(text[1:])
