"""SmolLM2-135M as a Hugging Face folder, from the GGUF file (its weights dequantised to fp32), and
that folder through optimum.

    python onnx_zoo_smollm2.py MODEL.gguf .cache/zoo/smollm2     in the venv of requirements.txt
    python onnx_zoo_smollm2.py --export .cache/zoo/smollm2       in the venv of the set `optimum`

gives smollm2/hf (538 MB) and smollm2/opt_past/model.onnx; then onnx_zoo.py --oracle as for all.
"""

import json
import pathlib
import shutil
import sys

import onnx_zoo_models


def _config(meta):
    heads = meta["llama.attention.head_count"]
    return {
        "architectures": ["LlamaForCausalLM"],
        "model_type": "llama",
        "torch_dtype": "float32",
        "vocab_size": meta["llama.vocab_size"],
        "hidden_size": meta["llama.embedding_length"],
        "intermediate_size": meta["llama.feed_forward_length"],
        "num_hidden_layers": meta["llama.block_count"],
        "num_attention_heads": heads,
        "num_key_value_heads": meta["llama.attention.head_count_kv"],
        "head_dim": meta["llama.embedding_length"] // heads,
        "max_position_embeddings": meta["llama.context_length"],
        "rms_norm_eps": round(meta["llama.attention.layer_norm_rms_epsilon"], 9),
        "rope_theta": meta["llama.rope.freq_base"],
        "hidden_act": "silu",
        "attention_bias": False,
        "mlp_bias": False,
        "tie_word_embeddings": True,
        "bos_token_id": meta["tokenizer.ggml.bos_token_id"],
        "eos_token_id": meta["tokenizer.ggml.eos_token_id"],
        "pad_token_id": None,
    }


def make_folder(gguf, folder):
    import gguf_file
    import smollm2_model
    import smollm2_tokenizer
    from safetensors.torch import save_file

    folder.mkdir(parents=True, exist_ok=True)
    meta = gguf_file.read_metadata(gguf)
    tokens = meta["tokenizer.ggml.tokens"]
    state = smollm2_model.load(gguf).state_dict()
    state.pop("lm_head.weight")  # tied
    save_file({name: value.contiguous() for name, value in state.items()},
              folder / "model.safetensors", metadata={"format": "pt"})
    smollm2_tokenizer.build_tokenizer(meta)[0].save(str(folder / "tokenizer.json"))
    config = _config(meta)
    tokenizer_config = {
        "tokenizer_class": "PreTrainedTokenizerFast",
        "bos_token": tokens[config["bos_token_id"]],
        "eos_token": tokens[config["eos_token_id"]],
        "chat_template": meta["tokenizer.chat_template"],
        "model_max_length": config["max_position_embeddings"],
        "clean_up_tokenization_spaces": False,
    }
    for name, value in (("config", config), ("tokenizer_config", tokenizer_config)):
        text = json.dumps(value, indent=2) + "\n"
        (folder / f"{name}.json").write_text(text, encoding="utf-8")
    reference = json.dumps(onnx_zoo_models.answer(folder), separators=(",", ":")) + "\n"
    (folder / "reference.json").write_text(reference, encoding="utf-8")


def export(root):
    import onnx_zoo_optimum

    target = root / "opt_past"
    target.mkdir(parents=True, exist_ok=True)
    onnx_zoo_optimum.STYLES["opt_past"](root / "hf", target / "model.onnx")
    for name in ("config.json", "tokenizer.json", "tokenizer_config.json"):
        shutil.copy(root / "hf" / name, target / name)
    record = {"model": "smollm2", "style": "opt_past", "set": "optimum", "export": "ok"}
    (target / "export.json").write_text(json.dumps(record) + "\n", encoding="utf-8")


if __name__ == "__main__":
    if sys.argv[1] == "--export":
        export(pathlib.Path(sys.argv[2]))
    else:
        make_folder(sys.argv[1], pathlib.Path(sys.argv[2]) / "hf")
