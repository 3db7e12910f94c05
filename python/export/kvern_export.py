"""A Hugging Face folder to ONNX to a plan, each step checked.

    python kvern_export.py MODEL_FOLDER -o OUT [--exporter dynamo|optimum] [--kvern PROGRAM]

Exports with a cache, checks inputs, outputs, opset and free axes, runs ONNX Runtime against
transformers on three prompts, then `kvern build` and compares the ids. The first thing that is
wrong ends it with a sentence. Exit codes: 0 right, 1 a check failed, 3 versions that clash.
"""

import argparse
import os
import pathlib
import shutil
import sys
import warnings

for _name, _value in (("HF_HUB_OFFLINE", "1"), ("TRANSFORMERS_VERBOSITY", "error"),
                      ("HF_HUB_DISABLE_PROGRESS_BARS", "1")):
    os.environ.setdefault(_name, _value)
if not sys.warnoptions:  # python -W and PYTHONWARNINGS go before
    warnings.simplefilter("ignore")

import export_versions


def _compare_runtime(path, folder):
    """The three prompts and what transformers answers; ends the program if ONNX Runtime differs."""
    import onnxruntime

    import export_compare
    import export_graph

    model = export_graph.load(folder, "eager")
    all_prompts = export_compare.prompts(folder, model.config.get_text_config().vocab_size)
    session = onnxruntime.InferenceSession(str(path), providers=["CPUExecutionProvider"])
    answers = []
    for number, prompt in enumerate(all_prompts, 1):
        wanted, logits = export_compare.by_transformers(model, prompt)
        got, theirs = export_compare.by_onnxruntime(session, prompt)
        difference = float(abs(logits - theirs).max())
        print(f"prompt {number}: {len(prompt)} tokens, ONNX Runtime within {difference:.1e} of "
              f"transformers, ids {'equal' if got == wanted else 'differ'}", flush=True)
        if got != wanted or difference > export_compare.TOLERANCE:
            sys.exit(f"kvern_export: prompt {number}: transformers {wanted}, ONNX Runtime {got}: "
                     "the exporter changed the model (docs/export.md lists how); try the other one")
        answers.append(wanted)
    return all_prompts, answers


def _compare_kvern(program, path, all_prompts, answers):
    import export_compare

    try:
        got = export_compare.by_kvern(program, path, all_prompts)
    except RuntimeError as error:
        sys.exit(f"kvern_export: {error}")
    for number, (wanted, ids) in enumerate(zip(answers, got), 1):
        if wanted != ids:
            sys.exit(f"kvern_export: prompt {number}: transformers {wanted}, kvern {ids}; please "
                     "report it with the folder's config.json and the versions in use")
    print(f"kvern: the ids of transformers on {len(answers)} prompts")


def _arguments():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=pathlib.Path, help="config.json and safetensors")
    parser.add_argument("-o", "--out", type=pathlib.Path, required=True, help="folder to write")
    parser.add_argument("--exporter", choices=("auto", "dynamo", "optimum"), default="auto")
    parser.add_argument("--opset", type=int, default=18)
    parser.add_argument("--kvern", help="the program; default: kvern on the PATH")
    parser.add_argument("--no-kvern", action="store_true", help="stop after ONNX Runtime")
    parser.add_argument("--any-versions", action="store_true", help="also untried versions")
    return parser.parse_args()


def _check_folders(folder, out):
    if not (folder / "config.json").is_file():
        sys.exit(f"kvern_export: {folder} has no config.json: it is no Hugging Face folder")
    if out.resolve() == folder.resolve():
        sys.exit(f"kvern_export: the export would be written among the files of {folder}: give "
                 "another folder with -o")
    try:
        out.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        sys.exit(f"kvern_export: cannot make the folder {out}: {error.strerror}")
    if not os.access(out, os.W_OK | os.X_OK):
        sys.exit(f"kvern_export: cannot write into {out}: give another folder with -o")


def _export(exporter, args):
    """The path of the model; what an exporter throws ends the program with a sentence."""
    import export_graph

    try:
        return export_graph.export(exporter, args.folder, args.out, args.opset)
    except Exception as error:  # exporters throw anything
        text = " ".join(str(error).split())[:300]
        sys.exit(f"kvern_export: {exporter} cannot export {args.folder}: {type(error).__name__}: "
                 f"{text}; docs/export.md says which exporter takes which model")


def main():
    args = _arguments()
    _check_folders(args.folder, args.out)
    program = args.kvern or shutil.which("kvern")
    if not args.no_kvern and not program:
        sys.exit("kvern_export: no kvern on the PATH: give --kvern, or --no-kvern to do without")
    try:
        exporter = export_versions.choose(args.exporter, args.any_versions)
    except export_versions.Clash as clash:
        print(f"kvern_export: {clash}", file=sys.stderr)
        sys.exit(3)
    import export_graph

    print(f"exporting with {exporter} ...", flush=True)
    path = _export(exporter, args)
    try:
        print(f"{path}: {export_graph.check(path)}", flush=True)
    except export_graph.Refused as error:
        sys.exit(f"kvern_export: {path}: {error}")
    all_prompts, answers = _compare_runtime(path, args.folder)
    if not args.no_kvern:
        _compare_kvern(program, path, all_prompts, answers)
        print(f"next: {program} build {args.out} -o model.plan")


if __name__ == "__main__":
    main()
