"""Small valid inputs for the readers, and one mutated case of each kind: files, the command, and what may come of it.

Used by mutate_inputs.py. Everything but the time stamps inside checkpoints follows from the seed.
"""
import io
import os
import signal
import subprocess
import sys

import h5py
import numpy as np

import mutations
from cli_cases import cli_case

M, N = 60, 4
SEAL = b"\ntallsketch seal "  # src/file_seal.cpp
# Numbers of a sketch or sum that are changed with their checksum and seal are no damage but a forgery: the certificate is relative
# to the norms that they give, so that x has to be finite and no more (docs/robustness.md).
FORGED = "numbers"
FIXED_TIME = 1_600_000_000  # of inputs: checkpoints know them by it


def problem(seed):
    """A (60, 4) of halves, which all types but integers hold, and b (60)."""
    generator = np.random.default_rng(seed)
    return generator.integers(-16, 17, (M, N)) / 2, generator.integers(-16, 17, M) / 2


def npy(array, version=None):
    """The bytes of numpy.save."""
    out = io.BytesIO()
    np.lib.format.write_array(out, np.asanyarray(array), version=version)
    return out.getvalue()


def hdf5(write, **how):
    """The bytes of an HDF5 file that write(file) fills."""
    out = io.BytesIO()
    with h5py.File(out, "w", **how) as file:
        write(file)
    return out.getvalue()


def header_of(data):
    """How many bytes of an HDF5 file are before the first dataset's numbers or, where they are chunked, all."""
    with h5py.File(io.BytesIO(data), "r") as file:
        offsets = [file[name].id.get_offset() for name in file]
    return min((offset for offset in offsets if offset), default=len(data))


class Case:
    """A command in a folder with files.

    kind       npy, hdf5, checkpoint, sketch or cli
    name       which valid input, and what was done to it
    files      {name: bytes}
    arguments  of tallsketch
    reference  function of the folder that gives (A, b) as the mutated files are read by numpy or h5py; None: x is only finite
    original   (A, b) of the valid files: what a reader that knows less of the damage may solve, too
    may_write  names that a good end leaves
    expected   the one code that it may end with; None: any that is documented
    """

    def __init__(self, kind, name, files, arguments, reference=None, original=None, may_write=("x.h5",), ranks=1, expected=None):
        self.kind, self.name, self.files, self.arguments = kind, name, files, arguments
        self.original, self.expected = original, expected
        self.reference, self.may_write, self.ranks = reference, may_write, ranks


