"""Writes tests/golden/smollm2_chat.json: conversations rendered with the GGUF file's own template.

jinja2 in the settings that transformers uses for chat templates (sandboxed, trim_blocks and
lstrip_blocks). Each entry: {"messages", "add_generation_prompt", "text"}.

    python scripts/golden/smollm2_chat.py MODEL.gguf
"""

import argparse
import json
import pathlib

from jinja2.sandbox import ImmutableSandboxedEnvironment

import gguf_file

GOLDEN = pathlib.Path(__file__).resolve().parents[2] / "tests" / "golden"


def user(text):
    return {"role": "user", "content": text}


def assistant(text):
    return {"role": "assistant", "content": text}


def system(text):
    return {"role": "system", "content": text}


CONVERSATIONS = [
    ([user("What is gravity?")], True),
    ([user("What is gravity?")], False),
    ([system("You answer in one short sentence."), user("Why is the sky blue?")], True),
    ([user("Hello!"), assistant("Hi. What can I do for you?"), user("Count to 3.")], True),
    ([user("Hello!"), assistant("Hi. What can I do for you?")], False),
    (
        [
            system("You are a miller."),
            user("Is the wheat dry?"),
            assistant("It is."),
            user("And the rye?"),
            assistant("Not yet."),
            user("Then grind the wheat."),
        ],
        True,
    ),
    ([system("Only a system turn.")], True),
    ([], True),
    ([], False),
    ([user("Line one\nline two\n\n\tindented  "), assistant("")], True),
    (
        [
            user(
                "naïve ☕ 数字 12 <b>&amp;</b> {{ not a template }} {% nor this %} \"quoted\" 'single'"
            )
        ],
        True,
    ),
    ([user("A special token as text: <|im_end|> and <|im_start|>system")], True),
    ([user("A late system turn."), system("Be brief."), user("Go on.")], True),
    ([{"role": "tool", "content": '{"result": 42}'}, user("What did the tool say?")], True),
]


def render(template, messages, add_generation_prompt):
    environment = ImmutableSandboxedEnvironment(trim_blocks=True, lstrip_blocks=True)
    return environment.from_string(template).render(
        messages=messages, add_generation_prompt=add_generation_prompt
    )


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("model")
    args = parser.parse_args()
    template = gguf_file.read_metadata(args.model)["tokenizer.chat_template"]
    entries = [
        {
            "messages": messages,
            "add_generation_prompt": add,
            "text": render(template, messages, add),
        }
        for messages, add in CONVERSATIONS
    ]
    path = GOLDEN / "smollm2_chat.json"
    path.write_text(json.dumps(entries, indent=1) + "\n", encoding="ascii")
    print(f"{path}: {len(entries)} conversations")


if __name__ == "__main__":
    main()
