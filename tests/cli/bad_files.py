#!/usr/bin/python3
"""HDF5 files that are damaged, or of which parts lie elsewhere: each run solves what is there, or ends with code 3 and one
message; HDF5's own crashes included. Neither foreign code nor secrets get in or out. Run by CTest as cli.bad_files.

Damage here is made on purpose, one number each; random damage: tests/fuzz.
"""
import os
import shutil
import struct
import subprocess
import sys

import h5py
import numpy as np

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [os.path.join(HERE, "..", "support"), os.path.join(HERE, "..", "fuzz")]
from script_runs import PROGRAM, Checks, Folder, in_parallel, read_x, run, strict_json  # noqa: E402  pylint: disable=C0413
from regressions import library_overruns, patched  # noqa: E402  pylint: disable=C0413
from valid_inputs import M, N, hdf5, problem  # noqa: E402  pylint: disable=C0413

A, B = problem(7)
X = np.linalg.lstsq(A, B, rcond=None)[0]


def two(a=A, **how):
    """The bytes of a file with A, made so, and b."""
    return hdf5(lambda file: (file.create_dataset("A", data=a, **how), file.create_dataset("b", data=B)))


def with_chunk(data, was, becomes):
    """Another shape of chunks in the layout message (version 3, of chunks, 3 numbers: two and the bytes of an element)."""
    at = data.index(struct.pack("<BBB", 3, 2, 3)) + 3 + 8
    if struct.unpack_from("<II", data, at) != was:
        raise RuntimeError("the layout message is not where it was")
    return patched(patched(data, at, "<I", becomes[0]), at + 4, "<I", becomes[1])


def chunk_key(data):
    """Offset of the first key in the tree of chunks: bytes, filters that were left out."""
    return data.rindex(b"TREE\x01") + 24