class ValidInputs:
    """The valid files, made once. folder: where the program makes sketches and checkpoints."""

    def __init__(self, seed, folder, program, wanted):
        self.a, self.b = problem(seed)
        self.npy = self.npy_files()
        self.hdf5 = self.hdf5_files()
        self.plain = self.hdf5["contiguous"][0]["g.h5"]
        self.options = cli_options = {}
        os.makedirs(folder, exist_ok=True)
        self.folder, self.program = folder, program
        self.write(folder, {"g.h5": self.plain, "h.h5": self.plain})
        self.sketches = self.sketch_files() if "sketch" in wanted else {}
        self.checkpoints = self.checkpoint_files() if "checkpoint" in wanted else {}
        if "cli" in wanted:
            for command in ("solve", "sketch", "inspect", "generate"):
                cli_options[command] = subprocess.run([program, command, "--help"], capture_output=True, text=True, check=True).stdout

    @staticmethod
    def write(folder, files):
        """Writes files with the time that checkpoints know them by."""
        for name, data in files.items():
            path = os.path.join(folder, name)
            with open(path, "wb") as file:
                file.write(data)
            os.utime(path, (FIXED_TIME, FIXED_TIME))

    def npy_files(self):
        """{name: bytes of A}"""
        a = self.a
        words = (a.astype("f4").view("u4") >> 16).astype("u2")
        kinds = {"f8": a, "f8 by columns": np.asfortranarray(a), "big-endian f4": a.astype(">f4"), "f2": a.astype("f2"),
                 "i2": (2 * a).astype("i2"), "big-endian u4": (2 * a + 32).astype(">u4"), "i8": (2 * a).astype("i8"),
                 "booleans": a > 0, "bfloat16": words.view("V2"), "f4, version 2": (a.astype("f4"), (2, 0))}
        return {name: npy(*array) if isinstance(array, tuple) else npy(array) for name, array in kinds.items()}

    def hdf5_files(self):
        """{name: (files, the one to mutate, arguments)}"""
        a, b = self.a, self.b
        boolean = a > 0
        words = (a.astype("f4").view("u4") >> 16).astype("u2")

        def two(array, **how):
            def write(file):
                file.create_dataset("A", data=array, **how)
                file.create_dataset("b", data=b)
            return write

        def bfloat16(file):
            two(words)(file)
            file["A"].attrs["dtype"] = "bfloat16"

        def compact(file):
            creation = h5py.h5p.create(h5py.h5p.DATASET_CREATE)
            creation.set_layout(h5py.h5d.COMPACT)
            space = h5py.h5s.create_simple((M, N))
            h5py.h5d.create(file.id, b"A", h5py.h5t.IEEE_F32LE, space, creation).write(h5py.h5s.ALL, h5py.h5s.ALL, a.astype("f4"))
            file["b"] = b

        chunks = {"chunks": (16, 3)}
        one = {
            "contiguous": two(a), "gzip": two(a, compression="gzip", shuffle=True, **chunks),
            "big-endian fletcher32": two(a.astype(">f4"), fletcher32=True, maxshape=(None, N), **chunks), "float16": two(a.astype("f2")),
            "chunked": two(a.astype("f4"), maxshape=(None, None), **chunks), "integers": two((2 * a).astype("i4")),
            "booleans": two(boolean), "bfloat16": bfloat16, "compact": compact}
        files = {name: ({"g.h5": hdf5(write)}, "g.h5", ["g.h5"]) for name, write in one.items()}
        files["newest format"] = ({"g.h5": hdf5(one["gzip"], libver="latest")}, "g.h5", ["g.h5"])
        files["by columns"] = ({"g.h5": hdf5(two(np.ascontiguousarray(a.T)))}, "g.h5", ["g.h5", "--transpose"])
        half = [hdf5(lambda file, rows=rows: (file.create_dataset("A", data=a[rows]), file.create_dataset("b", data=b[rows])))
                for rows in (slice(0, 25), slice(25, M))]
        files["second of two shards"] = ({"h.h5": half[0], "g.h5": half[1]}, "g.h5", ["h.h5", "g.h5"])
        return files

    def run(self, *arguments):
        """The program, here, which must end well."""
        subprocess.run([self.program, *arguments, "--quiet"], cwd=self.folder, check=True, capture_output=True)

    def read(self, name):
        with open(os.path.join(self.folder, name), "rb") as file:
            return file.read()

    def sketch_files(self):
        """{name: (bytes, kind of the command)}"""
        few = ("--sketch-rows", "64", "--check-rows", "16")
        self.run("sketch", "g.h5", "-o", "one.h5", *few)
        self.run("sketch", "h.h5", "-o", "two.h5", "--first-row", str(M), *few)
        self.run("sketch", "g.h5", "-o", "wide.h5", "--sketch", "blockperm", "--precision", "fp64", "--block-rows", "32", "--sketch-rows", "64")
        self.other_sketch = self.read("two.h5")
        return {"sparsestack": self.read("one.h5"), "blockperm fp64": self.read("wide.h5")}

    def checkpoint_files(self):
        """{name: (bytes, arguments)}: of runs that were stopped while they sketch, and while they refine"""
        sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "cli"))
        from checkpoint import Killed  # pylint: disable=import-outside-toplevel
        found = {}
        for name, options, lines in (("sketching", ["--preconditioner", "sketch", "--sketch-rows", "32"], 2),
                                     ("refining", ["--preconditioner", "sketch", "--sketch-rows", "32"], 6),
                                     ("refining, Gram matrix", ["--preconditioner", "gram"], 5)):
            arguments = ["solve", "g.h5", "-o", "x.h5", "--checkpoint", "c.h5", "--checkpoint-every", "0", "--chunk-rows", "16", *options]
            stop = Killed(arguments, self.folder, 1, ("checkpoint: ", lines), signal.SIGTERM)
            if stop.code != 75:
                raise RuntimeError(f"no checkpoint of '{name}': {stop}")
            found[name] = (self.read("c.h5"), [*arguments, "--resume"])
            os.remove(os.path.join(self.folder, "c.h5"))
        return found

    def case(self, kind, dice):
        """A mutated case of a kind."""
        return {"npy": self.npy_case, "hdf5": self.hdf5_case, "sketch": self.sketch_case, "checkpoint": self.checkpoint_case,
                "cli": lambda dice: cli_case(dice, self.options, Case, self.plain)}[kind](dice)

    def npy_case(self, dice):
        name = dice.choice(list(self.npy))
        files = {"a.npy": self.npy[name], "b.npy": npy(self.b)}
        target = "a.npy" if dice.random() < 0.8 else "b.npy"
        if dice.random() < 0.6 and "version" not in name:
            files[target], done = mutations.mutate_npy_header(dice, files[target]), "header text"
        else:
            files[target], done = mutations.mutate_bytes(dice, files[target], 128)
        more = dice.choice(([], [], ["--transpose"] if name.endswith("columns") else [], ["--residency", "file", "--chunk-rows", "7"]))
        transposed = "--transpose" in more
        return Case("npy", f"{name}, {target}: {done}", files, ["solve", "a.npy", "--b", "b.npy", "-o", "x.h5", *more],
                    lambda folder: reference_npy(folder, transposed), (arrays_npy(self.npy[name]), self.b), ranks=2 if dice.random() < 0.01 else 1)

    def hdf5_case(self, dice):
        name = dice.choice(list(self.hdf5))
        files, target, arguments = self.hdf5[name]
        files = dict(files)
        original = arrays_hdf5([io.BytesIO(data) for data in files.values()], "--transpose" in arguments)
        files[target], done = mutations.mutate_bytes(dice, files[target], header_of(files[target]))
        more = dice.choice(([], [], ["--io", "mpio"], ["--residency", "file", "--chunk-rows", "7"]))
        names, transposed = [word for word in arguments if word.endswith(".h5")], "--transpose" in arguments
        return Case("hdf5", f"{name}, {target}: {done}", files, ["solve", *arguments, "-o", "x.h5", *more],
                    lambda folder: reference_hdf5(folder, names, transposed), original, ranks=2 if dice.random() < 0.01 else 1)

    def sketch_case(self, dice):
        name = dice.choice(list(self.sketches))
        data, done = mutated_store(dice, self.sketches[name], ("SA", "b_squares"))
        use = dice.choice(("alone", "alone", "refine", "merge"))
        if use == "merge":
            files = {"s.h5": data, "t.h5": self.other_sketch}
            return Case("sketch", f"{name}, merge: {done}", files, ["sketch", "--merge", "x.h5", "s.h5", "t.h5"])
        files, arguments = {"s.h5": data}, ["solve", "--from-sketch", "s.h5", "-o", "x.h5"]
        if use == "refine":
            files["g.h5"], arguments = self.plain, [*arguments, "g.h5"]
        reference = reference_plain if use == "refine" and not done.startswith(FORGED) else None
        return Case("sketch", f"{name}, {use}: {done}", files, arguments, reference)

    def checkpoint_case(self, dice):
        name = dice.choice(list(self.checkpoints))
        data, arguments = self.checkpoints[name]
        data, done = mutated_store(dice, data, ("sketch", "b_squares", "pass_sums"))
        reference = None if done.startswith(FORGED) else reference_plain
        return Case("checkpoint", f"{name}: {done}", {"c.h5": data, "g.h5": self.plain}, arguments, reference, may_write=("x.h5", "c.h5"))


