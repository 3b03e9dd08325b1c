"""Runs a program without a tally and counts it as one test, passed when it ends with status 0.

Usage: program.py PROGRAM ARGUMENT...      (runs in a scratch folder)
"""
import sys
import tempfile
from pathlib import Path

from check import run, verdict

with tempfile.TemporaryDirectory() as scratch:
    done = run([Path(sys.argv[1]).resolve(), *sys.argv[2:]], cwd=scratch)
print(done.stdout)
verdict(1 if done.returncode == 0 else 0,
        [] if done.returncode == 0 else [f'ended with status {done.returncode}'])
