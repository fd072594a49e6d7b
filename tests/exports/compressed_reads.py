#!/usr/bin/env python3
"""Reads a compressed model that Plimsoll wrote, with `safetensors` and numpy, and compares its numbers with the weights of the
same run as they were trained. With `compressed-tensors` 0.12, the last
version seen to read masks, it reads them by that library as well.

    pip install numpy safetensors
    plimsoll train cnn-digits-int8
    plimsoll export last --format safetensors -o trained.safetensors
    plimsoll export last --format safetensors --compressed -o compressed.safetensors
    tests/exports/compressed_reads.py compressed.safetensors trained.safetensors
"""
import json, sys

import numpy as np
from safetensors import safe_open
from safetensors.numpy import load_file


def unpacked(words, bits, shape):
    """Integers of `bits` bits, from the lowest bits of each word on, without their sign's offset."""
    rows = words.view(np.uint8)
    codes = np.stack([rows & 15, rows >> 4], -1).reshape(len(rows), -1) if bits == 4 else rows
    return codes[:, : shape[1]].astype(np.int32) - (1 << bits - 1)


def dense(tensors, layer):
    """The stored elements of a layer's weight, with zeros where a mask has no bit."""
    if f"{layer}.weight" in tensors:
        return tensors[f"{layer}.weight"]
    shape, values = tensors[f"{layer}.shape"], tensors[f"{layer}.compressed"]
    mask = np.unpackbits(tensors[f"{layer}.bitmask"], axis=-1, count=shape[-1], bitorder="little").astype(bool)
    counts = mask.sum(-1).ravel()
    assert (np.cumsum(counts) - counts == tensors[f"{layer}.row_offsets"].ravel()).all(), layer
    weight = np.zeros(shape, values.dtype)
    weight[mask] = values
    return weight


def layers_of(tensors):
    ends = (".weight", ".weight_packed", ".compressed")
    return sorted({name[: -len(end)] for name in tensors for end in ends if name.endswith(end)})


def weight_of(tensors, layer, bits):
    """A layer's weight as numbers, and the half of a step: the most that rounding may have moved it."""
    scale = tensors.get(f"{layer}.weight_scale")
    if f"{layer}.weight_packed" in tensors:
        shape = tensors[f"{layer}.weight_shape"]
        scale = np.repeat(scale, shape[1] // scale.shape[1], axis=1)
        return unpacked(tensors[f"{layer}.weight_packed"], bits, shape) * scale, scale / 2
    stored = dense(tensors, layer)
    return (stored, 0.0) if scale is None else (stored.astype(np.float32) * scale, scale / 2)


def by_library(path, config, own, bits):
    """The same numbers from the library's own compressors; how many layers it read."""
    from compressed_tensors.compressors import BaseCompressor
    from compressed_tensors.quantization import QuantizationArgs, QuantizationConfig
    from compressed_tensors.quantization.lifecycle.forward import dequantize
    from safetensors.torch import load_file as load

    tensors, read = load(path), 0
    if config.get("config_groups"):
        QuantizationConfig.model_validate({key: value for key, value in config.items() if key != "sparsity_config"})
    if "sparsity_config" in config:
        masks = BaseCompressor.load_from_registry("sparse-bitmask", config=None)
        for layer in [name[: -len(".bitmask")] for name in tensors if name.endswith(".bitmask")]:
            parts = {part: tensors.pop(f"{layer}.{part}") for part in ("shape", "compressed", "bitmask", "row_offsets")}
            tensors[f"{layer}.weight"] = masks.decompress_weight(parts)
            read += 1
    for group in config.get("config_groups", {}).values():
        arguments = QuantizationArgs.model_validate(group["weights"])
        integers = BaseCompressor.load_from_registry(config["format"], config=None)
        for layer in group["targets"]:
            parts = {name.rsplit(".", 1)[1]: tensor for name, tensor in tensors.items() if name.rsplit(".", 1)[0] == layer}
            if "weight" in parts and parts["weight"].ndim > 2:
                # The compressor of 0.12 guesses what is in its arguments from matrices alone.
                weight = dequantize(parts["weight"], parts["weight_scale"], args=arguments)
            else:
                weight = integers.decompress_weight(parts, arguments)
            tensors[f"{layer}.weight"] = weight
            read += 1
    for layer, weight in own.items():
        theirs = tensors[f"{layer}.weight"].float().numpy()
        assert np.array_equal(theirs, weight.astype(np.float32)), layer
    return read


def main(compressed, trained):
    with safe_open(compressed, "np") as file:
        config = json.loads(file.metadata().get("quantization_config", "{}"))
    tensors, weights = load_file(compressed), load_file(trained)
    groups = config.get("config_groups", {}).values()
    bits = next((group["weights"]["num_bits"] for group in groups), 0)
    integers = {layer for group in groups for layer in group["targets"]}
    own, coded = {}, 0
    for layer in layers_of(tensors):
        own[layer], most = weight_of(tensors, layer, bits)
        wanted = weights[f"{layer}.weight"]
        assert own[layer].shape == wanted.shape, layer
        away = np.abs(own[layer].astype(np.float64) - wanted)
        assert (away <= most * (1 + 1e-5) + 1e-12).all(), (layer, away.max())
        assert (layer in integers) == (f"{layer}.weight_scale" in tensors), layer
        coded += layer in integers
        if f"{layer}.input_scale" in tensors:
            assert tensors[f"{layer}.input_scale"][0] > 0 and tensors[f"{layer}.input_zero_point"].dtype == np.int8
    assert coded == len(integers)
    size = sum(tensor.nbytes for tensor in tensors.values())
    print(f"{compressed}: {config.get('format', 'dense')}, {len(own)} layers, {coded} of integers, {size} bytes of tensors")
    try:
        print(f"compressed-tensors: the same numbers of {by_library(compressed, config, own, bits)} tensors")
    except ImportError as error:
        print(f"compressed-tensors is not here, or reads no masks any more: {error}")


if __name__ == "__main__":
    main(*sys.argv[1:])
