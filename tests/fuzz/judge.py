"""Whether a run on a damaged input ended as it may. Used by mutate_inputs.py.

A finding is: a signal or a crash, a run that does not end, code 1 or one that is not documented, not exactly one line
`tallsketch: error:` with a code other than 0, a file that is left or an input that is changed, memory beyond the limit, an x that
is not finite, or, with code 0, not the least-squares solution of what numpy or h5py reads from the same files.
"""
import os
import select
import signal
import sys

import h5py
import numpy as np

CODES = {0, 2, 3, 4, 5, 6, 7, 8, 9, 75}
# A plan that does not fit says how much a rank needs; this is memory that was asked for without a plan.
UNPLANNED = "out of host memory"
REFERENCE_SECONDS = 20
CHILD_ENDED = "reference: numpy or h5py ended"


def backward_error(a, x, b):
    """||A^T r|| / (||A|| ||r||), columns of A scaled, or ||r|| relative to its terms where that is less; the worst column of b."""
    a, x, b = (np.asarray(value, dtype=np.longdouble) for value in (a, x, b))
    b, x = b.reshape(len(a), -1), x.reshape(a.shape[1], -1)
    with np.errstate(all="ignore"):
        largest = np.abs(a).max(axis=0, initial=0)
        largest[largest == 0] = 1
        size = largest * np.sqrt(((a / largest) ** 2).sum(axis=0))
        size[size == 0] = 1
        scaled, y = a / size, x * size[:, None]
        worst = 0.0
        for k in range(b.shape[1]):
            top = max(np.abs(b[:, k]).max(initial=0), np.abs(y[:, k]).max(initial=0)) or np.longdouble(1)
            target, z = b[:, k] / top, y[:, k] / top
            rest = target - scaled @ z
            norm = np.sqrt((rest**2).sum())
            terms = np.sqrt((target**2).sum()) + np.sqrt((z**2).sum())
            if norm == 0 or terms == 0:
                continue
            gradient = np.sqrt(((scaled.T @ rest) ** 2).sum())
            worst = max(worst, float(min(gradient / norm, norm / terms)) if np.isfinite(norm) else float("inf"))
    return worst


def in_child(work):
    """work()'s text from a child process: h5py may crash or go on for ever on a file that is damaged. '' is good."""
    theirs, ours = os.pipe()
    pid = os.fork()
    if pid == 0:
        os.close(theirs)
        signal.alarm(REFERENCE_SECONDS)
        try:
            text = work()
        except BaseException as error:  # pylint: disable=broad-except
            text = f"reference: {type(error).__name__}: {error}"
        os.write(ours, text.encode("utf-8", "replace")[:4000])
        os._exit(0)  # pylint: disable=protected-access
    os.close(ours)
    with os.fdopen(theirs, "rb") as pipe:
        select.select([pipe], [], [], REFERENCE_SECONDS + 5)
        text = pipe.read().decode("utf-8", "replace")
    status = os.waitpid(pid, 0)[1]
    return text if status == 0 else f"{CHILD_ENDED} with status {status}"


def judge_x(case, folder, one_pass):
    """'' where x is finite and, if there is a reference, solves what it reads."""
    path = os.path.join(folder, "x.h5")
    with h5py.File(path, "r") as file:
        if "x" not in file:
            return ""  # a sketch
        x = file["x"][()]
    if not np.isfinite(x).all():
        return f"x is not finite: {x.reshape(-1)[:8]}"
    if case.reference is None or one_pass:
        return ""
    reason = differs(x, case.reference, folder)
    if reason and case.original is not None and not differs(x, lambda _: case.original, folder):
        return ""  # the damage is where this reader does not look: x is that of the data
    return reason


def differs(x, reference, folder):
    """'' where x solves what reference(folder) gives, else why not."""
    try:
        a, b = reference(folder)
    except Exception as error:  # pylint: disable=broad-except
        return f"reference: {type(error).__name__}: {error}"
    if a.ndim == 1:
        a = a[:, None]
    if b.ndim == 2 and b.shape[0] != a.shape[0]:
        b = b.T
    if x.shape[0] != a.shape[1] or b.shape[0] != a.shape[0]:
        return f"x has {x.shape}, A {a.shape}, b {b.shape}"
    error = backward_error(a, x, b)
    return "" if error < 1e-9 else f"x is wrong: backward error {error:.3g}"


def error_lines(done):
    return [line for line in done.err.splitlines() if line.startswith("tallsketch: error:")]


def judge_files(case, folder, done):
    """Names of files that may not be there, or were changed."""
    left = set(os.listdir(folder)) - set(case.files)
    if case.may_write is not None:
        found = left - set(case.may_write)
    else:  # a command line may name its files
        found = {name for name in left if ".tmp." in name or name.endswith(".tmp")}
    for name, data in case.files.items():
        path = os.path.join(folder, name)
        if name == "c.h5":
            continue  # a checkpoint goes, or is written again
        if not os.path.exists(path):
            found.add(f"{name} is gone")
        else:
            with open(path, "rb") as file:
                if file.read() != data:
                    found.add(f"{name} was changed")
    if case.kind != "cli" and done.code not in (0, 6) and "x.h5" in left:
        found.add(f"x.h5 with code {done.code}")
    return sorted(found)


def judge(case, folder, done):
    """'' where all is well, else what is not."""
    if done.code is None:
        return "hang"
    if done.code not in CODES:
        return f"{'signal' if done.code < 0 or done.code >= 128 else 'undocumented code'} {done.code}"
    if case.expected not in (None, done.code):
        return f"code {done.code}, not {case.expected}"
    errors = error_lines(done)
    if len(errors) != (1 if done.code else 0):
        return f"code {done.code} with {len(errors)} error lines"
    if errors and not errors[0].isprintable():
        return "control characters in the error line"
    if done.code == 7 and UNPLANNED in errors[0]:
        return "out of memory that was not planned"
    if done.code == 8 and case.kind != "cli":
        return "code 8 without a cause"
    files = judge_files(case, folder, done)
    if files:
        return f"files: {', '.join(files)}"
    if done.code in (0, 6) and case.kind != "cli":
        return in_child(lambda: judge_x(case, folder, done.code == 6))
    return ""


if __name__ == "__main__":
    sys.exit("a module of mutate_inputs.py")
