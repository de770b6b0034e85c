#!/usr/bin/python3
"""Writes NIST StRD linear least-squares problems as HDF5 files and shows how many certified digits float64 can reach.

/A            (K m, n) float64 row-major; Longley: intercept and 6 columns, the others: powers of one variable
/b            (K m)    float64
/x_certified  (n)      float64, NIST's certified values

--replicate K tiles the rows K times, which leaves the solution as it is. Data and certified values: NIST Statistical
Reference Datasets, linear regression (public domain; https://www.itl.nist.gov/div898/strd/).
Every run checks itself: the typed-in decimals, solved in rational arithmetic, must give the certified values to 14 digits.
Exit: 0 written | 1 a self-check failed, that problem not written | 2 usage | 9 output not written, nothing left behind.
"""
import argparse
import math
import os
import sys
from fractions import Fraction

import numpy as np

import support

# Employed, then price deflator, GNP, unemployed, armed forces, population, year.
LONGLEY = """
60323  83.0 234289 2356 1590 107608 1947   61122  88.5 259426 2325 1456 108632 1948   60171  88.2 258054 3682 1616 109773 1949
61187  89.5 284599 3351 1650 110929 1950   63221  96.2 328975 2099 3099 112075 1951   63639  98.1 346999 1932 3594 113270 1952
64989  99.0 365385 1870 3547 115094 1953   63761 100.0 363112 3578 3350 116219 1954   66019 101.2 397469 2904 3048 117388 1955
67857 104.6 419180 2822 2857 118734 1956   68169 108.4 442769 2936 2798 120445 1957   66513 110.8 444546 4681 2637 121950 1958
68655 112.6 482704 3813 2552 123366 1959   69564 114.2 502601 3931 2514 125368 1960   69331 115.7 518173 4806 2572 127852 1961
70551 116.9 554894 4007 2827 130081 1962
"""
LONGLEY_X = """-3482258.63459582 15.0618722713733 -0.358191792925910E-01 -2.02022980381683 -1.03322686717359
-0.511041056535807E-01 1829.15146461355"""

WAMPLER_DELTA = """759 -2048 2048 -2048 2523 -2048 2048 -2048 1838 -2048 2048 -2048 1838 -2048 2048 -2048 2523 -2048 2048 -2048
759"""

# y, x
FILIP = """
0.8116 -6.860120914  0.9072 -4.324130045  0.9052 -4.358625055  0.9039 -4.358426747  0.8053 -6.955852379  0.8377 -6.661145254
0.8667 -6.355462942  0.8809 -6.118102026  0.7975 -7.115148017  0.8162 -6.815308569  0.8515 -6.519993057  0.8766 -6.204119983
0.8885 -5.853871964  0.8859 -6.109523091  0.8959 -5.79832982   0.8913 -5.482672118  0.8959 -5.171791386  0.8971 -4.851705903
0.9021 -4.517126416  0.909  -4.143573228  0.9139 -3.709075441  0.9199 -3.499489089  0.8692 -6.300769497  0.8872 -5.953504836
0.89   -5.642065153  0.891  -5.031376979  0.8977 -4.680685696  0.9035 -4.329846955  0.9078 -3.928486195  0.7675 -8.56735134
0.7705 -8.363211311  0.7713 -8.107682739  0.7736 -7.823908741  0.7775 -7.522878745  0.7841 -7.218819279  0.7971 -6.920818754
0.8329 -6.628932138  0.8641 -6.323946875  0.8804 -5.991399828  0.7668 -8.781464495  0.7633 -8.663140179  0.7678 -8.473531488
0.7697 -8.247337057  0.77   -7.971428747  0.7749 -7.676129393  0.7796 -7.352812702  0.7897 -7.072065318  0.8131 -6.774174009
0.8498 -6.478861916  0.8741 -6.159517513  0.8061 -6.835647144  0.846  -6.53165267   0.8751 -6.224098421  0.8856 -5.910094889
0.8919 -5.598599459  0.8934 -5.290645224  0.894  -4.974284616  0.8957 -4.64454848   0.9047 -4.290560426  0.9129 -3.885055584
0.9209 -3.408378962  0.9219 -3.13200249   0.7739 -8.726767166  0.7681 -8.66695597   0.7665 -8.511026475  0.7703 -8.165388579
0.7702 -7.886056648  0.7761 -7.588043762  0.7809 -7.283412422  0.7961 -6.995678626  0.8253 -6.691862621  0.8602 -6.392544977
0.8809 -6.067374056  0.8301 -6.684029655  0.8664 -6.378719832  0.8834 -6.065855188  0.8898 -5.752272167  0.8964 -5.132414673
0.8963 -4.811352704  0.9074 -4.098269308  0.9119 -3.66174277   0.9228 -3.2644011
"""
FILIP_X = """-1467.48961422980 -2772.17959193342 -2316.37108160893 -1127.97394098372 -354.478233703349 -75.1242017393757
-10.8753180355343 -1.06221498588947 -0.670191154593408E-01 -0.246781078275479E-02 -0.402962525080404E-04"""

CERTIFIED_DIGITS = 14  # NIST prints 15
LSTSQ_DIGITS = {"longley": 9, "filip": 6}  # floors of numpy's lstsq, one to three digits below what was measured
LSTSQ_DIGITS.update(wampler1=7, wampler2=9, wampler3=7, wampler4=6, wampler5=4)


def fractions(text):
    """Returns the decimals of a text, exactly."""
    return [Fraction(word) for word in text.split()]


