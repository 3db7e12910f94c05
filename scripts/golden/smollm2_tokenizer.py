"""Writes tests/golden/smollm2_tokens.jsonl: 1,000 lines of {"text": ..., "ids": [...]}.

The tokenizer is a `tokenizers` object written out by hand from the GGUF file's own vocabulary and
merges, because transformers' GGUF conversion loses the step that splits digits one by one.

Semantics of the ids, which a test must copy:
- Special tokens inside the text are recognised as special (llama.cpp's parse_special = true), with
  no trimming of the whitespace around them. No BOS or EOS is added.
- Bytes without a token of their own (0x04 0x06 0x13 0x14 0x16 0x1d 0xc0 0xc1 0xf1 0xf2 0xf5-0xff
  in this vocabulary) give no id at all.

    python scripts/golden/smollm2_tokenizer.py MODEL.gguf [--check LLAMA_TOKENIZE] [--stride N]

--check compares every Nth line with llama.cpp's llama-tokenize and writes nothing.
"""

import argparse
import json
import pathlib
import random
import subprocess
import sys
import tempfile
import unicodedata

from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers

import gguf_file

GOLDEN = pathlib.Path(__file__).resolve().parents[2] / "tests" / "golden"
NUM_LINES = 1000
SEED = 20261129
TOKEN_TYPE_CONTROL = 3


def build_tokenizer(metadata):
    tokens = metadata["tokenizer.ggml.tokens"]
    types = metadata["tokenizer.ggml.token_type"]
    merges = [tuple(m.split(" ")) for m in metadata["tokenizer.ggml.merges"]]
    assert metadata["tokenizer.ggml.model"] == "gpt2"
    assert metadata["tokenizer.ggml.pre"] == "smollm"
    assert all(len(m) == 2 for m in merges)

    tokenizer = Tokenizer(models.BPE(vocab={t: i for i, t in enumerate(tokens)}, merges=merges))
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [
            pre_tokenizers.Digits(individual_digits=True),
            pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=True),
        ]
    )
    tokenizer.decoder = decoders.ByteLevel()
    special = [t for t, kind in zip(tokens, types) if kind == TOKEN_TYPE_CONTROL]
    tokenizer.add_special_tokens([AddedToken(t, normalized=False, special=True) for t in special])
    return tokenizer, special


def encode(tokenizer, text):
    return tokenizer.encode(text, add_special_tokens=False).ids


# --- the 1,000 lines -------------------------------------------------------------------------

