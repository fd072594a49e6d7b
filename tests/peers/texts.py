#!/usr/bin/env python3
"""Tokens and labels of texts, held against tokenizers and transformers, with tokenizers made here and no download.

    cargo build --release -p plimsoll-tests --example rows
    python tests/peers/texts.py [--target target/release]

Needs tokenizers and transformers. For tokenizers of each kind (BPE over bytes, BPE with byte fallback, WordPiece, Unigram):

  text        the tokens of each line, with what the tokenizer puts around them and the token that ends a text
  completion  the same, and labels of the completion alone
  messages    the tokens of apply_chat_template, and labels where return_assistant_tokens_mask says so, by a template that
              marks what the assistant says and by the same without marks
"""
import argparse, json, random, subprocess, sys, tempfile
from pathlib import Path
from tokenizers import Tokenizer, decoders, models, normalizers, pre_tokenizers, processors, trainers
from transformers import PreTrainedTokenizerFast

IGNORED, LENGTH = 2**32 - 1, 96
WORDS = "the ship sails on a line of water; ünder load it sinks, Straße 日本 naïve 🚢 don't 1234 they're".split()
SPECIAL = ["<unk>", "<s>", "<|end|>", "<|user|>", "<|assistant|>"]


def texts(count, rng):
    return ["".join(rng.choice(["", " ", " ", "  ", "\n"]) + rng.choice(WORDS) for _ in range(rng.randint(1, 25)))
            for _ in range(count)]


def tokenizer(kind, rng):
    corpus = texts(400, rng)
    if kind == "bytes":
        made = Tokenizer(models.BPE())
        made.pre_tokenizer, made.decoder = pre_tokenizers.ByteLevel(add_prefix_space=False), decoders.ByteLevel()
        trainer = trainers.BpeTrainer(vocab_size=400, special_tokens=SPECIAL,
                                      initial_alphabet=pre_tokenizers.ByteLevel.alphabet())
    elif kind == "fallback":
        made = Tokenizer(models.BPE(unk_token="<unk>", fuse_unk=True))
        made.normalizer = normalizers.Sequence([normalizers.Prepend("▁"), normalizers.Replace(" ", "▁")])
        trainer = trainers.BpeTrainer(vocab_size=400, special_tokens=SPECIAL)
    elif kind == "wordpiece":
        made = Tokenizer(models.WordPiece(unk_token="<unk>"))
        made.normalizer, made.pre_tokenizer = normalizers.BertNormalizer(), pre_tokenizers.BertPreTokenizer()
        trainer = trainers.WordPieceTrainer(vocab_size=400, special_tokens=SPECIAL)
    else:
        made = Tokenizer(models.Unigram())
        made.normalizer, made.pre_tokenizer = normalizers.NFKC(), pre_tokenizers.Metaspace()
        trainer = trainers.UnigramTrainer(vocab_size=300, special_tokens=SPECIAL, unk_token="<unk>")
    made.train_from_iterator(corpus, trainer)
    if kind == "fallback":
        made.post_processor = processors.TemplateProcessing(single="<s> $A", pair="<s> $A $B", special_tokens=[
            ("<s>", made.token_to_id("<s>"))])
    return made


def template(marks):
    begin, end = ("{% generation %}", "{% endgeneration %}") if marks else ("", "")
    return ("{{ bos_token }}{% for m in messages %}{% if m['role'] == 'assistant' %}<|assistant|>" + begin
            + "{{ m['content'] | trim }}{{ eos_token }}" + end + "{% else %}<|user|>{{ m['content'].strip() }}{{ eos_token }}"
            "{% endif %}{% endfor %}{% if add_generation_prompt %}<|assistant|>{% endif %}")


def ours(target, folder, lines):
    path, preset = folder / "lines.jsonl", folder / "preset.toml"
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    preset.write_text(f"version = 2\n[model]\nkind = \"gpt2\"\n[data]\nkind = \"jsonl\"\npath = \"{path}\"\n"
                      f"tokenizer = \"{folder}\"\nlength = {LENGTH}\nplacement = \"streamed\"\n")
    out = subprocess.run([target / "examples" / "rows", preset], capture_output=True, text=True)
    if out.returncode:
        sys.exit(out.stderr)
    rows = [json.loads(line) for line in out.stdout.splitlines()]
    return sorted((row["tokens"], row["labels"]) for row in rows)


def padded(tokens, scored, end):
    inputs = (tokens + [end] * LENGTH)[:LENGTH]
    labels = [token if counts else IGNORED for token, counts in zip(tokens, scored)][1:]
    return inputs, (labels + [IGNORED] * LENGTH)[:LENGTH]


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--target", type=Path, default=Path("target/release"))
    target, rng, failed = parser.parse_args().target, random.Random(3), 0
    for kind in ["bytes", "fallback", "wordpiece", "unigram"]:
        raw = tokenizer(kind, rng)
        end = raw.token_to_id("<|end|>")
        cases = {"text": [], "completion": [], "messages": [], "messages, unmarked": []}
        fast = PreTrainedTokenizerFast(tokenizer_object=raw, bos_token="<s>", eos_token="<|end|>", unk_token="<unk>")
        lines = {name: [] for name in cases}
        for text in texts(60, rng):
            tokens = raw.encode(text).ids
            lines["text"].append({"text": text})
            cases["text"].append(padded(tokens + [end], [True] * (len(tokens) + 1), end))
        for prompt, completion in zip(texts(60, rng), texts(60, rng)):
            encoded = raw.encode(prompt + completion)
            lines["completion"].append({"prompt": prompt, "completion": completion})
            scored = [stop > len(prompt) for _, stop in encoded.offsets]
            cases["completion"].append(padded(encoded.ids + [end], scored + [True], end))
        for _ in range(40):
            said = texts(rng.randint(2, 5), rng)
            talk = [{"role": ["user", "assistant"][i % 2], "content": text} for i, text in enumerate(said)]
            given = fast.apply_chat_template(talk, chat_template=template(True), tokenize=True, return_dict=True,
                                             return_assistant_tokens_mask=True)
            for name in ["messages", "messages, unmarked"]:
                lines[name].append({"messages": talk})
                cases[name].append(padded(given["input_ids"], given["assistant_masks"], end))
        for name, expected in cases.items():
            with tempfile.TemporaryDirectory() as folder:
                folder = Path(folder)
                raw.save(str(folder / "tokenizer.json"))
                settings = {"bos_token": "<s>", "eos_token": {"content": "<|end|>"}, "chat_template": template("un" not in name)}
                (folder / "tokenizer_config.json").write_text(json.dumps(settings))
                found = ours(target, folder, lines[name])
            expected = sorted((list(inputs), list(labels)) for inputs, labels in expected)
            same = [list(row) for row in found] == [list(row) for row in expected]
            wrong = sum(list(a) != list(b) for a, b in zip(found, expected))
            print(f"{kind:10} {name:20} {'ok' if same else f'{wrong} of {len(expected)} differ'}")
            failed += not same
    sys.exit(failed > 0)


if __name__ == "__main__":
    main()