def powers(points, degree):
    """Returns the rows 1, t, ..., t^degree, exactly."""
    return [[t**j for j in range(degree + 1)] for t in points]


def make_problems():
    """Returns {name: (A, b, x certified)} in fractions."""
    problems = {}
    numbers = fractions(LONGLEY)
    rows = [numbers[first:first + 7] for first in range(0, len(numbers), 7)]
    problems["longley"] = ([[Fraction(1), *row[1:]] for row in rows], [row[0] for row in rows], fractions(LONGLEY_X))

    a = powers([Fraction(t) for t in range(21)], 5)
    ones, tenths = [Fraction(1)] * 6, [Fraction(1, 10**j) for j in range(6)]
    delta = fractions(WAMPLER_DELTA)
    problems["wampler1"] = (a, [sum(row) for row in a], ones)
    problems["wampler2"] = (a, [sum(v * w for v, w in zip(row, tenths)) for row in a], tenths)
    for name, scale in (("wampler3", 1), ("wampler4", 100), ("wampler5", 10000)):
        problems[name] = (a, [sum(row) + scale * e for row, e in zip(a, delta)], ones)

    numbers = fractions(FILIP)
    problems["filip"] = (powers(numbers[1::2], 10), numbers[0::2], fractions(FILIP_X))
    return problems


def solve_exactly(a, b):
    """Returns the least-squares solution in fractions: normal equations, Gauss-Jordan elimination."""
    n = len(a[0])
    columns = [*zip(*a), b]
    system = [[sum(u * v for u, v in zip(columns[i], columns[j])) for j in range(n + 1)] for i in range(n)]  # (n, n + 1)
    for i in range(n):  # positive definite: no pivoting needed
        system[i] = [value / system[i][i] for value in system[i]]
        for k in range(n):
            if k != i and system[k][i] != 0:
                factor = system[k][i]
                system[k] = [u - factor * v for u, v in zip(system[k], system[i])]
    return [row[n] for row in system]


def digits(x, certified):
    """Returns NIST's log relative error of the worst component, at most 17."""
    worst = max(float(abs(Fraction(u) - v) / abs(v)) for u, v in zip(x, certified))
    return -math.log10(max(worst, 1e-17))


def write_file(path, a, b, certified, attributes):
    """Writes the three datasets; the file is whole or absent."""
    with support.whole_file(path) as file:
        for name, value in (("A", a), ("b", b), ("x_certified", certified)):
            file.create_dataset(name, data=value, dtype="<f8")
        for key, value in attributes.items():
            file["A"].attrs[key] = value


def parse_arguments(names):
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0], allow_abbrev=False)
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"default: all of {' '.join(names)}")
    parser.add_argument("-o", "--output", default=".", metavar="DIR", help="made if absent; default: the current folder")
    parser.add_argument("--replicate", type=support.count, default=1, metavar="K", help="K >= 1 copies of the rows; default: 1")
    arguments = parser.parse_args()
    for name in arguments.names:
        if name not in names:
            parser.error(f"no problem is called {name!r}: choose from {' '.join(names)}")
    return arguments


def main():
    problems = make_problems()
    arguments = parse_arguments(list(problems))
    try:
        os.makedirs(arguments.output, exist_ok=True)
    except OSError as error:
        print(f"nist.py: cannot make the folder {arguments.output}: {error}", file=sys.stderr)
        return 9
    k = arguments.replicate
    failed = []
    print(f"{'':10} {'rows':>8} {'n':>3} {'cond(AD)':>8} {'||Ax-b||':>13}  digits: exact, exact on float64, lstsq")
    for name in arguments.names or problems:
        exact_a, exact_b, exact_x = problems[name]
        a, b = np.array(exact_a, dtype=np.float64), np.array(exact_b, dtype=np.float64)  # each entry rounded once
        certified = np.array(exact_x, dtype=np.float64)
        of_decimals = digits(solve_exactly(exact_a, exact_b), exact_x)
        of_stored = digits(solve_exactly([[Fraction(v) for v in row] for row in a.tolist()],
                                         [Fraction(v) for v in b.tolist()]), exact_x)
        # Unscaled, lstsq's backward error, eps * ||A|| * ||x||, is as large as Filip's residual.
        scale = np.exp2(np.round(np.log2(np.linalg.norm(a, axis=0))))
        x, _, _, values = np.linalg.lstsq(a / scale, b, rcond=np.finfo(float).eps)
        x /= scale
        of_lstsq = digits(x.tolist(), exact_x)
        print(f"{name:10} {k * len(b):8} {a.shape[1]:3} {values[0] / values[-1]:8.1e} "
              f"{math.sqrt(k) * np.linalg.norm(a @ x - b):13.6e}  {of_decimals:.1f} {of_stored:.1f} {of_lstsq:.1f}")
        if of_decimals < CERTIFIED_DIGITS or of_lstsq < LSTSQ_DIGITS[name]:
            failed.append(name)
            continue
        # Tiled rows: A^T A and A^T b are K times as large, so x stays and the residual norm grows by sqrt(K).
        attributes = {"source": f"NIST StRD {name}", "licence": "public domain (NIST)", "replicate": k}
        try:
            write_file(os.path.join(arguments.output, f"{name}.h5"), np.tile(a, (k, 1)), np.tile(b, k), certified, attributes)
        except OSError as error:
            print(f"nist.py: {name}.h5 not written: {str(error).splitlines()[0]}", file=sys.stderr)
            return 9
    if failed:
        print(f"nist.py: the self-check failed, not written: {' '.join(failed)}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
