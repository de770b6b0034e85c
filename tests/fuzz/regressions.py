"""Damage that once crashed, hung or misled tallsketch, made on purpose: each must end with code 3. Used by mutate_inputs.py."""
import struct

from valid_inputs import M, N, mended


COUNTS = {"npy": 5, "hdf5": 7, "sketch": 3, "checkpoint": 5}  # of cases


def patched(data, at, code, value):
    """A copy of data with a number at an offset."""
    data = bytearray(data)
    struct.pack_into(code, data, at, value)
    return bytes(data)


def library_overruns(data):
    """[(name, bytes)]: counts that HDF5 1.10 trusts. By the first it writes beyond its memory."""
    tree, node, heap = data.index(b"TREE"), data.index(b"SNOD"), data.index(b"HEAP")
    return [("size of a heap", patched(data, heap + 8, "<Q", 2**64 - 1)), ("entries of a tree", patched(data, tree + 6, "<H", 65535)),
            ("symbols of a node", patched(data, node + 6, "<H", 65535))]


def hdf5_regressions(valid, case):
    """Chunks that claim other bytes than they have (memory's old contents became A), a superblock whose end MPI-IO cannot read, and
    what HDF5 crashes on."""
    chunked, contiguous = valid.hdf5["chunked"][0]["g.h5"], valid.hdf5["contiguous"][0]["g.h5"]
    key = chunked.rindex(b"TREE\x01") + 24
    if struct.unpack_from("<I", chunked, key)[0] != 16 * 3 * 4:
        raise RuntimeError("the tree of chunks is not where it was")
    files = [("a chunk of 0 bytes", patched(chunked, key, "<I", 0), 3), ("address of the driver information",
             patched(contiguous, 48, "<Q", 0xFFFFFFFF80FFFFFF), 3)]
    compact = valid.hdf5["compact"][0]["g.h5"]
    layout = compact.index(bytes((3, 0)) + struct.pack("<H", M * N * 4))  # version 3, compact, bytes
    files.append(("a compact dataset of 4 bytes", patched(compact, layout + 2, "<H", 4), 3))
    checked = valid.hdf5["big-endian fletcher32"][0]["g.h5"]
    shape = checked.index(struct.pack("<BBB", 3, 2, 3)) + 11  # version 3, in chunks, of 3 numbers; then their address
    files.append(("chunks of 17 rows that are stored as 16", patched(checked, shape, "<I", 17), 3))
    files += [(name, data, 3) for name, data in library_overruns(contiguous)]
    return [case("hdf5", name, {"g.h5": data}, ["solve", "g.h5", "-o", "x.h5"], expected=code) for name, data, code in files]


def sketch_regressions(valid, case):
    """The seal is looked at before HDF5 is."""
    return [case("sketch", name, {"s.h5": data}, ["solve", "--from-sketch", "s.h5", "-o", "x.h5"], expected=3)
            for name, data in library_overruns(valid.sketches["sparsestack"])]


def checkpoint_regressions(valid, case):
    """The same, and more columns of b than the file can hold, which were allocated before anything was compared."""
    data, arguments = valid.checkpoints["sketching"]
    many = mended(data, lambda text: text.replace(b'"b_columns":1', b'"b_columns":1073741824'), ("sketch", "b_squares", "pass_sums"))
    scaled = mended(data, lambda text: text.replace(b'"exponents":[]', b'"exponents":[-5000,-5000,-5000,-5000,-5000]'),
                    ("sketch", "b_squares", "pass_sums"))
    return [case("checkpoint", name, {"c.h5": damaged, "g.h5": valid.plain}, arguments, may_write=("x.h5", "c.h5"), expected=3)
            for name, damaged in (*library_overruns(data), ("2^30 columns of b", many), ("columns scaled to 0", scaled))]


def npy_regressions(valid, case):
    """Shapes whose product overflows 64 bits, with a dimension of 0 and without."""
    found = []
    for shape in ((2**62, 2**62), (0, 2**63 - 1), (2**63 - 1, 0), (2**61, N), (M, 2**60)):
        text = f"{{'descr': '<f8', 'fortran_order': False, 'shape': {shape}, }}\n".encode()
        data = b"\x93NUMPY\x01\x00" + struct.pack("<H", len(text)) + text + valid.npy["f8"][-M * N * 8:]
        found.append(case("npy", f"shape {shape}", {"a.npy": data, "b.npy": valid.npy["f8"]},
                          ["solve", "a.npy", "--b", "b.npy", "-o", "x.h5"], expected=3))
    return found


def regressions(kind, valid, case):
    """The cases of a kind, of which there are COUNTS."""
    makers = {"npy": npy_regressions, "hdf5": hdf5_regressions, "sketch": sketch_regressions, "checkpoint": checkpoint_regressions}
    found = makers[kind](valid, case)
    if len(found) != COUNTS[kind]:
        raise RuntimeError(f"COUNTS says {COUNTS[kind]} of {kind}; there are {len(found)}")
    return found
