"""What the scripts of this folder share: HDF5 files that are whole or absent, and counts on the command line."""
import argparse
import contextlib
import os

import h5py


@contextlib.contextmanager
def whole_file(path):
    """Yields an h5py.File for writing under a temporary name beside path; renamed on success, removed on failure."""
    temporary = f"{path}.tmp{os.getpid()}"
    try:
        with h5py.File(temporary, "w") as file:
            yield file
        handle = os.open(temporary, os.O_RDONLY)
        os.fsync(handle)
        os.close(handle)
        os.replace(temporary, path)
    except BaseException:
        if os.path.exists(temporary):
            os.remove(temporary)
        raise


def count(text):
    """argparse type of a whole number >= 1."""
    if not text.isascii() or not text.isdigit() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"{text!r} is not a whole number of at least 1")
    return int(text)
