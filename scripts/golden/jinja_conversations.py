"""Conversations for jinja_cases.py: what chat templates are asked to render."""


def user(text):
    return {"role": "user", "content": text}


def assistant(text, **more):
    return {"role": "assistant", "content": text, **more}


def system(text):
    return {"role": "system", "content": text}


def call(name, arguments, **more):
    return {"type": "function", "function": {"name": name, "arguments": arguments}, **more}


WEATHER = {
    "type": "function",
    "function": {
        "name": "get_weather",
        "description": "The weather at a place <now> & \"here\".",
        "parameters": {
            "type": "object",
            "properties": {
                "town": {"type": "string", "description": "Name of the town, e.g. Århus"},
                "unit": {"type": "string", "enum": ["celsius", "fahrenheit"], "default": "celsius"},
                "days": {"type": ["integer", "null"], "minimum": 1},
            },
            "required": ["town"],
        },
    },
}
CLOCK = {
    "type": "function",
    "function": {"name": "now", "description": "The time.",
                 "parameters": {"type": "object", "properties": {}}},
}

CONVERSATIONS = {
    "plain": {"messages": [user("What is gravity?")], "add_generation_prompt": True},
    "system": {
        "messages": [system("You are a miller.\n"), user("  Is the wheat dry? ")],
        "add_generation_prompt": True,
    },
    "turns": {
        "messages": [system("Be brief."), user("Hi ☕"), assistant(" Hello. \n"), user("Count\nto 3."),
                     assistant("1 2 3"), user("</s> <|im_end|> {{ x }}")],
        "add_generation_prompt": True,
    },
    "finished": {"messages": [user("Hello!"), assistant("Hi.")]},
    "tools": {
        "messages": [system("Use tools."), user("Weather in Århus?")],
        "tools": [WEATHER, CLOCK],
        "add_generation_prompt": True,
    },
    "tool_call": {
        "messages": [
            user("Weather in Århus?"),
            {"role": "assistant", "content": None,
             "tool_calls": [call("get_weather", {"town": "Århus", "days": 2, "deep": {"a": [1.5, None]}},
                                 id="call00001")]},
        ],
        "tools": [WEATHER],
    },
    "tool_response": {
        "messages": [
            system("Use tools."),
            user("Weather and time?"),
            {"role": "assistant", "content": None,
             "tool_calls": [call("get_weather", {"town": "Kiel"}, id="call00001"),
                            call("now", {}, id="call00002")]},
            {"role": "tool", "name": "get_weather", "tool_call_id": "call00001",
             "content": "{\"sky\": \"grey\", \"temp\": 7}"},
            {"role": "tool", "name": "now", "tool_call_id": "call00002", "content": "12:30"},
            assistant("Grey, 7 degrees, half past twelve."),
            user("Thanks!"),
        ],
        "tools": [WEATHER, CLOCK],
        "add_generation_prompt": True,
    },
    "call_as_text": {
        "messages": [
            user("Time?"),
            assistant("", tool_calls=[call("now", "{\"zone\": \"UTC\"}", id="call00003")]),
            {"role": "tool", "tool_call_id": "call00003", "name": "now", "content": "7"},
        ],
        "tools": [CLOCK],
        "add_generation_prompt": True,
    },
    "parts": {
        "messages": [user([{"type": "text", "text": "Describe "}, {"type": "image"},
                           {"type": "text", "text": "this."}]), assistant("A mill."), user("Sure?")],
        "add_generation_prompt": True,
    },
    "thinking": {
        "messages": [
            user("2 + 2?"),
            assistant("<think>\nTwo and two.\n</think>\n\n4"),
            user("And 3 + 3?"),
            assistant("6", reasoning="Three and three."),
            user("Sum?"),
        ],
        "variables": {"enable_thinking": True},
        "add_generation_prompt": True,
    },
    "no_thinking": {
        "messages": [user("2 + 2?")],
        "variables": {"enable_thinking": False},
        "add_generation_prompt": True,
    },
    "documents": {
        "messages": [user("What do the papers say?")],
        "documents": [{"title": "Mills", "text": "Mills turn."}, {"title": "Wind", "text": "Wind blows."}],
        "add_generation_prompt": True,
    },
    "wrong_order": {"messages": [assistant("I begin."), user("Why?")]},
    "unknown_role": {"messages": [user("Hi"), {"role": "narrator", "content": "Meanwhile"}]},
    "empty": {"messages": [], "add_generation_prompt": True},
}
