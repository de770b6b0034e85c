"""Damage to files: bytes of any file, numbers that look like lengths, texts. All of it is decided by the dice given.

Used by mutate_inputs.py through valid_inputs.py. A mutation takes and gives bytes (or text); its name is for messages.
"""
import json
import struct

# What a length, a count or an offset is set to: none, one, beside powers of two, and what overflows when multiplied.
EXTREMES = (0, 1, 2, 3, 7, 255, 65535, 65536, 2**30, 2**31 - 1, 2**31, 2**32 - 1, 2**32, 2**33, 2**40, 2**59, 2**60, 2**61, 2**62,
            2**63 - 1, 2**63, 2**64 - 2, 2**64 - 1)


def place(dice, data, header):
    """An offset in data: mostly in its first `header` bytes, where structure is, not numbers."""
    end = min(header, len(data)) if dice.random() < 0.8 else len(data)
    return dice.randrange(max(1, end))


def flip_bits(dice, data, header):
    for _ in range(dice.choice((1, 1, 1, 2, 8))):
        data[place(dice, data, header)] ^= 1 << dice.randrange(8)
    return data


def set_bytes(dice, data, header):
    for _ in range(dice.choice((1, 1, 2, 4))):
        data[place(dice, data, header)] = dice.choice((0, 1, 0x7F, 0x80, 0xFE, 0xFF, dice.randrange(256)))
    return data


def truncate(dice, data, header):
    del data[dice.choice((place(dice, data, header), len(data) - 1, dice.randrange(len(data)))):]
    return data


def extend(dice, data, _):
    return data + bytes(dice.choice((0, 0xFF, dice.randrange(256))) for _ in range(dice.choice((1, 8, 4096))))


def swap_blocks(dice, data, header):
    size = dice.choice((1, 2, 8, 16, 64, 512))
    one, other = place(dice, data, header), place(dice, data, header)
    if abs(one - other) >= size and max(one, other) + size <= len(data):
        data[one:one + size], data[other:other + size] = data[other:other + size], data[one:one + size]
    return data


def remove_block(dice, data, header):
    at = place(dice, data, header)
    del data[at:at + dice.choice((1, 2, 4, 8, 64))]
    return data


def copy_block(dice, data, header):
    at, size = place(dice, data, header), dice.choice((1, 2, 4, 8, 64))
    to = place(dice, data, header)
    data[to:to + size] = data[at:at + size]
    return data


def set_length(dice, data, header):
    """A word that may be a length, because it is small and not 0, becomes an extreme one, or one near it."""
    size = dice.choice((8, 8, 4, 2))
    code = {8: "<Q", 4: "<I", 2: "<H"}[size]
    most = 16 * len(data)
    candidates = [at for at in range(0, min(header, len(data)) - size + 1, min(4, size))
                  if 0 < struct.unpack_from(code, data, at)[0] <= most]
    if not candidates:
        return flip_bits(dice, data, header)
    at = dice.choice(candidates)
    old = struct.unpack_from(code, data, at)[0]
    new = dice.choice((dice.choice(EXTREMES), dice.choice(EXTREMES), old + 1, old - 1, 2 * old, old << 32))
    struct.pack_into(code, data, at, new % 256**size)
    return data


BYTE_MUTATIONS = (flip_bits, flip_bits, set_bytes, set_bytes, truncate, extend, swap_blocks, remove_block, copy_block, set_length,
                  set_length, set_length)


def mutate_bytes(dice, data, header):
    """data  bytes; header  how many of them, from the start, are structure. Gives (bytes, names of what was done)."""
    data, names = bytearray(data), []
    for _ in range(dice.choice((1, 1, 1, 2, 3))):
        mutation = dice.choice(BYTE_MUTATIONS)
        names.append(mutation.__name__)
        data = mutation(dice, data, header)
        if not data:
            break
    return bytes(data), "+".join(names)


NPY_WORDS = ("'descr'", "'fortran_order'", "'shape'", "True", "False", "(", ")", "{", "}", ",", ":", " ", "\n", "'", '"', "[", "L",
             "-1", "0", "1", "1e3", "0x10", "9223372036854775807", "9223372036854775808", "18446744073709551616", "4611686018427387904",
             "'<f8'", "'>f8'", "'<f4'", "'>f2'", "'|b1'", "'|i1'", "'<i8'", "'>u2'", "'V2'", "'<V2'", "'|f8'", "'<c16'", "'|O'", "'<U9'",
             "[('a', '<f8')]", "(0, 4)", "(60, 0)", "(60,)", "()", "(240,)", "(4, 60)", "(30, 8)", "(120, 2)", "(60, 4, 1)", "\x00", "\xff")


