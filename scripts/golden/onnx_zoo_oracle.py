"""What ONNX Runtime answers for an export, driven through the graph's own interface: greedy ids and
the logits of the last prompt token for three prompts, in fp32 on the CPU."""

import json
import math
import re

import numpy as np
import onnx
import onnxruntime

import onnx_zoo_models

CAPACITY = 64  # rows given to a cache of fixed or free capacity
_PAIRS = (  # (past, present), as the exporters of the zoo name them
    (re.compile(r"past_key_values\.(\d+)\.(key|value)$"), "present.{}.{}"),
    (re.compile(r"input\.cache\.layers\.(\d+)\.(keys|values)$"), "output.cache.layers.{}.{}"),
)
_CARRIED = re.compile(r"input\.(cache\.layers\.\d+\.(?:cumulative_length|_sliding_window_tensor))$")
_DTYPES = {"tensor(float)": np.float32, "tensor(float16)": np.float16, "tensor(int64)": np.int64,
           "tensor(int32)": np.int32, "tensor(bool)": np.bool_}

_AS_WRITTEN = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL


def _fixed(dim):
    """A size, also where the file says it as a name; None for a symbol."""
    if isinstance(dim, int):
        return dim
    return int(dim) if isinstance(dim, str) and dim.isdigit() else None


class Driver:
    """Feeds one sequence; `step(ids)` returns the logits of the last token."""

    def __init__(self, session, window, all_sliding):
        self.session, self.window = session, window
        self.inputs = {node.name: node for node in session.get_inputs()}
        self.outputs = [node.name for node in session.get_outputs()]
        self.pairs = {}
        for name in self.inputs:
            for pattern, present in _PAIRS:
                match = pattern.match(name)
                if match:
                    self.pairs[name] = present.format(*match.groups())
        self.carried = {name: "output." + match.group(1) for name in self.inputs
                        if (match := _CARRIED.match(name))}
        # A mask of four dimensions is the caller's to make; the file does not know the window.
        self.windowed = [name for name, node in self.inputs.items()
                         if name.startswith("attention_mask") and len(node.shape) == 4
                         and (all_sliding or "sliding" in name)]
        self.static = bool({"cache_length", "write_indices"} & set(self.inputs)) or any(
            name.endswith("cumulative_length") for name in self.carried)
        self.reset()

    def form(self):
        if not self.pairs:
            return "no cache"
        return "static" if self.static else "ring" if self._rings() else "growing"

    def _rings(self):
        return [name for name in self.pairs if "past_sliding_length" in self.inputs[name].shape]

    def reset(self):
        self.ids, self.state = [], {}
        for name in self.pairs:
            node = self.inputs[name]
            rows = CAPACITY if self.static else self.window if name in self._rings() else 0
            shape = [1, _fixed(node.shape[1]), _fixed(node.shape[2]) or rows, _fixed(node.shape[3])]
            other = [n for n in self.pairs if _fixed(self.inputs[n].shape[3])]
            if shape[3] is None:  # GenAI 0.18 hides it behind a symbol
                shape[3] = self.head_dim if not other else _fixed(self.inputs[other[0]].shape[3])
            self.state[name] = np.zeros(shape, _DTYPES[node.type])
        for name in self.carried:
            last = self.window if name.endswith("_sliding_window_tensor") else 0
            self.state[name] = np.array(last, np.int64)

    head_dim = 16

    def _mask(self, name, total, new):
        node, past = self.inputs[name], total - new
        if len(node.shape) == 2:
            return np.ones((1, total), _DTYPES[node.type])
        rows = next(iter(self.state.values())).shape[2]
        query, key = np.arange(past, total)[:, None], np.arange(rows)[None]
        mask = key <= query
        if name in self.windowed:
            mask &= key > query - self.window
        if _DTYPES[node.type] == np.float32:  # eager attention takes it added to the scores
            mask = np.where(mask, np.float32(0), np.finfo(np.float32).min)
        return mask[None, None]

    def step(self, ids):
        if not self.pairs:
            ids = self.ids + ids
            self.ids = []
        past, total = len(self.ids), len(self.ids) + len(ids)
        feed = dict(self.state)
        for name, node in self.inputs.items():
            if name in feed:
                continue
            if name == "input_ids":
                feed[name] = np.array([ids], _DTYPES[node.type])
            elif name.startswith("attention_mask"):
                feed[name] = self._mask(name, total, len(ids))
            elif name == "position_ids":
                feed[name] = np.arange(past, total, dtype=_DTYPES[node.type])[None]
            elif name == "cache_length":
                feed[name] = np.array(past, np.int64)
            elif name == "write_indices":
                feed[name] = np.array([past], np.int64)
            elif name == "use_cache_branch":
                feed[name] = np.array([past > 0])
            else:
                raise ValueError(f"input '{name}' {node.shape}: nothing known feeds it")
        results = dict(zip(self.outputs, self.session.run(None, feed)))
        self.ids += ids
        for name, present in (self.pairs | self.carried).items():
            self.state[name] = results[present]
        return results["logits"][0, -1].astype(np.float32)


