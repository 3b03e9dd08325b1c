"""Checks that a second compiler has no warnings for any file of the build.

Usage: second_compiler.py BUILD_DIR COMPILER

Reads compile_commands.json and parses each file once with its own options. The library's sources
are parsed without their precompiled header, so that a missing #include fails here.
"""
import json
import shlex
import shutil
import sys
import tempfile
from pathlib import Path

from check import ROOT, in_parallel, run, skip, verdict

# The build disables warnings that clang may not know; g++ ignores such options.
STRICT = ['-Wno-unknown-warning-option', '-Werror']
# Options that do not change what the code means; clang does not know all of them.
WITHOUT_MEANING = ('-MD', '-fpch-deps', '-fpch-preprocess', '-fcolor-diagnostics',
                   '-fdiagnostics-color=always', '-fno-gnu-unique', '-fno-tree-pre',
                   '-fno-thread-jumps')
# Options that take the next word and do not affect the meaning of the code.
WITH_WORD = ('-o', '-MF', '-MQ', '-MT', '-c')


def options_of(entry):
    """Yields the options that affect the meaning of the code (not outputs, colours and so on)."""
    words = iter(shlex.split(entry['command']))
    for word in words:
        if word in WITH_WORD:
            next(words)
        elif word == '-include':
            header = next(words)
            if '/' in header:  # Meson names a precompiled header without its folder
                yield from ('-include', header)
        elif word.startswith('-') and word not in WITHOUT_MEANING:
            yield word


def with_public_header(compiler, entries, folder):
    """Returns {options without paths: additional options that use a precompiled mezzo.h}."""
    additions = {}
    for number, options in enumerate({settings_of(entry) for entry in entries if is_users(entry)}):
        parsed = Path(folder) / f'{number}.pch'
        done = run(
            [compiler, *options, *STRICT, '-x', 'c++-header', ROOT / 'mezzo.h', '-o', parsed])
        if done.returncode == 0:  # otherwise each file reports the error
            additions[options] = ['-include-pch', parsed]
    return additions


def is_users(entry):
    """Returns whether the file includes mezzo.h like a user's file: tests and samples."""
    parents = (Path(entry['directory']) / entry['file']).resolve().parents
    return ((ROOT / 'tests') in parents or
            (ROOT / 'samples') in parents) and (ROOT / 'tests' / 'emulator') not in parents


def settings_of(entry):
    return tuple(word for word in options_of(entry) if not word.startswith('-I'))


def main(build, compiler):
    if shutil.which(compiler) is None:
        skip(f'{compiler} is not here')
    entries = json.loads((Path(build) / 'compile_commands.json').read_text(encoding='utf-8'))
    entries = {
        entry['file']: entry
        for entry in entries if not entry['output'].endswith('.gch')
    }.values()
    with tempfile.TemporaryDirectory() as folder:
        additions = with_public_header(compiler, entries, folder) if 'clang' in compiler else {}

        def complaint(entry):
            parsed = additions.get(settings_of(entry), []) if is_users(entry) else []
            done = run(
                [compiler, *options_of(entry), *STRICT, *parsed, '-fsyntax-only', entry['file']],
                cwd=entry['directory'])
            return done.stdout if done.returncode != 0 else ''

        failures = list(filter(None, in_parallel(complaint, entries)))
    verdict(len(entries) - len(failures), failures)


if __name__ == '__main__':
    main(*sys.argv[1:])