CODE = [
    "for (int i = 0; i < n; ++i) {\n  sum += x[i] * y[i];\n}\n",
    "def f(x):\n    return x**2 + 1\n\n\nprint(f(10))\n",
    '\tif err != nil {\n\t\treturn nil, fmt.Errorf("open %q: %w", path, err)\n\t}\n',
    '{"name": "mill", "sizes": [1, 22, 333], "open": true, "x": null}',
    "SELECT id, count(*) FROM grain WHERE kg >= 12.5 GROUP BY id;",
    '<a href="https://example.org/?q=1&r=%20">link</a><br/>',
    "#include <vector>\nstd::vector<std::uint8_t> v(1 << 20);  // 1 MiB\r\n",
    "auto it = map.find(key); if (it != map.end()) return it->second;",
    "x = [[0]*3 for _ in range(3)]  # 3x3\nassert x[0][0]==0",
    "$ grep -rn 'foo' --include='*.h' src/ | awk '{print $1}' > out.txt 2>&1",
    'fn main() { let s = String::from("héllo"); println!("{s:?}"); }',
    "\\begin{align} e^{i\\pi} + 1 &= 0 \\\\ \\end{align}",
    "@media (max-width: 600px) { .a > .b::before { content: '\\201C'; } }",
    "0x7fff_ffff 1e-05 -3.14f 0b1011 1'000'000 0777 .5 5.",
    "camelCase snake_case SCREAMING_CASE kebab-case __init__ _x9 a1b2c3",
    "- [ ] item\n  * nested\n\n## Title ##\n```sh\nmake -j2\n```\n> quote\n",
]
EMOJI = [
    "😀",
    "🎉",
    "👍🏽",
    "👩‍👩‍👧‍👦",
    "🏳️‍🌈",
    "🇫🇷🇯🇵",
    "❤️",
    "☕",
    "1️⃣",
    "🧑🏿‍🚀",
    "🫠",
    "✨",
    "🐍",
    "🀄",
    "♻",
    "👁️‍🗨️",
    "⏳",
    "🏴󠁧󠁢󠁥󠁮󠁧󠁿",
]
COMBINING = [
    "e\u0301",
    "n\u0303o",
    "Z\u0335\u0321a\u0337\u0316l\u0336g\u0334o\u0338",
    "a\u030a\u0323",
    "\u0301",
    " \u0308x",
    "हिन्दी",
    "स्त्री",
    "ภาษาไทย",
    "ก็",
    "தமிழ்",
    "ཀྱི",
    "o\u0302\u0301 tô",
    "\u1100\u1161\u11a8",
    "g\u0303",
    "i\u0307stanbul",
    "\u05e9\u05c1\u05b8\u05dc\u05d5\u05b9\u05dd",
    "မြန်မာ",
]
WORDS = {
    "cjk": "水車 粉 石臼 機械 今日は天気がいい。 你好,世界! 磨坊里有三块石头 한국어 문장입니다. カタカナ ひらがな 漢字 東京都 "
    "「引用」 ・ 々 測試１２３ ＡＢＣ 㐀 𠀀 〇 第二十一章 안녕하세요".split(),
    "arabic": "مرحبا بالعالم ، الطاحونة ١٢٣ ۴۵۶ قمح؟ ماء اللُّغَة لا ﷺ پنجاب اُردو שלום עולם טחנה".split(),
    "cyrillic": "Мельница у брода, вода — зерно; Ёлка объём Україна ґанок Београд № 5 што? Привет, мир!"
    " ПРОПИСНЫЕ буквы ӘҒҚ".split(),
    "latin": "naïve façade Ærøskøbing Straße żółć Łódź İstanbul ß ſ ﬁn œuvre Ελλάδα λόγος ὕδωρ Ꙁ ʼn"
    " ĳs ǅ ª º µm Å ı ʰ Tiếng Việt đường".split(),
}
DIGITS = "½ ² ³ ⅷ Ⅻ ௧ ४२ ٣ ① ㊿ ⁴ ₂ 〡 𝟘 ௰ ¾".split()
SPACES = [
    " ",
    "  ",
    "   ",
    "\t",
    "\n",
    "\n\n",
    "\r\n",
    "\r",
    "\u00a0",
    "\u3000",
    "\u2028",
    "\u2003",
    "\u200b",
    "\x0b",
    "\x0c",
    "\u0085",
    "\u1680",
    "\u202f",
    "\ufeff",
    " " * 8,
    " " * 17,
    "\n" * 5,
    "\t\t",
    " \n",
    "\n ",
]
PUNCTUATION = list("!\"#$%&'()*+,-./:;<=>?@[\\]^_`{|}~") + [
    "...",
    "—",
    "–",
    "…",
    "«»",
    "“”",
    "‘’",
    "¿",
    "§",
    "€",
    "£",
    "°",
    "±",
    "×",
    "→",
    "≤",
    "∑",
    "\u2212",
    "!!!",
    "?!",
    "--",
    "==",
    "/*",
    "*/",
    "://",
    "''",
    '""',
    "```",
    "<|",
    "|>",
    "♪",
    "█",
    "╔══╗",
    "¬",
    "\u00ad",
    "\u2060",
    "©",
    "™",
    "⟨⟩",
    "\ufffd",
]
CONTRACTIONS = (
    "don't I'm we'll they've it's he'd you're 's 'S 'T 'tis rock'n'roll o'clock IT'S DON'T "
    "l'été can’t it’s 'lll 'ver 're're"
).split()
ODD = [
    "",
    " ",
    "a",
    "\n",
    "\x00",
    "a\x04b",
    "x \x16 y",
    "\x1d",
    "tab\tend",
    "\x7f\x80\x9f",
    "\x01\x02\x03",
    "\U00040000 plane 4",
    "\U0010fffd",
    "a" * 60,
    "ab" * 30,
    "=" * 70,
    "- " * 20,
    " " * 65,
    "0" * 40,
    "<|im_start|",
    "|im_end|>",
    "<|im_start |>",
    "<|IM_START|>",
    "<repo_name",
    "<<file_sep>>",
    "<|im_start|><|im_start|>",
    "<|endoftext|>\n<|endoftext|>",
    "  <|im_end|>  ",
    "\n<|im_end|>\n1",
    "<reponame><repo_name><filename>",
    "\n\n1",
    "\n\n\n12",
    " 1 2  3   4",
    "3.14 15,92 6-5 35/89 79:32",
    "The quick brown fox jumps over the lazy dog.",
    "Hello, world!",
    "supercalifragilisticexpialidocious",
]


def english(rng, essay):
    start = rng.randrange(len(essay) - 120)
    return essay[start : start + rng.randint(3, 110)]


def number(rng):
    kind = rng.randrange(6)
    if kind == 0:
        return str(rng.randrange(10 ** rng.randint(1, 14)))
    if kind == 1:
        return f"{rng.uniform(-1e6, 1e6):.{rng.randint(0, 6)}f}"
    if kind == 2:
        return f"{rng.randint(1, 31):02d}/{rng.randint(1, 12):02d}/{rng.randint(1000, 2999)}"
    if kind == 3:
        return f"0x{rng.getrandbits(32):x}"
    if kind == 4:
        return (
            f"v{rng.randint(0, 20)}.{rng.randint(0, 99)}.{rng.randint(0, 9)}-rc{rng.randint(1, 5)}"
        )
    return rng.choice(DIGITS) + str(rng.randrange(100))


