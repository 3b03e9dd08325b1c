"""Checks that another compiler than the build's finds nothing to warn about in any file of the build.

Usage: second_compiler.py BUILD_DIR COMPILER      (reads compile_commands.json and parses each file with its own options)
"""
import json
import shlex
import shutil
import sys
import tempfile
from pathlib import Path

from check import ROOT, in_parallel, run, skip, verdict

# The build switches off warnings of its own compiler that this one may not know; g++ ignores such a switch, clang has one.
STRICT = ['-Wno-unknown-warning-option', '-Werror']


def options_of(entry):
    """The words of the compile command that decide about meaning: no compiler, output, dependency files or colours."""
    words = iter(shlex.split(entry['command']))
    for word in words:
        if word in ('-o', '-MF', '-MQ', '-MT', '-c'):
            next(words)
        elif word.startswith('-') and word not in ('-MD', '-fcolor-diagnostics', '-fdiagnostics-color=always'):
            yield word


def with_public_header(compiler, entries, folder):
    """What to add to the options of a test, by the options that are not paths: mezzo.h parsed beforehand, which is most of a test's time."""
    additions = {}
    for number, options in enumerate({settings_of(entry) for entry in entries if is_test(entry)}):
        parsed = Path(folder) / f'{number}.pch'
        done = run([compiler, *options, *STRICT, '-x', 'c++-header', ROOT / 'mezzo.h', '-o', parsed])
        if done.returncode == 0:  # else each test says why
            additions[options] = ['-include-pch', parsed]
    return additions


def is_test(entry):
    return (ROOT / 'tests') in (Path(entry['directory']) / entry['file']).resolve().parents


def settings_of(entry):
    return tuple(word for word in options_of(entry) if not word.startswith('-I'))


def main(build, compiler):
    if shutil.which(compiler) is None:
        skip(f'{compiler} is not here')
    entries = json.loads((Path(build) / 'compile_commands.json').read_text(encoding='utf-8'))
    entries = {entry['file']: entry for entry in entries}.values()
    with tempfile.TemporaryDirectory() as folder:
        additions = with_public_header(compiler, entries, folder) if 'clang' in compiler else {}

        def complaint(entry):
            parsed = additions.get(settings_of(entry), []) if is_test(entry) else []
            done = run([compiler, *options_of(entry), *STRICT, *parsed, '-fsyntax-only', entry['file']],
                       cwd=entry['directory'])
            return done.stdout if done.returncode != 0 else ''

        failures = list(filter(None, in_parallel(complaint, entries)))
    verdict(len(entries) - len(failures), failures)


main(*sys.argv[1:])
