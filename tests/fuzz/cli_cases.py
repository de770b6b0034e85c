"""Random command lines: options that --help lists, with good, edge and senseless values. Used by valid_inputs.py."""
import re

# Stages that would take hours are no findings, so sizes are small ones, or so large that they must be refused.
SIZES = ("0", "1", "2", "5", "60", "1k", "-1", "1.5", "", "x", "1e3", "2KiB", "9223372036854775807", "9223372036854775808", "1e400", "nan")
NUMBERS = ("0", "1", "2", "4", "16", "64", "1024", "1025", "65536", "-1", "-0", "0.5", "1e-300", "1e300", "inf", "-inf", "nan", "", "x", "0x10",
           "2147483647", "2147483648", "4294967296", "9223372036854775807", "18446744073709551615", "18446744073709551616", "1,2,4", "007", "+3",
           "1e3", "1 ", "auto", "1_000")
NAMES = ("/A", "/b", "A", "/", "", "/none", "/A/", "//A", "/A/x", "g.h5:/A", "g.h5:/b", "g.h5", "none.h5:/A", ":/A", "g.h5:", ".", "/dev/null",
         "/" + "n" * 300, "a\nb", "\u00fc", "%s%n")
TIMES = ("0", "1", "0.000001", "300s", "5m", "2h", "1d", "-1", "nan", "inf", "1e9", "1e10", "")
OUTPUTS = ("x.h5", "x.h5", "x.h5", "", ".", "none/x.h5", "/dev/null", "/dev/full", "g.h5", "-", "n" * 300, "x.h5:/x")


def options_of(text):
    """[(name, type)] of --help; the type is "" for a flag."""
    found = re.findall(r"^  (?:-\w,)?(--[\w-]+)(?: (?!Needs|Excludes)(\S+))?", text, re.MULTILINE)
    return [(name, kind) for name, kind in found if name != "--help"]


def value_of(dice, name, kind):
    """A value for an option."""
    kind = kind.split("=")[0].split(":")[0]
    if name in ("--output", "--report", "--checkpoint", "--merge"):
        return dice.choice(OUTPUTS)
    if "|" in kind and kind.islower():
        words = kind.split("|")
        return dice.choice((*words, *words, *words, "none", "", words[0].upper(), words[0] + " "))
    if kind in ("M", "N", "SIZE"):
        return dice.choice(SIZES)
    if "TIME" in kind:
        return dice.choice(TIMES)
    if kind.startswith("/") or ".h5" in kind:
        return dice.choice(NAMES)
    return dice.choice(NUMBERS)


def cli_case(dice, helps, case, plain):
    """A command on a good file (mostly), with up to six random options.

    helps  {command: its --help}; case  makes the case; plain  bytes of the file
    """
    command = dice.choice(("solve", "solve", "solve", "sketch", "inspect", "generate"))
    options = options_of(helps[command])
    arguments = []
    if command == "generate":
        arguments += ["x.h5", "--rows", dice.choice(("60", *SIZES)), "--cols", dice.choice(("4", *SIZES))]
    elif dice.random() < 0.15:
        arguments += ["--kind", "gaussian", "--rows", dice.choice(("60", *SIZES)), "--cols", dice.choice(("4", *SIZES))]
    elif dice.random() < 0.9:
        arguments += ["g.h5"]
    else:
        arguments += [dice.choice(("", ".", "none.h5", "g.h5:/A", "g.h5:/none", "--", "-", "g.h5:", "\x01", "/dev/zero", "/proc/self/mem"))]
    if command in ("solve", "sketch"):
        arguments += ["-o", "x.h5"] if dice.random() < 0.9 else []
    for _ in range(dice.choice((0, 1, 1, 2, 2, 3, 4, 6))):
        name, kind = dice.choice(options)
        if not kind:
            arguments.append(name)
        elif dice.random() < 0.95:
            value = value_of(dice, name, kind)
            arguments += [f"{name}={value}"] if dice.random() < 0.3 else [name, value]
        else:
            arguments.append(name)
    if dice.random() < 0.05:
        dice.shuffle(arguments)
    arguments = [word.replace("\0", "") for word in arguments]
    first = [] if dice.random() < 0.02 else [command]
    return case("cli", command, {"g.h5": plain}, [*first, *arguments], may_write=None)
