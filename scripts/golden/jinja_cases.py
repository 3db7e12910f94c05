"""Writes tests/golden/jinja_cases.json: templates rendered by transformers' own chat template code.

jinja2 in the sandbox that transformers builds, after its treatment of messages (null fields dropped,
reasoning under two names). Two kinds of cases: small constructs (jinja_constructs.py) on one
conversation, and template families written for these tests in the style of public ones
(jinja_families/*.jinja) on several. A case with "error" failed in jinja2 and must fail in Kvern.

    pip install transformers==5.24.0 jinja2==3.1.6
    TZ=UTC python scripts/golden/jinja_cases.py
"""

import datetime
import json
import os
import pathlib
import time

os.environ["TZ"] = "UTC"
time.tzset()

from transformers.utils import chat_template_utils  # noqa: E402

import jinja_constructs  # noqa: E402
import jinja_conversations  # noqa: E402

HERE = pathlib.Path(__file__).resolve().parent
GOLDEN = HERE.parents[1] / "tests" / "golden" / "jinja_cases.json"
UNIX_TIME_S = 1_700_000_000


class FixedClock(datetime.datetime):
    @classmethod
    def now(cls, tz=None):
        return cls.fromtimestamp(UNIX_TIME_S, tz)


def render(template, given):
    """{"text"} or {"error": the kind of exception}."""
    messages = chat_template_utils._normalize_chat_messages(json.loads(json.dumps(given["messages"])))
    try:
        texts, _ = chat_template_utils.render_jinja_template(
            conversations=[messages],
            tools=given.get("tools"),
            documents=given.get("documents"),
            chat_template=template,
            add_generation_prompt=given.get("add_generation_prompt", False),
            bos_token="<s>",
            eos_token="</s>",
            **given.get("variables", {}),
        )
    except Exception as error:  # whatever a template can raise
        return {"error": type(error).__name__}
    return {"text": texts[0]}


def main():
    chat_template_utils.datetime = FixedClock
    conversations = {"constructs": {"messages": jinja_constructs.MESSAGES,
                                    "variables": jinja_constructs.VARIABLES}}
    conversations |= jinja_conversations.CONVERSATIONS
    cases = []
    for template in jinja_constructs.all_templates():
        cases.append({"template": template, "input": "constructs",
                      **render(template, conversations["constructs"])})
    families = {}
    for path in sorted((HERE / "jinja_families").glob("*.jinja")):
        families[path.stem] = path.read_text()
        for name, given in conversations.items():
            if name != "constructs":
                cases.append({"family": path.stem, "input": name,
                              **render(families[path.stem], given)})
    golden = {"unix_time_s": UNIX_TIME_S, "conversations": conversations, "families": families,
              "cases": cases}
    lines = json.dumps(golden, ensure_ascii=False, separators=(",", ":"))
    GOLDEN.write_text(lines.replace('},{"template"', '},\n{"template"')
                      .replace('},{"family"', '},\n{"family"') + "\n")
    failed = [case for case in cases if "error" in case]
    print(f"{len(cases)} cases, {len(families)} families, {len(failed)} that fail, "
          f"{GOLDEN.stat().st_size} bytes")
    for case in failed:
        print(f"  {case['error']}: {case.get('family', case.get('template'))[:100]} {case['input']}")


if __name__ == "__main__":
    main()
