"""Trains one small tokenizer of each kind and writes what the `tokenizers` package and SentencePiece
make of tok_lines.jsonl:

- tests/golden/tok_lines.jsonl: one JSON string per line (tokenizers_lines.py).
- tests/golden/tok_KIND.json or .model: the tokenizer.
- tests/golden/tok_KIND.sums: per line, FNV-1a (32 bits) of the ids as little-endian int32 (with the
  special tokens around them that the tokenizer says) and of the text that they decode to without
  special tokens.

    python scripts/golden/tokenizers_golden.py                  writes all
    python scripts/golden/tokenizers_golden.py KIND LINE        prints one line's ids
    python scripts/golden/tokenizers_golden.py --gemma3 FILE    tok_gemma3.sums: what SentencePiece
                                                                makes of a GGUF file's vocabulary
"""

import io
import json
import struct
import sys

import sentencepiece
from tokenizers import (
    AddedToken,
    Regex,
    Tokenizer,
    decoders,
    models,
    normalizers,
    pre_tokenizers,
    processors,
    trainers,
)

from tokenizers_lines import GOLDEN, make_lines

VOCABULARY = 600
CONTRACTIONS = "(?i:'s|'t|'re|'ve|'m|'ll|'d)"
REST = r"\s*[\r\n]+|\s+(?!\S)|\s+"
LLAMA3 = (
    CONTRACTIONS
    + r"|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|"
    + REST
)
QWEN2 = LLAMA3.replace("{1,3}", "")
QWEN35 = (
    CONTRACTIONS
    + r"|[^\r\n\p{L}\p{N}]?[\p{L}\p{M}]+|\p{N}| ?[^\s\p{L}\p{M}\p{N}]+[\r\n]*|"
    + REST
)
UPPER, LOWER = r"[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]", r"[\p{Ll}\p{Lm}\p{Lo}\p{M}]"
PREFIX = r"[^\r\n\p{L}\p{N}]?"
GPT4O = (
    f"{PREFIX}{UPPER}*{LOWER}+{CONTRACTIONS}?|{PREFIX}{UPPER}+{LOWER}*{CONTRACTIONS}?"
    + r"|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*|"
    + REST
)
TEKKEN = GPT4O.replace(CONTRACTIONS + "?", "").replace("{1,3}", "")
DEEPSEEK = [
    r"\p{N}{1,3}",
    "[一-龥\u3040-ゟ゠-ヿ]+",
    r"[!\"#$%&'()*+,\-./:;<=>?@\[\\\]^_`{|}~][A-Za-z]+|[^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+|"
    r" ?[\p{P}\p{S}]+[\r\n]*|" + REST,
]


def split(pattern, behavior="isolated", invert=False):
    return pre_tokenizers.Split(Regex(pattern), behavior, invert)


def byte_level(steps, normalizer=None, post=None, ignore_merges=False, prefix=False, regex=False):
    tokenizer = Tokenizer(models.BPE(ignore_merges=ignore_merges))
    last = pre_tokenizers.ByteLevel(add_prefix_space=prefix, use_regex=regex)
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence([*steps, last]) if steps else last
    tokenizer.decoder = decoders.ByteLevel()
    if normalizer:
        tokenizer.normalizer = normalizer
    trainer = trainers.BpeTrainer(
        vocab_size=VOCABULARY,
        show_progress=False,
        special_tokens=["<s>", "</s>", "<|im_start|>", "<|im_end|>"],
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
    )
    tokenizer.train_from_iterator(LINES, trainer)
    tokenizer.add_tokens(
        [
            AddedToken("<mask>", lstrip=True, rstrip=False, normalized=False),
            AddedToken("WORD", single_word=True, normalized=True),
            AddedToken("@@", rstrip=True, normalized=True),
        ]
    )
    if post:
        tokenizer.post_processor = post
    return tokenizer


def template(single="<s> $A", tokens=(("<s>", 0),)):
    return processors.Sequence(
        [
            processors.ByteLevel(trim_offsets=False),
            processors.TemplateProcessing(single=single, pair="$A $B", special_tokens=list(tokens)),
        ]
    )