MASK, PRIME = 2**64 - 1, 1099511628211


def word_hash(words):
    """src/word_hash.h's: FNV-1a over words, turned."""
    value = 14695981039346656037
    for word in words:
        value = ((value ^ word) * PRIME) & MASK
        value = ((value << 31) | (value >> 33)) & MASK
    return value


def checksum(text, arrays):
    """src/sketch_file.cpp's."""
    words = list(text)
    for array in arrays:
        words += np.ascontiguousarray(array, "<f8").reshape(-1).view("<u8").tolist()
    return f"{word_hash(words):016x}"


def sealed(data):
    """src/file_seal.cpp's."""
    words = np.frombuffer(data + bytes(-len(data) % 8), "<u8").tolist()
    return data + SEAL + f"{((word_hash(words) ^ len(data)) * PRIME) & MASK:016x}\n".encode()


def mutated_store(dice, data, datasets):
    """A sketch file or checkpoint, damaged: its bytes; or, so that neither checksum nor seal finds it, its JSON or its numbers.

    datasets  in the order of the checksum; passes lie there row by row, as it takes them
    """
    if dice.random() < 0.5:
        return mutations.mutate_bytes(dice, data, header_of(data))
    if dice.random() < 0.8:
        def change(text):
            return mutations.mutate_json(dice, text.decode()).encode("utf-8", "surrogatepass").replace(b"\0", b" ") or b" "

        return mended(data, change, datasets), "JSON, checksum mended"
    with h5py.File(io.BytesIO(data), "r") as file:
        name = dice.choice([name for name in datasets if name in file])
    value = dice.choice((0, np.nan, np.inf, -np.inf, 1e300, -1e38, 5e-324, 1))
    return mended(data, bytes, datasets, (name, dice.random(), value)), f"{FORGED} of {name}, checksum mended"