def lying_chunks():
    """[(name, bytes, word)]: what chunks claim is not what is stored. HDF5 reads all of them without an error, most wrongly."""
    found = []
    for name, how, element in (("plain", {"maxshape": (None, None)}, "f4"), ("gzip", {"compression": "gzip", "shuffle": True}, "f8"),
                               ("fletcher32", {"fletcher32": True}, "f4"), ("shuffle", {"shuffle": True}, "f8"),
                               ("gzip and fletcher32", {"compression": "gzip", "fletcher32": True}, "f8")):
        data = two(A.astype(element), chunks=(16, 3), **how)
        word = "decompress" if "gzip" in name else "claim"
        found += [(f"{name}, chunks of one row more", with_chunk(data, (16, 3), (17, 3)), word),
                  (f"{name}, chunks of one column more", with_chunk(data, (16, 3), (16, 4)), "asks for"),
                  (f"{name}, chunks of one row less", with_chunk(data, (16, 3), (15, 3)), word)]
        one = two(A.astype(element), chunks=(M, N), **how)
        found.append((f"{name}, one chunk, longer", with_chunk(one, (M, N), (M + 4, N)), word))
    data = two(chunks=(M, N), compression="gzip")
    key = chunk_key(data)
    found += [("a chunk that says it is not compressed", patched(data, key + 4, "<I", 1), "not compressed"),
              ("a chunk that is cut", patched(data, key, "<I", struct.unpack_from("<I", data, key)[0] // 2), "/A"),
              ("a chunk of 3 GB", patched(data, key, "<I", 3_000_000_000), "claims 3000000000 bytes")]
    return found


def endless(data):
    """Structures that lead to themselves, and sizes beyond all memory."""
    heap, tree = data.index(b"HEAP"), data.index(b"TREE")
    segment = struct.unpack_from("<Q", data, heap + 24)[0]
    free = struct.unpack_from("<Q", data, heap + 16)[0]
    level = patched(patched(data, tree + 5, "<B", 1), tree + 32, "<Q", tree)
    return [("a tree that is its own child", level), ("a free list that ends nowhere", patched(data, segment + free, "<Q", free)),
            ("a heap of 1 TiB", patched(data, heap + 8, "<Q", 1 << 40))]


def check_damage(checks, folder):
    """HDF5 1.10 crashes on some of them, loops on others."""
    cases = [(name, data, 3, "crashes on it" if "heap" in name else "corrupt", ranks) for name, data in library_overruns(two()) for ranks in (1, 3)]
    cases += [(name, data, 3, "", 1) for name, data in endless(two())]
    cases += [(name, data, 3, word, 1) for name, data, word in lying_chunks()]
    # The contrary: HDF5 lets a writer leave a filter out of a chunk, whose bytes are then plain.
    left_out = hdf5(lambda file: (file.create_dataset("A", (M, N), "f8", chunks=(M, N), compression="gzip").id.write_direct_chunk(
        (0, 0), A.tobytes(), 1), file.create_dataset("b", data=B)))
    cases.append(("a chunk that was stored without its filter", left_out, 0, "", 1))

    def one(case):
        name, data, code, word, ranks = case
        place = os.path.join(folder, f"{name} on {ranks}".replace(" ", "_"))
        os.mkdir(place)
        with open(os.path.join(place, "g.h5"), "wb") as file:
            file.write(data)
        done = run(["solve", "g.h5", "-o", "x.h5", "--quiet"], ranks=ranks, cwd=place)
        checks.check(f"{name}, {ranks} ranks: code {code}", done.code == code, done)
        told = done.own_lines()
        left = sorted(os.listdir(place))
        if code == 0:
            checks.check(f"{name}: x", left == ["g.h5", "x.h5"] and np.allclose(read_x(os.path.join(place, "x.h5")), X, rtol=1e-9), left)
        else:
            checks.check(f"{name}: one message that names the file", len(told) == 1 and told[0].startswith("tallsketch: error:") and
                         "g.h5" in told[0] and word in told[0], done)
            checks.check(f"{name}: nothing left", left == ["g.h5"], left)
    in_parallel(one, cases)


def check_probe(checks, folder):
    """The probe's own ends, asked for as a run does."""
    path = os.path.join(folder, "probed.h5")
    with open(path, "wb") as file:
        file.write(two())

    def ask(parent):
        return subprocess.run([PROGRAM, "__open-hdf5", str(parent), "rows", path, "1", "/A"], capture_output=True, check=False,
                              stdin=subprocess.DEVNULL).stdout
    checks.check("a probe whose run waits says that the file is well", ask(os.getpid()) == b".D", path)
    checks.check("a probe whose run has ended does nothing", ask(1) == b"", path)
    # Who starts a run may ignore SIGCHLD, and what is ignored is inherited.
    name, data = library_overruns(two())[0]
    with open(os.path.join(folder, "ignored.h5"), "wb") as file:
        file.write(data)
    done = run(["solve", "ignored.h5", "-o", "x.ignored.h5", "--quiet"], cwd=folder, prefix=["sh", "-c", 'trap "" CHLD; exec "$@"', "sh"])
    told = done.own_lines()
    checks.check(f"{name}, SIGCHLD ignored by the starter: code 3, the signal is told", done.code == 3 and len(told) == 1 and
                 "crashes on it (signal" in told[0], done)


def check_places(checks, folder):
    """Datasets whose data, type or name lies elsewhere."""
    at = lambda name: os.path.join(folder, name)  # noqa: E731
    with open(at("plain.h5"), "wb") as file:
        file.write(two())

    def make(name, write):
        with h5py.File(at(name), "w") as file:
            write(file)
            if "b" not in file:
                file["b"] = B

    def committed(file):
        file["type"] = np.dtype("f8")
        file.create_dataset("A", data=A, dtype=file["type"])

    def soft(file):
        file["deep/er"] = A
        file["A"] = h5py.SoftLink("/deep/er")

    def hard(file):
        file["first"] = A
        file["A"] = file["first"]

    def virtual(file, source):
        layout = h5py.VirtualLayout((M, N), "f8")
        layout[...] = h5py.VirtualSource(source, "A", shape=(M, N))
        file.create_virtual_dataset("A", layout)

    def external(file, there):
        file.create_dataset("A", (M, N), "f8", external=[(at("raw"), 0, h5py.h5f.UNLIMITED)])
        if there:
            file["A"][...] = A

    def regions(file):
        file["data"] = A
        file.create_dataset("A", (M,), h5py.regionref_dtype)
        file["A"][0] = file["data"].regionref[0:2]

    def late(file):
        creation = h5py.h5p.create(h5py.h5p.DATASET_CREATE)
        creation.set_alloc_time(h5py.h5d.ALLOC_TIME_LATE)
        creation.set_fill_value(np.array(3.0))
        h5py.h5d.create(file.id, b"A", h5py.h5t.IEEE_F64LE, h5py.h5s.create_simple((M, N)), creation)

    def part(file):
        file.create_dataset("A", (M, N), "f8", chunks=(16, N), fillvalue=5.0)
        file["A"][:32] = A[:32]

    make("committed.h5", committed)
    make("soft.h5", soft)
    make("hard.h5", hard)
    make("group.h5", lambda file: file.create_dataset("in/a/group", data=A))
    make("virtual.h5", lambda file: virtual(file, at("plain.h5")))
    make("virtual_lost.h5", lambda file: virtual(file, at("none.h5")))
    make("external_lost.h5", lambda file: external(file, False))
    make("link_lost.h5", lambda file: file.__setitem__("A", h5py.ExternalLink(at("none.h5"), "/A")))
    make("link_on_the_way.h5", lambda file: file.__setitem__("far", h5py.ExternalLink(at("plain.h5"), "/")))
    make("regions.h5", regions)
    make("late.h5", late)
    make("part.h5", part)
    make("b_elsewhere.h5", lambda file: (file.__setitem__("A", A), file.__setitem__("b", h5py.ExternalLink(at("plain.h5"), "/b"))))
    with_fill = A.copy()
    with_fill[32:] = 5
    cases = [
        ("committed.h5", [], 0, X), ("soft.h5", [], 0, X), ("hard.h5", [], 0, X), ("group.h5", ["--a", "/in/a/group"], 0, X),
        ("part.h5", [], 0, np.linalg.lstsq(with_fill, B, rcond=None)[0] if np.linalg.matrix_rank(with_fill) == N else None),
        ("committed.h5", ["--a", "/type"], 3, ["/type"]),
        ("virtual.h5", [], 3, ["virtual", "/A"]), ("virtual_lost.h5", [], 3, ["virtual", "/A"]),
        ("external_lost.h5", [], 3, ["external", "/A"]), ("link_lost.h5", [], 3, ["/A"]), ("b_elsewhere.h5", [], 3, ["/b", "link"]),
        ("link_on_the_way.h5", ["--a", "/far/A"], 3, ["link", "plain.h5"]),
        ("regions.h5", [], 3, ["/A", "neither float nor integer"]), ("late.h5", [], 3, ["/A", "never written"]),
    ]
    for k, (name, more, code, expected) in enumerate(cases):
        place = at(f"out.{k}")
        os.mkdir(place)
        done = run(["solve", at(name), "-o", "x.h5", "--report", "r.json", "--quiet", *more], cwd=place)
        label = " ".join([name, *more])
        checks.check(f"{label}: code {code}", done.code == code, done)
        if code == 0:
            if done.code == 0 and expected is not None:
                checks.check(f"{label}: x", np.allclose(read_x(os.path.join(place, "x.h5")), expected, rtol=1e-9), done)
            if name == "part.h5":
                with open(os.path.join(place, "r.json"), encoding="utf-8") as file:
                    told = strict_json(file.read())["warnings"]
                checks.check(f"{label}: the fill value is told", any("2 chunks of" in line and "fill value" in line for line in told), told)
        else:
            lines = done.own_lines()
            checks.check(f"{label}: one message with {expected}", len(lines) == 1 and all(word in lines[0] for word in expected), done)


def check_plugins(checks, folder):
    """Nothing that HDF5_PLUGIN_PATH names is loaded, although a filter is missing: loading alone would run its code."""
    compiler = shutil.which("cc") or shutil.which("gcc")
    if not compiler:
        print("left out: a foreign plug-in (no C compiler here)")
        return
    plugins, mark = os.path.join(folder, "plugins"), os.path.join(folder, "loaded")
    os.mkdir(plugins)
    source = os.path.join(folder, "plugin.c")
    with open(source, "w", encoding="ascii") as file:
        file.write(f'#include <stdio.h>\n__attribute__((constructor)) static void begin(void) {{ fclose(fopen("{mark}", "w")); }}\n'
                   "int H5PLget_plugin_type(void) { return 0; }\nconst void* H5PLget_plugin_info(void) { return 0; }\n")
    subprocess.run([compiler, "-shared", "-fPIC", "-o", os.path.join(plugins, "libforeign.so"), source], check=True)
    with open(os.path.join(folder, "lzf.h5"), "wb") as file:
        file.write(two(compression="lzf"))
    done = run(["solve", os.path.join(folder, "lzf.h5"), "-o", os.path.join(folder, "x.h5"), "--quiet"], cwd=folder,
               environment={"HDF5_PLUGIN_PATH": plugins})
    checks.check("a plug-in: code 3, the filter is named", done.code == 3 and "lzf" in done.err, done)
    checks.check("a plug-in: it is not loaded", not os.path.exists(mark))


def check_permissions(checks, folder):
    """Files that this user may not read. Root may read all, so somebody else has to try."""
    if os.geteuid() != 0 or not shutil.which("setpriv"):
        print("left out: another user (not root, or no setpriv here)")
        return
    place = os.path.join(folder, "of_nobody")
    os.mkdir(place)
    for path in (folder, place):
        os.chmod(path, 0o777)
    nobody = ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups"]
    if subprocess.run([*nobody, PROGRAM, "--version"], capture_output=True, check=False, cwd=place, env={**os.environ, "HOME": place, "TMPDIR": place}).returncode:
        print("left out: another user (it cannot run the program here)")
        return
    with open(os.path.join(folder, "mine.h5"), "wb") as file:
        file.write(two())
    np.save(os.path.join(folder, "mine.npy"), A)
    os.chmod(os.path.join(folder, "mine.h5"), 0o600)
    os.chmod(os.path.join(folder, "mine.npy"), 0o600)
    for name in ("mine.h5", "mine.npy"):
        done = run(["solve", os.path.join(folder, name), "-o", "x.h5", "--quiet", "--b", os.path.join(folder, "plain.h5:/b")], cwd=place,
                   prefix=nobody, environment={"HOME": place, "TMPDIR": place})
        lines = done.own_lines()
        checks.check(f"{name} of somebody else: code 3, why", done.code == 3 and len(lines) == 1 and name in lines[0] and
                     "Permission denied" in lines[0], done)
    os.chmod(place, 0o555)
    for arguments in (["solve", os.path.join(folder, "plain.h5"), "-o", "x.h5", "--quiet"], ["sketch", os.path.join(folder, "plain.h5"), "-o", "s.h5", "--quiet"],
                      ["generate", "g.h5", "--rows", "9", "--cols", "2", "--quiet"]):
        done = run(arguments, cwd=place, prefix=nobody, environment={"HOME": "/tmp", "TMPDIR": "/tmp"})
        lines = done.own_lines()
        checks.check(f"{arguments[0]} into a folder of somebody else: code 9, why", done.code == 9 and len(lines) == 1 and
                     "Permission denied" in lines[0] and not os.listdir(place), done)


def check_secrets(checks, folder):
    """Reports, results and logs hold of the environment what src/environment.cpp lists, and no more."""
    secret = "do-not-tell-4711"
    done = run(["solve", os.path.join(folder, "plain.h5"), "-o", "x.h5", "--report", "r.json", "--verbose"], cwd=folder,
               environment={"AWS_SECRET_ACCESS_KEY": secret, "SLURM_JWT": secret, "HF_TOKEN": secret, "OMP_NUM_THREADS": "1",
                            "SLURM_JOB_ID": "31415"})
    checks.check("secrets: solved", done.code == 0, done)
    with open(os.path.join(folder, "r.json"), encoding="utf-8") as file:
        text = file.read()
    with h5py.File(os.path.join(folder, "x.h5"), "r") as file:
        provenance = file["x"].attrs["provenance"]
    provenance = provenance.decode() if isinstance(provenance, bytes) else provenance
    for name, told in (("report", text), ("provenance of x", provenance)):
        value = strict_json(told)
        checks.check(f"secrets: not in the {name}", secret not in told and "JWT" not in told)
        checks.check(f"secrets: the {name} has command line and listed variables", value["command_line"].endswith("--verbose") and
                     value["environment"]["SLURM_JOB_ID"] == "31415" and value["environment"]["OMP_NUM_THREADS"] == "1", value)
    with open(os.path.join(folder, "x.h5"), "rb") as file:
        checks.check("secrets: nowhere in x.h5", secret.encode() not in file.read())
    checks.check("secrets: not in the log", secret not in done.out + done.err)


def main():
    checks = Checks()
    with Folder() as folder:
        check_probe(checks, folder)
        check_places(checks, folder)
        check_damage(checks, folder)
        check_plugins(checks, folder)
        check_permissions(checks, folder)
        check_secrets(checks, folder)
    return checks.finish()


if __name__ == "__main__":
    sys.exit(main())