def sentencepiece_style(normalizer, pre_tokenizer, decoder, alphabet=200):
    """BPE on characters with byte fallback, as converted from SentencePiece."""
    trained = Tokenizer(models.BPE(unk_token="<unk>"))
    if normalizer:
        trained.normalizer = normalizer
    trained.pre_tokenizer = pre_tokenizer or pre_tokenizers.Split("\u2581", "merged_with_next")
    trainer = trainers.BpeTrainer(
        vocab_size=VOCABULARY,
        show_progress=False,
        special_tokens=["<unk>", "<s>", "</s>"],
        limit_alphabet=alphabet,
    )
    trained.train_from_iterator(LINES, trainer)
    model = json.loads(trained.to_str())["model"]
    vocab = model["vocab"]
    for byte in range(256):
        vocab[f"<0x{byte:02X}>"] = len(vocab)
    tokenizer = Tokenizer(
        models.BPE(
            vocab=vocab,
            merges=[tuple(m) for m in model["merges"]],
            unk_token="<unk>",
            byte_fallback=True,
            fuse_unk=True,
        )
    )
    if normalizer:
        tokenizer.normalizer = normalizer
    if pre_tokenizer:
        tokenizer.pre_tokenizer = pre_tokenizer
    tokenizer.decoder = decoder
    tokenizer.add_special_tokens(["<unk>", "<s>", "</s>"])
    tokenizer.add_tokens(
        [
            AddedToken("WORD", single_word=True, normalized=False),
            AddedToken("@@", lstrip=True, normalized=True),
        ]
    )
    tokenizer.post_processor = processors.TemplateProcessing(
        single="<s> $A </s>", special_tokens=[("<s>", 1), ("</s>", 2)]
    )
    return tokenizer


def llama_decoder(strip=True):
    steps = [decoders.Replace("\u2581", " "), decoders.ByteFallback(), decoders.Fuse()]
    return decoders.Sequence(steps + ([decoders.Strip(" ", 1, 0)] if strip else []))


def unigram(normalizer, pre_tokenizer, decoder, unk=True):
    tokenizer = Tokenizer(models.Unigram())
    tokenizer.normalizer = normalizer
    tokenizer.pre_tokenizer = pre_tokenizer
    tokenizer.decoder = decoder
    trainer = trainers.UnigramTrainer(
        vocab_size=900,
        show_progress=False,
        unk_token="<unk>",
        special_tokens=["<unk>", "<s>", "</s>", "<mask>"],
    )
    some = [line for line in LINES if max(map(ord, line), default=0) < 0x460]  # fewer characters
    tokenizer.train_from_iterator(some, trainer)
    tokenizer.add_tokens([AddedToken("WORD", single_word=True), AddedToken("@@", normalized=True)])
    return tokenizer


def characters(steps, normalizer, fuse_unk):
    tokenizer = Tokenizer(models.BPE(unk_token="<unk>", fuse_unk=fuse_unk))
    tokenizer.normalizer = normalizer
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(steps)
    tokenizer.decoder = decoders.Fuse()
    trainer = trainers.BpeTrainer(
        vocab_size=VOCABULARY,
        show_progress=False,
        special_tokens=["<unk>", "<s>", "</s>"],
        limit_alphabet=120,
    )
    tokenizer.train_from_iterator(LINES, trainer)
    tokenizer.add_tokens([AddedToken("Ünï", normalized=True), AddedToken("@@", normalized=True)])
    return tokenizer


RULES = [("ﬁ", "fi"), ("ﬂ", "fl"), ("½", "1/2"), ("\u212b", "\u00c5"), ("\u3000", " ")]
RULES += [("\u00a0", " "), ("\t", " "), ("\n", " "), ("ＡＢ", "AB"), ("Ａ", "a"), ("™", ""), ("e\u0301", "é")]


