"""The zoo of ONNX exports: tiny random models (onnx_zoo_models.py) x exporters, each with what ONNX
Runtime 1.32 answers (oracle.json). Three package sets, one venv each:

    pip install -r onnx_zoo_requirements_now.txt        (optimum, old: each into a venv of its own)
    python onnx_zoo.py .cache/zoo --set now             first: it makes the checkpoints too
    python onnx_zoo.py .cache/zoo --set optimum         then: int8_* come from its opt_past
    python onnx_zoo.py .cache/zoo --set old
    python onnx_zoo.py .cache/zoo --oracle              in the venv of `now`

What is there is kept (delete a folder to make it again); --models and --styles narrow; --hidden 32
makes the small ones that are committed (onnx_zoo_commit.py). Result: <root>/<model>/<style>/
{model.onnx, config.json, export.json, oracle.json} and <root>/index.json.
"""

import argparse
import importlib
import importlib.metadata
import json
import os
import pathlib
import shutil
import sys
import time
import traceback

os.environ.setdefault("HF_HUB_OFFLINE", "1")
os.environ.setdefault("HF_HUB_DISABLE_PROGRESS_BARS", "1")
os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")

import onnx_zoo_models

SETS = ("now", "optimum", "old")


def _check_versions(name):
    """A version that differs from the set's pins stops here, named, not deep inside an exporter."""
    pins = pathlib.Path(__file__).with_name(f"onnx_zoo_requirements_{name}.txt").read_text()
    for line in pins.splitlines():
        package, _, wanted = line.partition("==")
        if not wanted:
            continue
        try:
            found = importlib.metadata.version(package)
        except importlib.metadata.PackageNotFoundError:
            found = "none"
        if found != wanted:
            sys.exit(f"onnx_zoo: set '{name}' wants {package} {wanted}, here is {found}: "
                     f"pip install -r onnx_zoo_requirements_{name}.txt in a venv of its own")


def _why(error):
    """One line; torch.onnx buries the cause under advice."""
    _, _, summary = str(error).partition("## Exception summary")
    if summary:
        return next(line for line in summary.splitlines() if line.strip())[:300]
    return f"{type(error).__name__}: {error}".strip().splitlines()[0][:300]


def _export(root, set_name, model, style, run, hidden):
    folder = root / model / style
    if (folder / "export.json").is_file():
        return
    checkpoint = onnx_zoo_models.checkpoint(root, model, hidden)
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    shutil.copy(checkpoint / "config.json", folder / "config.json")
    begin, record = time.monotonic(), {"model": model, "style": style, "set": set_name}
    try:
        run(checkpoint, folder / "model.onnx")
        record["export"] = "ok"
    except Exception as error:  # an exporter that cannot is a row of the table
        record["export"] = "fails"
        record["why"] = _why(error)
        (folder / "traceback.txt").write_text(traceback.format_exc(), encoding="utf-8")
    record["seconds"] = round(time.monotonic() - begin, 1)
    (folder / "export.json").write_text(json.dumps(record) + "\n", encoding="utf-8")
    print(model, style, record["export"], record.get("why", ""), record["seconds"], flush=True)


def _pairs(root):
    for path in sorted(root.glob("*/*/export.json")):
        yield path.parent, json.loads(path.read_text(encoding="utf-8"))


def _oracle(root, models, styles):
    import onnx_zoo_oracle

    for folder, record in _pairs(root):
        wanted = (not models or record["model"] in models) and (
            not styles or record["style"] in styles)
        if not wanted or record["export"] != "ok" or (folder / "oracle.json").is_file():
            continue
        answer = onnx_zoo_oracle.answer(folder, root / record["model"] / "hf", record)
        text = json.dumps(answer, separators=(",", ":")).replace(',"', ',\n"') + "\n"
        (folder / "oracle.json").write_text(text, encoding="utf-8")
        print(record["model"], record["style"], answer["ort"], answer.get("why", ""),
              answer.get("max_diff_from_transformers", ""), flush=True)


def write_index(root):
    rows = []
    for folder, record in _pairs(root):
        row = {"model": record["model"], "style": record["style"], "set": record["set"],
               "path": str((folder / "model.onnx").relative_to(root)), "export": record["export"]}
        if record["export"] != "ok":
            row.update(path=None, ort="not exported", why=record["why"])
        elif (folder / "oracle.json").is_file():
            oracle = json.loads((folder / "oracle.json").read_text(encoding="utf-8"))
            keys = ("ort", "why", "opset", "interface", "max_diff_from_transformers",
                    "greedy_equal_to_transformers")
            row.update({key: oracle[key] for key in keys if key in oracle})
        rows.append(row)
    text = "[\n" + ",\n".join(json.dumps(row) for row in rows) + "\n]\n"
    (root / "index.json").write_text(text, encoding="utf-8")


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("root", type=pathlib.Path)
    parser.add_argument("--set", choices=SETS)
    parser.add_argument("--models", default="")
    parser.add_argument("--styles", default="")
    parser.add_argument("--hidden", type=int, choices=(32, 64), default=64)
    parser.add_argument("--oracle", action="store_true")
    args = parser.parse_args()
    models = [name for name in args.models.split(",") if name]
    styles = [name for name in args.styles.split(",") if name]
    unknown = set(models) - set(onnx_zoo_models.MODELS)
    if unknown:
        sys.exit(f"onnx_zoo: no model {sorted(unknown)}; there are {list(onnx_zoo_models.MODELS)}")
    args.root.mkdir(parents=True, exist_ok=True)
    if args.set:
        _check_versions(args.set)
        module = importlib.import_module(f"onnx_zoo_{args.set}")
        for style, run in module.STYLES.items():
            only = getattr(module, "ONLY", {}).get(style, onnx_zoo_models.MODELS)
            for model in models or onnx_zoo_models.MODELS:
                if args.hidden == 32 and model == "phi3_longrope":
                    continue
                if (not styles or style in styles) and model in only:
                    _export(args.root, args.set, model, style, run, args.hidden)
    if args.oracle:
        _check_versions("now")
        _oracle(args.root, models, styles)
    write_index(args.root)


if __name__ == "__main__":
    main()
