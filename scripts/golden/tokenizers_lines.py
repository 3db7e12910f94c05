"""The lines that every tokenizer golden is made of: 3,400 texts, the same on every machine."""

import pathlib
import random

import smollm2_tokenizer as pieces

GOLDEN = pathlib.Path(__file__).resolve().parents[2] / "tests" / "golden"
NUM_LINES = 3400
SEED = 20261130

# Found in texts of any kind; some tokenizers below add them with flags.
ADDED = ["<s>", "</s>", "<pad>", "<|im_start|>", "<|im_end|>", "<mask>", "WORD", "@@", "Ünï"]

WHOLE = [
    "a",
    " ",
    "  ",
    "\n",
    " a",
    "a ",
    "\u2581",
    "\u2581a",
    " \u2581 a",
    "<0x41>",
    "<0x0A>x",
    "<unk>",
    "<mask> <mask>x",
    "a<mask>  b",
    "a  <mask>b",
    "WORD WORDS aWORD _WORD WORD_ (WORD) WORD.WORD",
    "WORD1 1WORD éWORD WORDé\u0301",
    "@@@@ @@ x@@y",
    "<s>a</s>",
    "<s> a</s> b",
    " <s>  a",
    "x <|im_start|> y",
    "Ünï U\u0308nï ünï ÜNÏ",
    "ﬁ ﬂ ½ ① Ⅷ ｶﾞ ＡＢＣ １２３ ㎏ ㍿ ™ ª",
    "e\u0301 é a\u030a å A\u030a Å Å Ω Ω",
    "\u1112\u1161\u11ab\u1100\u1173\u11af 한글",
    "İstanbul ISTANBUL ǅ ß ẞ ŉ",
    "'ſ 'ſt IT'S it'S I'M I'LL you'Re 'VE",
    "HTTPServer parseXMLDoc iOS eBay McDonald's O'Neill ABCdef abcDEF",
    "ʰA ªb ªB ªº א\u05b0b ａＢｃ 中A中a中 日本語Text",
    "1 12 123 1234 12345 1234567 ١٢٣٤ Ⅷ½²",
    "a\r\nb\r\n\r\n c \n\n d\t\n e\n\n\n",
    "   \n   x", "\t\tx \t y", "x   ", "x \n", "x\n ", "\n\n\n", " \n \n ",
    "/* a */ // b\n/ c /\n", "!!!\n\n???/ab", "a/b\n/c", "...\r\n/x",
    "a\u00a0b\u2003c\u3000d\u200be\u2028f\u0085g\u180eh\ufeffi",
    "\u0301a \u0301 !\u0301a",
    "".join(chr(c) for c in range(1, 128)),
]


def make_lines():
    rng = random.Random(SEED)
    essay = (GOLDEN / "english_2000.txt").read_text(encoding="utf-8")
    lines, seen = [], set()

    def add(text):
        if text not in seen:
            seen.add(text)
            lines.append(text)

    for text in WHOLE + pieces.ODD + pieces.CODE + pieces.EMOJI + pieces.COMBINING:
        add(text)
    while len(lines) < NUM_LINES:
        parts = [
            pieces.fragment(rng, essay, ADDED) for _ in range(rng.choice([1, 1, 1, 2, 2, 3]))
        ]
        add(rng.choice(["", "", " ", "\n"]).join(parts)[: rng.choice([60, 60, 120])])
    return lines