def sentencepiece_model(model_type, rules, **options):
    """A trained model's bytes. `rules`: a small map of our own; SentencePiece's is 240 KB."""
    path = "/tmp/tok_rules.tsv"
    with open(path, "w", encoding="utf-8") as out:
        for source, target in RULES:
            hexes = [" ".join(f"{ord(c):X}" for c in text) for text in (source, target)]
            out.write("\t".join(hexes) + "\n")
    bytes_out = io.BytesIO()
    normal = {"normalization_rule_tsv": path} if rules else {"normalization_rule_name": "identity"}
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter([line for line in LINES if "\0" not in line and line.strip()]),
        model_writer=bytes_out,
        model_type=model_type,
        vocab_size=900,
        character_coverage=0.98,
        user_defined_symbols=["WORD", "@@"],
        minloglevel=2,
        num_threads=1,
        **normal,
        **options,
    )
    return bytes_out.getvalue()


def precompiled():
    model = sentencepiece_model("unigram", rules=True)
    from sentencepiece import sentencepiece_model_pb2

    proto = sentencepiece_model_pb2.ModelProto()
    proto.ParseFromString(model)
    return proto.normalizer_spec.precompiled_charsmap


def charsmap_tokenizer():
    chars = precompiled()
    metaspace = pre_tokenizers.Metaspace(prepend_scheme="always")
    tokenizer = unigram(
        normalizers.Sequence(
            [normalizers.Precompiled(chars), normalizers.Replace(Regex(" {2,}"), " ")]
        ),
        pre_tokenizers.Sequence([pre_tokenizers.WhitespaceSplit(), metaspace]),
        decoders.Metaspace(prepend_scheme="always"),
    )
    return tokenizer


GEMMA_SPLIT = pre_tokenizers.Split(" ", "merged_with_previous")
N = normalizers
P = pre_tokenizers

KINDS = {
    "gpt2": lambda: byte_level([], regex=True),
    "gpt2_prefix": lambda: byte_level(
        [],
        regex=True,
        prefix=True,
        post=processors.RobertaProcessing(("</s>", 1), ("<s>", 0), True, True),
    ),
    "smollm": lambda: byte_level([P.Digits(True)], regex=True),
    "llama3": lambda: byte_level([split(LLAMA3)], post=template(), ignore_merges=True),
    "qwen2": lambda: byte_level([split(QWEN2)], normalizer=N.NFC()),
    "qwen35": lambda: byte_level([split(QWEN35)], normalizer=N.NFC()),
    "gpt4o": lambda: byte_level([split(GPT4O)]),
    "tekken": lambda: byte_level([split(TEKKEN, "removed", True)], ignore_merges=True),
    "regex": lambda: byte_level([split(p) for p in DEEPSEEK], normalizer=N.NFD()),
    "llama2": lambda: sentencepiece_style(
        N.Sequence([N.Prepend("\u2581"), N.Replace(" ", "\u2581")]), None, llama_decoder()
    ),
    "mistral": lambda: sentencepiece_style(
        None,
        P.Metaspace(prepend_scheme="first", split=False),
        llama_decoder(),
    ),
    "gemma": lambda: sentencepiece_style(
        N.Replace(" ", "\u2581"), GEMMA_SPLIT, llama_decoder(strip=False)
    ),
    "unigram": lambda: unigram(
        N.Sequence([N.Nmt(), N.NFKC(), N.Replace(Regex(" {2,}"), " ")]),
        P.Metaspace(prepend_scheme="always"),
        decoders.Metaspace(prepend_scheme="always"),
    ),
    "charsmap": charsmap_tokenizer,
    "words": lambda: characters(
        [P.Whitespace(), P.Digits(False), P.Punctuation("contiguous")],
        N.Sequence([N.Strip(), N.NFD(), N.Lowercase(), N.StripAccents()]),
        fuse_unk=False,
    ),
    "bert": lambda: characters([P.BertPreTokenizer()], N.NFKD(), fuse_unk=True),
}
SENTENCEPIECE = {
    "sp_bpe": lambda: sentencepiece_model(
        "bpe", False, byte_fallback=True, remove_extra_whitespaces=False
    ),
    "sp_unigram": lambda: sentencepiece_model("unigram", True),
    "sp_bpe_unk": lambda: sentencepiece_model("bpe", True, add_dummy_prefix=False),
}