def _answer(driver, prompt):
    driver.reset()
    row = logits = driver.step(list(prompt))
    greedy, margin = [], math.inf
    while True:
        best = np.sort(row)[-2:]
        margin = min(margin, float(best[1] - best[0]))
        greedy.append(int(row.argmax()))
        if len(greedy) == onnx_zoo_models.NEW_TOKENS:
            break
        row = driver.step([greedy[-1]])
    return {"ids": list(prompt), "greedy": greedy, "min_margin": round(margin, 6),
            "logits": _rounded(logits), "last_logits": _rounded(row)}


def _rounded(row):
    return [round(float(value), 6) for value in row[:onnx_zoo_models.VOCAB]]


def _largest_difference(ours, theirs):
    """Of the logits after the prompt, and after the last fed token where the same ones were fed."""
    keys = ["logits"] + ["last_logits"] * (ours["greedy"][:-1] == theirs["greedy"][:-1])
    return max(float(np.abs(np.array(ours[key]) - np.array(theirs[key])).max()) for key in keys)


def _session(path, level):
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    options.log_severity_level = 3
    if level is not None:
        options.graph_optimization_level = level
    return onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])


def answer(folder, checkpoint, record):
    path = folder / "model.onnx"
    opsets = {o.domain or "ai.onnx": o.version
              for o in onnx.load(path, load_external_data=False).opset_import}
    result = {"model": record["model"], "style": record["style"],
              "onnxruntime": onnxruntime.__version__, "opset": opsets}
    config = json.loads((checkpoint / "config.json").read_text(encoding="utf-8"))
    try:
        # accuracy_level 1 asks MatMulNBits to compute in fp32, as the file's values say.
        source = path
        if record["style"].endswith("int4"):
            source = folder / "accuracy_1.tmp"
            _accuracy_level_1(path, source)
        # What the file says, not what fusions over Q and DQ round differently.
        level = _AS_WRITTEN if record["style"].startswith("int8") else None
        session = _session(source, level)
        if source != path:
            source.unlink()
        window = config.get("sliding_window") or 0
        driver = Driver(session, window, window and config["model_type"] in ("mistral", "phi3"))
        if config.get("head_dim") is None:
            hidden = config.get("hidden_size") or config["n_embd"]
            driver.head_dim = hidden // (config.get("num_attention_heads") or config["n_head"])
            driver.reset()
        result["interface"] = {
            "form": driver.form(),
            "inputs": [name for name in driver.inputs
                       if name not in driver.pairs and name not in driver.carried],
            "pairs": driver.pairs, "carried": driver.carried,
            "masks_fed_with_window": {name: window for name in driver.windowed},
        }
        result["prompts"] = [_answer(driver, prompt) for prompt in onnx_zoo_models.PROMPTS]
        result["ort"] = "runs"
    except Exception as error:
        result["ort"] = "fails"
        result["why"] = f"{type(error).__name__}: {error}".strip().splitlines()[0][:300]
        return result
    reference = json.loads((checkpoint / "reference.json").read_text(encoding="utf-8"))
    differences = map(_largest_difference, result["prompts"], reference)
    result["max_diff_from_transformers"] = round(max(differences), 6)
    result["greedy_equal_to_transformers"] = all(
        a["greedy"] == b["greedy"] for a, b in zip(result["prompts"], reference))
    return result


def _accuracy_level_1(path, target):
    model = onnx.load(path, load_external_data=False)
    for node in model.graph.node:
        if node.op_type == "MatMulNBits":
            kept = [a for a in node.attribute if a.name != "accuracy_level"]
            del node.attribute[:]
            node.attribute.extend([*kept, onnx.helper.make_attribute("accuracy_level", 1)])
    onnx.save(model, target)