def any_scalar(rng):
    """An assigned character of Unicode 14, private use left out; from a block picked first."""
    while True:
        top = rng.choice([0x100, 0x800, 0x3000, 0xFFFF, 0x1FFFF, 0x3FFFF])
        char = chr(rng.randrange(0x20, top))
        if unicodedata.category(char) not in ("Cn", "Cs", "Co"):
            return char


def chat(rng, essay):
    turns = []
    for role in rng.sample(["system", "user", "assistant", "user"], rng.randint(1, 3)):
        turns.append(f"<|im_start|>{role}\n{english(rng, essay)[:40]}<|im_end|>\n")
    return "".join(turns)


def fragment(rng, essay, special):
    kind = rng.randrange(14)
    if kind <= 2:
        return english(rng, essay)
    if kind == 3:
        code = rng.choice(CODE)
        start = rng.randrange(len(code) // 2)
        return code[start:] if rng.random() < 0.5 else code
    if kind == 4:
        return number(rng)
    if kind == 5:
        return "".join(rng.choice(SPACES) for _ in range(rng.randint(1, 6)))
    if kind == 6:
        return "".join(rng.choice(EMOJI) for _ in range(rng.randint(1, 3)))
    if kind == 7:
        return rng.choice(["", " "]).join(rng.choice(COMBINING) for _ in range(rng.randint(1, 4)))
    if kind == 8:
        words = WORDS[rng.choice(sorted(WORDS))]
        return rng.choice([" ", "", "  "]).join(
            rng.choice(words) for _ in range(rng.randint(1, 6))
        )
    if kind == 9:
        return rng.choice(["", " "]).join(
            rng.choice(PUNCTUATION) for _ in range(rng.randint(1, 7))
        )
    if kind == 10:
        return " ".join(rng.choice(CONTRACTIONS) for _ in range(rng.randint(1, 4)))
    if kind == 11:
        return (
            rng.choice(["", " ", "\n"])
            + rng.choice(special)
            + rng.choice(["", " ", "\n", "x", "1"])
        )
    if kind == 12:
        return "".join(any_scalar(rng) for _ in range(rng.randint(1, 12)))
    return chat(rng, essay)


def make_lines(special):
    rng = random.Random(SEED)
    essay = (GOLDEN / "english_2000.txt").read_text(encoding="utf-8")
    lines, seen = [], set()
    for text in ODD + CODE + EMOJI + COMBINING + CONTRACTIONS + special:
        if text not in seen:
            seen.add(text)
            lines.append(text)
    while len(lines) < NUM_LINES:
        joint = rng.choice(["", "", " ", "\n"])
        parts = [fragment(rng, essay, special) for _ in range(rng.choice([1, 1, 1, 2, 2, 3, 4]))]
        text = joint.join(parts)[:220]
        if text not in seen:
            seen.add(text)
            lines.append(text)
    return lines


# --- the check against llama.cpp -------------------------------------------------------------


def llama_ids(binary, model, text):
    with tempfile.NamedTemporaryFile("wb", suffix=".txt") as file:
        file.write(text.encode("utf-8"))
        file.flush()
        done = subprocess.run(
            [
                binary,
                "-m",
                model,
                "-f",
                file.name,
                "--ids",
                "--no-bos",
                "--no-escape",
                "--log-disable",
            ],
            capture_output=True,
            check=True,
        )
    return json.loads(done.stdout.decode().strip().splitlines()[-1])


def check(tokenizer, lines, binary, model, stride):
    wrong = checked = 0
    for text in lines[::stride]:
        if not text:
            continue  # llama-tokenize refuses an empty prompt
        checked += 1
        ours, theirs = encode(tokenizer, text), llama_ids(binary, model, text)
        if ours != theirs:
            wrong += 1
            print(f"differs: {text!r}\n  tokenizers {ours}\n  llama.cpp  {theirs}")
    print(f"{checked} lines compared with llama.cpp, {wrong} differ")
    return wrong


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("model")
    parser.add_argument("--check", metavar="LLAMA_TOKENIZE")
    parser.add_argument("--stride", type=int, default=1)
    args = parser.parse_args()

    tokenizer, special = build_tokenizer(gguf_file.read_metadata(args.model))
    lines = make_lines(special)
    if args.check:
        sys.exit(1 if check(tokenizer, lines, args.check, args.model, args.stride) else 0)
    path = GOLDEN / "smollm2_tokens.jsonl"
    with open(path, "w", encoding="ascii") as out:
        for text in lines:
            line = {"text": text, "ids": encode(tokenizer, text)}
            out.write(json.dumps(line, separators=(",", ":")) + "\n")
    print(f"{path}: {len(lines)} lines, {path.stat().st_size} bytes")


if __name__ == "__main__":
    main()
