"""Checks that a second compiler has no warnings for any file of the library and the samples.

Usage: second_compiler.py BUILD_DIR COMPILER [--tests]

Reads compile_commands.json and parses each file once with its own options. With --tests it parses
the tests, too, which takes twice as long, except kernels that the build has translated for the
emulated device, which nvcc parses. The library's sources are parsed without the precompiled header
of the build, so that a missing #include fails here: only headers that a file reaches by its own
includes are precompiled.
"""
import json
import shlex
import shutil
import sys
import tempfile
from pathlib import Path

from check import ROOT, headers_reached, in_parallel, precompiled, run, skip, verdict

# The build disables warnings that clang may not know; g++ ignores such options.
STRICT = ['-Wno-unknown-warning-option', '-Werror']
# Options that do not change what the code means; clang does not know all of them.
WITHOUT_MEANING = ('-MD', '-fpch-deps', '-fpch-preprocess', '-fcolor-diagnostics',
                   '-fdiagnostics-color=always', '-fno-gnu-unique', '-fno-tree-pre',
                   '-fno-thread-jumps')
# Headers of the library that are precompiled: a file is parsed with the first that it reaches.
SHARED = ('nn/module.h', 'tensor/core/dispatch.h', 'tensor/core/tensor.h')
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


def shared_header(entry):
    """Returns the header that is precompiled for a file, or None."""
    if is_users(entry):
        return ROOT / 'mezzo.h'
    headers = headers_reached((Path(entry['directory']) / entry['file']).resolve())
    return next((ROOT / name for name in SHARED if ROOT / name in headers), None)


def with_headers(compiler, entries, folder):
    """Returns {(header, options without paths): additional options that use it precompiled}."""
    wanted = {(shared_header(entry), settings_of(entry)): None for entry in entries}
    wanted = [(header, options) for header, options in wanted if header]

    def options_for(job):
        number, (header, options) = job
        return precompiled(compiler, [*options, *STRICT], header, Path(folder) / str(number))

    return dict(zip(wanted, in_parallel(options_for, enumerate(wanted))))


def is_users(entry):
    """Returns whether the file includes mezzo.h like a user's file: tests and samples."""
    parents = (Path(entry['directory']) / entry['file']).resolve().parents
    return ((ROOT / 'tests') in parents or
            (ROOT / 'samples') in parents) and (ROOT / 'tests' / 'emulator') not in parents


def settings_of(entry):
    return tuple(word for word in options_of(entry) if not word.startswith('-I'))


def is_test(entry):
    return (ROOT / 'tests') in (Path(entry['directory']) / entry['file']).resolve().parents


def main(build, compiler, *options):
    if shutil.which(compiler) is None:
        skip(f'{compiler} is not here')
    entries = json.loads((Path(build) / 'compile_commands.json').read_text(encoding='utf-8'))
    entries = {
        entry['file']: entry
        for entry in entries
        if not entry['output'].endswith('.gch') and not entry['file'].startswith('tests/emulator/')
        and ('--tests' in options or not is_test(entry))
    }.values()
    with tempfile.TemporaryDirectory() as folder:
        additions = with_headers(compiler, entries, folder) if 'clang' in compiler else {}

        def complaint(entry):
            parsed = additions.get((shared_header(entry), settings_of(entry)), [])
            done = run(
                [compiler, *options_of(entry), *STRICT, *parsed, '-fsyntax-only', entry['file']],
                cwd=entry['directory'])
            return done.stdout if done.returncode != 0 else ''

        failures = list(filter(None, in_parallel(complaint, entries)))
    verdict(len(entries) - len(failures), failures)


if __name__ == '__main__':
    main(*sys.argv[1:])
