"""Helpers of the checks: paths of sources, running commands, and the tally that tally.py reads."""
import functools
import json
import os
import re
import shutil
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
ROOMS = ('tensor', 'autograd', 'nn', 'optim', 'amp', 'measure', 'cuda')
# What a build of the library reads.
PARTS = (*ROOMS, '.package', 'CMakeLists.txt', 'mezzo.h', 'meson.build', 'meson_options.txt')
# Folders of the objects of the library's sources other than kernels.
UNITS = ('libcore.a.p', 'libcompact.a.p')
INCLUDE = re.compile(r'^\s*#\s*include\s*"([^"]+)"', re.MULTILINE)
WARNINGS = ['-std=c++20', '-Wall', '-Wextra', '-Wpedantic', '-Wshadow', '-Werror']


def sources(*folders, suffixes=('.h', '.cpp', '.cu')):
    """Returns the source files of the folders, as paths relative to ROOT."""
    return sorted(
        path.relative_to(ROOT) for folder in folders for path in (ROOT / folder).rglob('*')
        if path.suffix in suffixes)


@functools.cache
def headers_reached(path):
    """Returns the headers of the project that a file includes, directly or by other headers."""
    found, new = set(), {path}
    while new:
        includes = {(folder / name).resolve() for one in new for folder in (one.parent, ROOT)
                    for name in INCLUDE.findall(one.read_text(encoding='utf-8'))}
        new = {one for one in includes if one.is_file()} - found
        found |= new
    return found


def run(command, **options):
    """Runs a command and captures stdout and stderr together as text."""
    options = {'stderr': subprocess.STDOUT} | options
    return subprocess.run([str(word) for word in command],
                          stdout=subprocess.PIPE,
                          text=True,
                          errors='replace',
                          check=False,
                          **options)


def must(command, **options):
    """Runs a command that must succeed. Returns its output."""
    done = run(command, **options)
    if done.returncode != 0:
        verdict(
            0,
            [f'{" ".join(map(str, command))}\nended with status {done.returncode}\n{done.stdout}'])
    return done.stdout


def precompiled(compiler, options, header, folder):
    """Precompiles a header in a new folder. Returns the options that use it.

    A header that does not compile has none, so that the files that include it report the error.
    """
    Path(folder).mkdir()
    source = Path(folder) / 'precompiled.h'
    source.write_text(f'#include "{header}"\n', encoding='utf-8')
    done = run([compiler, *options, '-x', 'c++-header', source, '-o', f'{source}.gch'])
    return ['-include', source] if done.returncode == 0 else []


def copy_sources(folder):
    """Copies what a build of the library reads to a new folder."""
    Path(folder).mkdir(parents=True)
    for part in PARTS:
        copy = shutil.copytree if (ROOT / part).is_dir() else shutil.copy2
        copy(ROOT / part, Path(folder) / part)


def compile_commands(build):
    """Yields the entries of compile_commands.json, with the absolute path of their source.

    A unit of several files of the library has an entry for each, whose 'unit' is the number of
    files before it.
    """
    build = Path(build).resolve()
    for entry in json.loads((build / 'compile_commands.json').read_text(encoding='utf-8')):
        path = (Path(entry['directory']) / entry['file']).resolve()
        folder = entry.get('output', '').split('/')[0]  # CMake gives no output
        if folder in UNITS and '-unity' in path.name:
            lines = path.read_text(encoding='utf-8').splitlines()
            for number, line in enumerate(lines):
                source = Path(line.removeprefix('#include<').removesuffix('>')).resolve()
                yield {**entry, 'file': str(source), 'unit': number}
        else:
            yield {**entry, 'file': str(path)}


def link_objects(build, folder, compiler, name=None):
    """Links the objects of a build in a folder, under the names of a build without units.

    An object of a unit has the name of its first file. Those of the others are empty.
    name: returns the path in the folder of an entry of compile_commands(), or None; default: that
    of a build of Meson's.
    """
    empty = Path(folder) / 'empty.o'
    empty.parent.mkdir(parents=True)
    must([*compiler, '-x', 'c++', '-c', os.devnull, '-o', empty])

    def by_meson(entry):
        if 'unit' not in entry:
            return entry['output']
        source = str(Path(entry['file']).relative_to(ROOT)).replace('/', '_')
        return f'{entry["output"].split("/")[0]}/{source}.o'

    for entry in compile_commands(build):
        made = Path(build).resolve() / entry['output']
        path = (name or by_meson)(entry)
        if path and made.suffix == '.o' and made.exists():
            link = Path(folder) / path
            link.parent.mkdir(parents=True, exist_ok=True)
            link.symlink_to(empty if entry.get('unit', 0) > 0 else made)
    return folder


REUSING_COMPILER = r'''#!/bin/sh
for word; do
  case $previous in -o) object=$word ;; esac
  previous=$word
done
case $object in
  *.cpp.o)
    made={objects}/${{object#{prefix}}}
    [ -f "$made" ] && exec cp "$made" "$object" ;;
esac
exec {compiler} "$@"
'''


def reusing_compiler(path, compiler, objects, prefix):
    """Writes a compiler that copies objects from a folder, and compiles what is not there.

    An object is found there by its path without the prefix (a pattern of the shell). Its build has
    to have the same flags.
    """
    text = REUSING_COMPILER.format(compiler=' '.join(compiler), objects=objects, prefix=prefix)
    return program(path, text)


def program(path, text):
    """Writes a script that can be executed. Returns its path."""
    Path(path).write_text(text, encoding='utf-8')
    Path(path).chmod(0o755)
    return path


def install_blocks(language):
    """Returns the blocks of a language in the section "Install and link" of README.md."""
    page = (ROOT / 'README.md').read_text(encoding='utf-8')
    section = page.split('\n## Install and link\n')[1].split('\n## ')[0]
    return re.findall(rf'^```{language}\n(.*?)^```$', section, re.MULTILINE | re.DOTALL)


def first_program():
    """Returns the first program of README.md and what it prints."""
    page = (ROOT / 'README.md').read_text(encoding='utf-8')
    return re.search(r'^```cpp\n(.*?)^```\n```output\n(.*?)^```$', page,
                     re.MULTILINE | re.DOTALL).groups()


def in_parallel(function, items):
    """Returns [function(item) for item in items], computed on all cores."""
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        return list(pool.map(function, items))


def skip(reason):
    """Ends the check as skipped; with CI=true as failed."""
    print(reason)
    sys.exit(1 if os.environ.get('CI') == 'true' else 77)


def verdict(passed, failures):
    """Prints the failures and the tally, and ends the check."""
    for failure in failures:
        print(failure)
    print(f'{passed} passed, {len(failures)} failed')
    sys.exit(1 if failures else 0)


class Expectations:
    """Counts expectations that hold and keeps those that fail: expect(holds, what, output)."""

    def __init__(self):
        self.passed = 0
        self.failures = []

    def __call__(self, holds, what, output=''):
        if holds:
            self.passed += 1
        else:
            self.failures.append(f'{what}\n{output}')

    def verdict(self):
        verdict(self.passed, self.failures)
