"""onnxruntime-genai's model builder (0.18 in the set `now`, 0.11 in `optimum`), without the files
for tokenizers, which the tiny models do not have."""

import tempfile
import types


def _classes(owner):
    return [owner, *(deeper for child in owner.__subclasses__() for deeper in _classes(child))]


def build(folder, path, precision, provider="cpu", **options):
    from onnxruntime_genai.models import builder

    for owner in _classes(builder.Model):
        owner.save_processing = lambda *_, **__: None
        owner.make_genai_config = lambda *_, **__: None
    with tempfile.TemporaryDirectory() as cache:
        if hasattr(builder, "get_hf_details"):
            builder.AutoTokenizer = types.SimpleNamespace(from_pretrained=lambda *_, **__: None)
            builder.add_special_token_ids = lambda *_: None
            pairs = [f"{key}={value}" for key, value in options.items()] + ["hf_remote=false"]
            prepared = builder.parse_extra_options(
                None, str(folder), str(path.parent), precision, provider, cache, pairs)
            builder.create_model(
                None, str(folder), str(path.parent), precision, provider, cache, **prepared)
        else:
            builder.create_model(
                None, str(folder), str(path.parent), precision, provider, cache, **options)
