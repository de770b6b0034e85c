#!/usr/bin/python3
"""Runs a command and prints, after what it says, the most memory that one of its processes held, in bytes.

A process of its own, because a process that is forked from a large one counts as large before it becomes another.
"""
import resource
import subprocess
import sys

code = subprocess.call(sys.argv[1:])
print(f"peak_memory {resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss * 1024}")
sys.exit(code)
