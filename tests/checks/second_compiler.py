"""Checks that another compiler than the build's finds nothing to warn about in any file of the build.

Usage: second_compiler.py BUILD_DIR COMPILER      (reads compile_commands.json and parses each file once, with its own options)

The library's sources are parsed without their precompiled header: one that lacks an #include fails here.
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
# Options of the compile command that take the next word: those that do not decide about meaning.
WITH_WORD = ('-o', '-MF', '-MQ', '-MT', '-c')


def options_of(entry):
    """The words of the compile command that decide about meaning: no compiler, output, dependency files, colours or precompiled header."""
    words = iter(shlex.split(entry['command']))
    for word in words:
        if word in WITH_WORD:
            next(words)
        elif word == '-include':
            header = next(words)
            if '/' in header:  # Meson names a precompiled header without its folder
                yield from ('-include', header)
        elif word.startswith('-') and word not in ('-MD', '-fpch-preprocess', '-fcolor-diagnostics', '-fdiagnostics-color=always'):
            yield word


def with_public_header(compiler, entries, folder):
    """What to add to the options of a user's file, by the options that are not paths: mezzo.h parsed beforehand, which is most of its time."""
    additions = {}
    for number, options in enumerate({settings_of(entry) for entry in entries if is_users(entry)}):
        parsed = Path(folder) / f'{number}.pch'
        done = run([compiler, *options, *STRICT, '-x', 'c++-header', ROOT / 'mezzo.h', '-o', parsed])
        if done.returncode == 0:  # else each file says why
            additions[options] = ['-include-pch', parsed]
    return additions


def is_users(entry):
    """Whether the file includes mezzo.h as a user's does: the tests and the samples."""
    parents = (Path(entry['directory']) / entry['file']).resolve().parents
    return ((ROOT / 'tests') in parents or (ROOT / 'samples') in parents) and (ROOT / 'tests' / 'emulator') not in parents


def settings_of(entry):
    return tuple(word for word in options_of(entry) if not word.startswith('-I'))


def main(build, compiler):
    if shutil.which(compiler) is None:
        skip(f'{compiler} is not here')
    entries = json.loads((Path(build) / 'compile_commands.json').read_text(encoding='utf-8'))
    entries = {entry['file']: entry for entry in entries if not entry['output'].endswith('.gch')}.values()
    with tempfile.TemporaryDirectory() as folder:
        additions = with_public_header(compiler, entries, folder) if 'clang' in compiler else {}

        def complaint(entry):
            parsed = additions.get(settings_of(entry), []) if is_users(entry) else []
            done = run([compiler, *options_of(entry), *STRICT, *parsed, '-fsyntax-only', entry['file']],
                       cwd=entry['directory'])
            return done.stdout if done.returncode != 0 else ''

        failures = list(filter(None, in_parallel(complaint, entries)))
    verdict(len(entries) - len(failures), failures)


main(*sys.argv[1:])
