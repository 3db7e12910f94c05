"""Reads a GGUF file (v2, v3) and dequantises Q4_1, Q8_0, F16 and F32 to float32 with plain numpy.

Written from the format's description, apart from Kvern's C++ reader, so that the two can disagree.
"""

import hashlib
import struct

import numpy as np

_SCALARS = {
    0: "<B",
    1: "<b",
    2: "<H",
    3: "<h",
    4: "<I",
    5: "<i",
    6: "<f",
    7: "<?",
    10: "<Q",
    11: "<q",
    12: "<d",
}
_STRING, _ARRAY = 8, 9
F32, F16, Q4_1, Q8_0 = 0, 1, 3, 8


class _Cursor:
    def __init__(self, data):
        self.data, self.at = data, 0

    def scalar(self, fmt):
        (value,) = struct.unpack_from(fmt, self.data, self.at)
        self.at += struct.calcsize(fmt)
        return value

    def string(self):
        length = self.scalar("<Q")
        raw = self.data[self.at : self.at + length]
        self.at += length
        return bytes(raw).decode("utf-8")

    def value(self, kind):
        if kind == _STRING:
            return self.string()
        if kind == _ARRAY:
            item, count = self.scalar("<I"), self.scalar("<Q")
            return [self.value(item) for _ in range(count)]
        return self.scalar(_SCALARS[kind])


def _parse(path):
    data = np.memmap(path, dtype=np.uint8, mode="r")
    cursor = _Cursor(data)
    magic, version = cursor.scalar("<I"), cursor.scalar("<I")
    if magic != 0x46554747 or version not in (2, 3):
        raise ValueError(f"{path}: not a GGUF file of version 2 or 3")
    num_tensors, num_keys = cursor.scalar("<Q"), cursor.scalar("<Q")
    metadata = {}
    for _ in range(num_keys):
        key = cursor.string()
        metadata[key] = cursor.value(cursor.scalar("<I"))
    infos = []
    for _ in range(num_tensors):
        name = cursor.string()
        dims = [cursor.scalar("<Q") for _ in range(cursor.scalar("<I"))]
        infos.append((name, dims[::-1], cursor.scalar("<I"), cursor.scalar("<Q")))
    alignment = metadata.get("general.alignment", 32)
    start = -(-cursor.at // alignment) * alignment
    return data, metadata, infos, start


def read_metadata(path):
    return _parse(path)[1]


def read_tensors(path):
    """name -> float32 array, outermost dimension first (rows of a matrix are its outputs)."""
    data, _, infos, start = _parse(path)
    return {name: _dequantise(data[start + at :], shape, kind) for name, shape, kind, at in infos}


def _dequantise(raw, shape, kind):
    count = int(np.prod(shape))
    if kind == F32:
        return raw[: count * 4].view("<f4").reshape(shape).astype(np.float32)
    if kind == F16:
        return raw[: count * 2].view("<f2").reshape(shape).astype(np.float32)
    if kind == Q8_0:  # per 32 values: f16 scale, 32 int8 codes
        blocks = raw[: count // 32 * 34].reshape(-1, 34)
        scale = np.ascontiguousarray(blocks[:, 0:2]).view("<f2").astype(np.float32)
        codes = blocks[:, 2:].view(np.int8).astype(np.float32)
        return (codes * scale).reshape(shape)
    if (
        kind == Q4_1
    ):  # per 32 values: f16 scale, f16 minimum, 16 bytes: low nibbles are values 0-15
        blocks = raw[: count // 32 * 20].reshape(-1, 20)
        scale = np.ascontiguousarray(blocks[:, 0:2]).view("<f2").astype(np.float32)
        minimum = np.ascontiguousarray(blocks[:, 2:4]).view("<f2").astype(np.float32)
        nibbles = blocks[:, 4:]
        codes = np.concatenate([nibbles & 15, nibbles >> 4], axis=1).astype(np.float32)
        return (codes * scale + minimum).reshape(shape)
    raise ValueError(f"GGUF tensor type {kind} is not known here")


def sha256(path):
    digest = hashlib.sha256()
    with open(path, "rb") as file:
        while chunk := file.read(1 << 20):
            digest.update(chunk)
    return digest.hexdigest()
