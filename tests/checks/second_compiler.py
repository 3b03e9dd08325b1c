"""Checks that a second compiler has no warnings for any file of the library and the samples.

Usage: second_compiler.py BUILD_DIR COMPILER [--at-once | --tests]

Reads compile_commands.json and parses each file once with its own options and without the
precompiled header of the build, so that a missing #include fails here: only headers that a file
reaches by its own includes are precompiled. With --tests it parses the tests, too, which takes
twice as long, except kernels that the build has translated for the emulated device, which nvcc
parses. With --at-once it parses only the library's sources other than kernels, all at once, which
takes an eighth of the time.
"""
import shlex
import shutil
import sys
import tempfile
from pathlib import Path

from check import (ROOT, UNITS, compile_commands, headers_reached, in_parallel, precompiled, run,
                   skip, verdict)

# The build disables warnings that clang may not know; g++ ignores such options.
STRICT = ['-Wno-unknown-warning-option', '-Werror']
# Options that do not change what the code means; clang does not know all of them.
WITHOUT_MEANING = ('-MD', '-fpch-deps', '-fpch-preprocess', '-fcolor-diagnostics',
                   '-fdiagnostics-color=always', '-fno-gnu-unique', '-fno-tree-pre',
                   '-fno-thread-jumps')
# Headers of the library that are precompiled: a file is parsed with the first that it reaches.
SHARED = ('nn/module.h', 'tensor/core/dispatch.h', 'tensor/core/tensor.h')
# Folders of the objects of the library's sources other than kernels.
TOGETHER = (*UNITS, 'libmade.a.p')
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
        elif (word.startswith('-') and word not in WITHOUT_MEANING and
              not word.startswith('--param=')):
            yield word


def shared_header(entry):
    """Returns the header that is precompiled for a file, or None."""
    if is_users(entry):
        return ROOT / 'mezzo.h'
    headers = headers_reached(Path(entry['file']))
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
    parents = Path(entry['file']).parents
    return ((ROOT / 'tests') in parents or
            (ROOT / 'samples') in parents) and (ROOT / 'tests' / 'emulator') not in parents


def settings_of(entry):
    return tuple(word for word in options_of(entry) if not word.startswith('-I'))


def is_test(entry):
    return (ROOT / 'tests') in Path(entry['file']).parents


def together(entries, folder):
    """Returns one entry for all files that have the same options."""
    groups = {}
    for entry in entries:
        groups.setdefault(tuple(options_of(entry)), []).append(entry)
    joined = []
    for number, group in enumerate(groups.values()):
        unit = Path(folder) / f'unit_{number}.cpp'
        unit.write_text(''.join(f'#include "{entry["file"]}"\n' for entry in group),
                        encoding='utf-8')
        # g++ warns of members whose type is that of one file, as if the unit were a header.
        joined.append({**group[0], 'file': str(unit),
                       'command': group[0]['command'] + ' -Wno-subobject-linkage'})
    return joined


def main(build, compiler, *options):
    if shutil.which(compiler) is None:
        skip(f'{compiler} is not here')
    entries = [entry for entry in compile_commands(build)
               if not entry['output'].endswith('.gch') and
               ('unit' in entry or '-unity' not in entry['output'])]
    with tempfile.TemporaryDirectory() as folder:
        if '--at-once' in options:
            entries = together([entry for entry in entries
                                if entry['output'].split('/')[0] in TOGETHER], folder)
        else:
            entries = {
                entry['file']: entry
                for entry in entries
                if not Path(entry['file']).is_relative_to(Path(build).resolve() / 'tests/emulator')
                and ('--tests' in options or not is_test(entry))
            }.values()
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
