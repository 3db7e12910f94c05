"""Writes a GGUF v3 file with plain numpy: metadata, F32, Q8_0 and Q4_1 tensors."""

import struct

import numpy as np

_MAGIC, _VERSION, _ALIGNMENT = 0x46554747, 3, 32
_U32, _I32, _F32, _BOOL, _STRING, _ARRAY = 4, 5, 6, 7, 8, 9


def _text(value):
    raw = value.encode("utf-8")
    return struct.pack("<Q", len(raw)) + raw


def _value(value):
    """(type number, bytes); a list holds strings or i32."""
    if isinstance(value, bool):
        return _BOOL, struct.pack("<?", value)
    if isinstance(value, int):
        return _U32, struct.pack("<I", value)
    if isinstance(value, float):
        return _F32, struct.pack("<f", value)
    if isinstance(value, str):
        return _STRING, _text(value)
    if isinstance(value[0], str):
        return _ARRAY, struct.pack("<IQ", _STRING, len(value)) + b"".join(map(_text, value))
    return _ARRAY, struct.pack("<IQ", _I32, len(value)) + np.array(value, "<i4").tobytes()


def _groups(array):
    return np.asarray(array, np.float32).reshape(-1, 32)


def q8_0(array):
    rows = _groups(array)
    scale = (np.abs(rows).max(axis=1, keepdims=True) / 127).astype("<f2")
    codes = np.rint(rows / scale.astype(np.float32)).clip(-127, 127).astype(np.int8)
    return np.concatenate([scale.view(np.uint8), codes.view(np.uint8)], axis=1).tobytes()


def q4_1(array):
    rows = _groups(array)
    low = rows.min(axis=1, keepdims=True).astype("<f2")
    scale = ((rows.max(axis=1, keepdims=True) - low.astype(np.float32)) / 15).astype("<f2")
    codes = np.rint((rows - low.astype(np.float32)) / scale.astype(np.float32))
    codes = codes.clip(0, 15).astype(np.uint8)
    packed = codes[:, :16] | codes[:, 16:] << 4
    return np.concatenate([scale.view(np.uint8), low.view(np.uint8), packed], axis=1).tobytes()


def f32(array):
    return np.asarray(array, "<f4").tobytes()


_TYPES = {"F32": (0, f32), "Q4_1": (3, q4_1), "Q8_0": (8, q8_0)}


def write(path, metadata, tensors):
    """tensors: [(name, type name, array with its outermost dimension first)]"""
    head = struct.pack("<IIQQ", _MAGIC, _VERSION, len(tensors), len(metadata))
    for key, value in metadata.items():
        kind, raw = _value(value)
        head += _text(key) + struct.pack("<I", kind) + raw
    data = b""
    for name, type_name, array in tensors:
        number, encode = _TYPES[type_name]
        dims = array.shape[::-1]
        head += _text(name) + struct.pack("<I", len(dims))
        head += b"".join(struct.pack("<Q", dim) for dim in dims)
        head += struct.pack("<IQ", number, len(data))
        data += encode(array)
        data += b"\0" * (-len(data) % _ALIGNMENT)
    head += b"\0" * (-len(head) % _ALIGNMENT)
    with open(path, "wb") as file:
        file.write(head + data)
