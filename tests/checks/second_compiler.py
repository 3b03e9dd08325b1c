"""Checks that another compiler than the build's finds nothing to warn about in any file of the build.

Usage: second_compiler.py BUILD_DIR COMPILER      (reads compile_commands.json and parses each file with its own options)
"""
import json
import shlex
import shutil
import sys
from pathlib import Path

from check import in_parallel, run, skip, verdict


def options_of(entry):
    """The words of the compile command that decide about meaning: no compiler, output, dependency files or colours."""
    words = iter(shlex.split(entry['command']))
    for word in words:
        if word in ('-o', '-MF', '-MQ', '-MT', '-c'):
            next(words)
        elif word.startswith('-') and word not in ('-MD', '-fcolor-diagnostics', '-fdiagnostics-color=always'):
            yield word


def main(build, compiler):
    if shutil.which(compiler) is None:
        skip(f'{compiler} is not here')
    entries = json.loads((Path(build) / 'compile_commands.json').read_text(encoding='utf-8'))
    entries = {entry['file']: entry for entry in entries}.values()

    def complaint(entry):
        # the build switches off warnings of its own compiler that this one may not know; g++ ignores such a switch, clang has one
        done = run([compiler, *options_of(entry), '-Wno-unknown-warning-option', '-Werror', '-fsyntax-only', entry['file']],
                   cwd=entry['directory'])
        return done.stdout if done.returncode != 0 else ''

    failures = list(filter(None, in_parallel(complaint, entries)))
    verdict(len(entries) - len(failures), failures)


main(*sys.argv[1:])