# Lines with characters that the package's old tables of punctuation and marks (about Unicode 9) do
# not know as such: ⹏ ⹒ and marks of Nyiakeng, Masaram Gondi and Syloti Nagri. Unicode 14 does.
# Gemma's user-defined tokens are sought before normalisation in GGUF files: one line holds U+2581.
OLD_TABLES = {"gemma3": {8}, "words": {892, 2471, 3089}, "bert": {1303, 2822}}


def fnv(data):
    value = 0x811C9DC5
    for byte in data:
        value = (value ^ byte) * 0x01000193 & 0xFFFFFFFF
    return value


def load(kind):
    """encode(text) and decode(ids) of a tokenizer that was written."""
    if kind in SENTENCEPIECE:
        model = sentencepiece.SentencePieceProcessor(model_file=str(GOLDEN / f"tok_{kind}.model"))
        # Kvern counts the unknown token as special, so that its text (" ⁇ ") is left out.
        return model.encode, lambda ids: model.decode([i for i in ids if i != model.unk_id()])
    tokenizer = Tokenizer.from_file(str(GOLDEN / f"tok_{kind}.json"))
    return lambda text: tokenizer.encode(text).ids, tokenizer.decode


def write_sums(kind, encode, decode):
    with open(GOLDEN / f"tok_{kind}.sums", "w", encoding="ascii") as out:
        for index, line in enumerate(LINES):
            if index in OLD_TABLES.get(kind, ()):
                out.write("-\n")
                continue
            ids = encode(line)
            sums = struct.pack(f"<{len(ids)}i", *ids) + decode(ids).encode("utf-8")
            out.write(f"{fnv(sums):08x}\n")
    print(kind, "written", flush=True)


def make(kind):
    if kind in SENTENCEPIECE:
        (GOLDEN / f"tok_{kind}.model").write_bytes(SENTENCEPIECE[kind]())
    else:
        text = json.loads(KINDS[kind]().to_str())
        with open(GOLDEN / f"tok_{kind}.json", "w", encoding="utf-8") as out:
            json.dump(text, out, ensure_ascii=False, separators=(",", ":"))
    write_sums(kind, *load(kind))


def make_gemma3(path):
    import gguf_file
    from sentencepiece import sentencepiece_model_pb2

    metadata = gguf_file.read_metadata(path)
    columns = [metadata[f"tokenizer.ggml.{name}"] for name in ("tokens", "scores", "token_type")]
    proto = sentencepiece_model_pb2.ModelProto()
    for token, score, kind in zip(*columns):
        # The file writes user-defined tokens with spaces.
        piece = token.replace(" ", "\u2581") if kind == 4 else token
        proto.pieces.add(piece=piece, score=score, type=int(kind))
    trainer, spec = proto.trainer_spec, proto.normalizer_spec
    trainer.model_type, trainer.byte_fallback = 2, True
    for index, name in enumerate(["pad", "eos", "bos", "unk"]):
        setattr(trainer, f"{name}_id", index)
        setattr(trainer, f"{name}_piece", columns[0][index])
    spec.name, spec.add_dummy_prefix, spec.remove_extra_whitespaces = "identity", False, False
    model = sentencepiece.SentencePieceProcessor(model_proto=proto.SerializeToString())
    write_sums("gemma3", model.encode, model.decode)


LINES = make_lines()
if len(sys.argv) == 3 and sys.argv[2].isdigit():
    encode, decode = load(sys.argv[1])
    text = LINES[int(sys.argv[2])]
    print(repr(text), encode(text), repr(decode(encode(text))), sep="\n")
elif len(sys.argv) == 3 and sys.argv[1] == "--gemma3":
    make_gemma3(sys.argv[2])
else:
    with open(GOLDEN / "tok_lines.jsonl", "w", encoding="utf-8", newline="\n") as out:
        for line in LINES:
            out.write(json.dumps(line, ensure_ascii=False) + "\n")
    for kind in sys.argv[1:] or [*KINDS, *SENTENCEPIECE]:
        make(kind)
