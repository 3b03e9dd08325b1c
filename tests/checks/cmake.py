"""CMakeLists.txt compiles what Meson compiles: the same sources, with the flags that decide values.

Configures a project that adds Mezzo as a subdirectory. Compiles nothing: the install check and the
subproject check build programs.

Usage: cmake.py BUILD_DIR
"""
import json
import shlex
import shutil
import sys
import tempfile
from pathlib import Path

from check import ROOT, must, skip, verdict

PROJECT = '''cmake_minimum_required(VERSION 3.16)
project(consumer CXX)
add_subdirectory("{root}" mezzo)
add_executable(consumer "{root}/tests/consumer/main.cpp")
target_link_libraries(consumer PRIVATE mezzo::mezzo)
'''
DECIDE_VALUES = {'-ffp-contract=off', '-fno-math-errno', '-fno-trapping-math'}
# Meson's, of which every library is made
TARGETS = ('libcore.a.p', 'libkernels.a.p', 'libmezzo-mpi.so.p', 'tensor/cpu/variants/libkernels_')
MADE = {'version.cpp', 'build_facts.cpp', 'page_template.cpp'}
STUB = 'cuda/absent.cpp'  # stands for the GPU backend, which CMake does not build


def commands(folder):
    """{source: words of its command}, from a folder's compile_commands.json."""
    found = {}
    for entry in json.loads((folder / 'compile_commands.json').read_text(encoding='utf-8')):
        source = (Path(entry['directory']) / entry['file']).resolve()
        if 'output' in entry and not entry['output'].startswith(TARGETS):
            continue  # one of Meson's other programs
        if source.suffix != '.cpp':
            continue  # a precompiled header
        made = source.name in MADE or not source.is_relative_to(ROOT)
        name = source.name if made else str(source.relative_to(ROOT))
        found[name] = shlex.split(entry['command'])
    return found


def main(build):
    if not shutil.which('cmake'):
        skip('cmake is not here')
    build = Path(build).resolve()
    meson = set(commands(build)) | {STUB}
    has_mpi = 'tensor/comm/mpi_engine.cpp' in meson
    with tempfile.TemporaryDirectory() as scratch:
        project = Path(scratch) / 'project'
        project.mkdir()
        (project / 'CMakeLists.txt').write_text(PROJECT.format(root=ROOT), encoding='utf-8')
        must(['cmake', '-S', project, '-B', Path(scratch) / 'build',
              '-DCMAKE_EXPORT_COMPILE_COMMANDS=ON', f'-DMEZZO_MPI={"ON" if has_mpi else "OFF"}'])
        cmake = commands(Path(scratch) / 'build')
    del cmake['tests/consumer/main.cpp']
    failures = [f'CMake does not compile {source}' for source in sorted(meson - set(cmake))]
    failures += [f'Meson does not compile {source}' for source in sorted(set(cmake) - meson)]
    failures += [f'{source}: CMake does not pass {" ".join(sorted(DECIDE_VALUES - set(words)))}'
                 for source, words in sorted(cmake.items()) if not DECIDE_VALUES <= set(words)]
    verdict(1 if not failures else 0, failures)


main(*sys.argv[1:])
