"""The twenty-odd exports that are committed: made with hidden size 32, then copied with what no
importer reads taken off (five metadata strings a node are two fifths of dynamo files; doc strings;
TorchScript's names of scopes stay, they are the node names).

    python onnx_zoo_commit.py .cache/zoo32 tests/golden/onnx              in the venv of `now`
    python onnx_zoo_commit.py --list                                      what to make first
"""

import json
import pathlib
import shutil
import sys

# Chosen for breadth of patterns: cache by Concat, none, two decoders under If, ScatterND, the
# contrib operators; masks, rotations, norms and positions of each family; three
# quantised forms of weights.
CHOSEN = {
    "opt_past": ("llama_gqa", "bloom", "falcon", "opt", "phi3"),
    "opt_nocache": ("llama_mha",),
    "int8_dynamic": ("llama_gqa",),
    "int8_qdq": ("llama_gqa",),
    "old_merged": ("qwen2", "gpt2"),  # optimum 1.23 takes no head_dim of its own
    "dyn18": ("gemma2", "stablelm", "smollm3"),
    "dyn23": ("qwen3",),
    "dyn24": ("mistral",),
    "dynstatic18": ("llama_gqa",),
    "ts17": ("mistral",),
    "hfx_decode": ("gpt_neox",),
    "hfx_static": ("qwen3",),
    "genai_fp32": ("llama_gqa", "gemma2"),
    "genai_int4": ("llama_gqa",),
    "native23_past": ("llama_gqa",),
    "native24_scatter": ("llama_gqa",),
}


def _strip(graph):
    del graph.metadata_props[:]
    graph.doc_string = ""
    for item in [*graph.node, *graph.input, *graph.output, *graph.initializer, *graph.value_info]:
        item.doc_string = ""
        if hasattr(item, "metadata_props"):
            del item.metadata_props[:]
    for node in graph.node:
        for attribute in node.attribute:
            if attribute.HasField("g"):
                _strip(attribute.g)


def _copy(source, target):
    import onnx

    shutil.rmtree(target, ignore_errors=True)
    target.mkdir(parents=True)
    model = onnx.load(source / "model.onnx", load_external_data=False)
    del model.metadata_props[:]
    model.doc_string = ""
    _strip(model.graph)
    for function in model.functions:
        function.doc_string = ""
        for node in function.node:
            node.doc_string = ""
            del node.metadata_props[:]
    (target / "model.onnx").write_bytes(model.SerializeToString(deterministic=True))
    for name in ("model.onnx.data", "config.json", "oracle.json"):
        if (source / name).is_file():
            shutil.copyfile(source / name, target / name)


def main(root, out):
    for style, models in CHOSEN.items():
        for model in models:
            source, target = root / model / style, out / f"{model}__{style}"
            oracle = json.loads((source / "oracle.json").read_text(encoding="utf-8"))
            if oracle["ort"] != "runs":
                sys.exit(f"onnx_zoo_commit: {source}: ONNX Runtime fails: {oracle['why']}")
            _copy(source, target)
            size = sum(file.stat().st_size for file in target.iterdir())
            print(f"{target.name} {size} {oracle['max_diff_from_transformers']}")


if __name__ == "__main__":
    if sys.argv[1] == "--list":
        print("\n".join(f"--styles {s} --models {','.join(m)}" for s, m in CHOSEN.items()))
    else:
        main(pathlib.Path(sys.argv[1]), pathlib.Path(sys.argv[2]))