def mended(data, change, datasets, number=None):
    """A sketch file or checkpoint with another identity, change(text), or one number (dataset, where in [0, 1), value), and
    the checksum and the seal of what it then holds."""
    out = io.BytesIO(data[:data.rindex(SEAL)])
    with h5py.File(out, "r+") as file:
        text = change(file["identity"][()])
        if number is not None:
            name, where, value = number
            values = file[name][()]
            with np.errstate(over="ignore"):
                values.reshape(-1)[int(where * values.size)] = value
            file[name][...] = values
        stored = [file[name][()].astype("f8") for name in datasets if name in file]
        del file["identity"]
        kind = h5py.h5t.C_S1.copy()
        kind.set_size(len(text))
        kind.set_strpad(h5py.h5t.STR_NULLPAD)  # else the last letter becomes the end of the text
        identity = h5py.h5d.create(file.id, b"identity", kind, h5py.h5s.create(h5py.h5s.SCALAR))
        identity.write(h5py.h5s.ALL, h5py.h5s.ALL, np.array(text, dtype=f"S{len(text)}"))
        file["identity"].attrs["checksum"] = np.bytes_(checksum(text, stored))
    return sealed(out.getvalue())


def arrays_npy(data):
    """An array from the bytes of a .npy file."""
    return of_words(np.load(io.BytesIO(data), allow_pickle=False))


def reference_npy(folder, transposed):
    """A and b by numpy, as float64."""
    a, b = (of_words(np.load(os.path.join(folder, name), allow_pickle=False)) for name in ("a.npy", "b.npy"))
    return a.T if transposed else a, b


def of_words(array):
    """As float64. V2 is bfloat16, as ml_dtypes saves it; a boolean is its byte, also where that is neither 0 nor 1."""
    if array.dtype.kind == "b":
        return array.view("u1").astype("f8")
    if array.dtype.kind == "V" and array.dtype.itemsize == 2:
        return (array.view("u2").astype("u4") << 16).view("f4").astype("f8")
    return array.astype("f8")


def reference_hdf5(folder, names, transposed):
    """A and b by h5py, as float64."""
    return arrays_hdf5([os.path.join(folder, name) for name in names], transposed)


def reference_plain(folder):
    """The same of the file that sketches and checkpoints are of."""
    return reference_hdf5(folder, ["g.h5"], False)


def arrays_hdf5(files, transposed):
    """The same, of paths or files in memory."""
    parts = []
    for place in files:
        with h5py.File(place, "r") as file:
            a, b = file["A"], file["b"]
            if max(a.size, b.size) > 1 << 24:
                raise OverflowError(f"A has {a.shape}")
            parts.append([])
            for dataset in (a, b):
                said = dataset.attrs.get("dtype", "")
                values = dataset[()]
                bfloat16 = said in ("bfloat16", b"bfloat16") and dataset.dtype.itemsize == 2
                parts[-1].append((values.astype("u2").astype("u4") << 16).view("f4").astype("f8") if bfloat16 else of_words(values))
    a, b = (np.concatenate([part[k].T if transposed and part[k].ndim == 2 and k == 0 else part[k] for part in parts]) for k in (0, 1))
    return a, b