def edit_words(dice, text, words):
    """Puts a word into a text, in the place of nothing, of a few letters or of another word that is there."""
    word = dice.choice(words)
    there = [other for other in words if len(other) > 1 and other in text]
    if there and dice.random() < 0.5:
        return text.replace(dice.choice(there), word, 1)
    at = dice.randrange(len(text) + 1)
    return text[:at] + word + text[at + dice.choice((0, 0, 1, 2, 8)):]


def new_npy_header(dice):
    """A header that is in order by its form, mostly of another array than the one that follows."""
    def number():
        return dice.choice((0, 1, 2, 4, 30, 60, 60, 60, 120, 240, 2000, *EXTREMES))

    shape = dice.choice(("(60, 4)", "(60, 4)", "(60,)", "(60, 2)", "(60, 1)", "(4, 60)", f"({number()}, {number()})", f"({number()},)",
                         f"(60, {number()})", f"({number()}, 0)", f"(0, {number()})", "(60, 4, 1)", "(1, 60, 4)", "()"))
    kind = dice.choice(("f8", "f4", "f2", "i1", "u1", "i2", "u2", "i4", "u4", "i8", "u8", "b1", "V2", "f16", "c8", "O", "U2"))
    quote = dice.choice(("'", "'", "'", '"'))
    parts = [f"'descr': {quote}{dice.choice('<<>=|')}{kind}{quote}", f"'fortran_order': {dice.choice(('True', 'False', 'False'))}",
             f"'shape': {shape}"]
    dice.shuffle(parts)
    return "{" + dice.choice((", ", ",", " , ", ",\n")).join(parts) + dice.choice((", ", "", ",")) + "}"


def mutate_npy_header(dice, data):
    """Another text in a .npy header of version 1, or the old one, edited; its length says the truth, mostly."""
    length = struct.unpack_from("<H", data, 8)[0]
    if dice.random() < 0.5:
        text = new_npy_header(dice)
    else:
        text = data[10:10 + length].decode("latin-1").rstrip()
        for _ in range(dice.choice((1, 1, 2, 3))):
            text = edit_words(dice, text, NPY_WORDS)
    text = text.encode("latin-1") + b" " * dice.choice((0, 1, 40)) + b"\n"
    claimed = len(text) if dice.random() < 0.9 else dice.choice(EXTREMES) % 65536
    version = dice.choice((1, 1, 1, 1, 1, 2, 3, 4, 0))
    minor = 0 if dice.random() < 0.9 else 1
    return b"\x93NUMPY" + bytes((version, minor)) + struct.pack("<H" if version < 2 else "<I", claimed) + text + data[10 + length:]


def json_values(dice):
    """What a JSON value is replaced by."""
    return dice.choice((None, True, False, "", "x", [], {}, 0.5, -1, -0.0, 1e308, *EXTREMES[:-3], -2**63, "fp64", "fp32", "fp16", "gram",
                        "blockperm", "independent", "\u0000", "\u00fc" * 40, [[0, 2**60]], [[0, 60], [60, 61]], [[5, 1]], [0] * 5, [2**31] * 5,
                        [-5000] * 5, ["a"], [[]]))


def mutate_json(dice, text):
    """A JSON text with one or a few values replaced, removed, doubled; sometimes the letters are edited instead."""
    if dice.random() < 0.25:
        words = ('"', "{", "}", "[", "]", ",", ":", "-", "1e999", "null", "true", "99999999999999999999", "\\u0000", "NaN", "//", "[" * 400)
        return edit_words(dice, text, words)
    value = json.loads(text)
    for _ in range(dice.choice((1, 1, 2, 3))):
        node = value
        while True:
            keys = list(node.keys()) if isinstance(node, dict) else list(range(len(node)))
            if not keys:
                break
            key = dice.choice(keys)
            if isinstance(node[key], (dict, list)) and node[key] and dice.random() < 0.7:
                node = node[key]
                continue
            act = dice.random()
            if act < 0.15:
                del node[key]
            elif act < 0.25 and isinstance(node, list):
                node.append(node[key])
            else:
                node[key] = json_values(dice)
            break
    return json.dumps(value, separators=(",", ":"))
