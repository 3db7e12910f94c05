"""tests/golden/gguf_blocks.json: random blocks of every tensor type that Kvern decodes, and their
values by the PyPI package `gguf`, both as hexadecimal bytes (values: little-endian f32).

    python scripts/golden/gguf_blocks.py tests/golden/gguf_blocks.json
"""

import importlib.metadata
import json
import sys

import numpy as np
from gguf import GGMLQuantizationType as Type
from gguf.quants import dequantize

# Block bytes, and where the f16 scales and minima of a block lie: they must be finite numbers.
_LAYOUTS = {
    "F32": (4, []),
    "F16": (2, [0]),
    "BF16": (2, []),
    "Q8_0": (34, [0]),
    "Q4_0": (18, [0]),
    "Q4_1": (20, [0, 2]),
    "Q5_0": (22, [0]),
    "Q5_1": (24, [0, 2]),
    "Q4_K": (144, [0, 2]),
    "Q5_K": (176, [0, 2]),
    "Q6_K": (210, [208]),
}
_BLOCKS = {"F32": 16, "F16": 64, "BF16": 64}
_SPECIAL_SCALES = [0.0, -0.03125, 6.0e-8, 3.0e-5, 1.0, -0.0123]


def _random_blocks(random, name):
    block_bytes, scale_offsets = _LAYOUTS[name]
    blocks = random.integers(0, 256, (_BLOCKS.get(name, 3), block_bytes), dtype=np.uint8)
    if name == "F32":
        return random.standard_normal(len(blocks)).astype("<f4").view(np.uint8).reshape(-1, 4)
    if name == "BF16":
        values = random.standard_normal(len(blocks)).astype("<f4").view("<u2")[1::2]
        return np.ascontiguousarray(values).view(np.uint8).reshape(-1, 2)
    for offset in scale_offsets:
        scales = random.standard_normal(len(blocks)) * 0.05
        scales[: len(_SPECIAL_SCALES)] = random.choice(_SPECIAL_SCALES, min(len(blocks), 6))
        scales[-1] = 0.0217 * (1 + offset)
        blocks[:, offset : offset + 2] = scales.astype("<f2").view(np.uint8).reshape(-1, 2)
    return blocks


def main(path):
    random = np.random.default_rng(7)
    golden = {"gguf": importlib.metadata.version("gguf"), "numpy": np.__version__, "types": {}}
    for name in _LAYOUTS:
        blocks = _random_blocks(random, name)
        values = dequantize(blocks.reshape(1, -1), Type[name]).astype("<f4")
        assert np.isfinite(values).all()
        golden["types"][name] = {
            "blocks": blocks.tobytes().hex(),
            "values": values.tobytes().hex(),
        }
    with open(path, "w", encoding="utf-8") as file:
        json.dump(golden, file, indent=1)
        file.write("\n")


if __name__ == "__main__":
    main(sys.argv[1])
