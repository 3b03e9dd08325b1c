"""CMakeLists.txt builds what Meson builds, and the lines of README.md for CMake build a program.

- By default both compile the same sources for the same instruction sets, with the flags that decide
  values.
- A project with the lines of README.md fetches Mezzo from a repository, builds the first program of
  that page and runs it. Objects that the build has already are taken from there.

Usage: cmake.py BUILD_DIR MESON CPU_ARCH COMPILER...   (the last two as in the build)
"""
import os
import shlex
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from check import (ROOT, compile_commands, copy_sources, first_program, install_blocks,
                   link_objects, must, reusing_compiler, skip, verdict)

PROJECT = '''cmake_minimum_required(VERSION 3.16)
project(program CXX)
add_executable(program main.cpp)
'''
DECIDE_VALUES = {'-ffp-contract=off', '-fno-math-errno', '-fno-trapping-math'}
# Folders of objects in a build of Meson's -> the target of CMake's with the same objects.
TARGETS = {'libcore.a.p': 'mezzo_core', 'libmade.a.p': 'mezzo_core',
           'libcompact.a.p': 'mezzo_compact', 'libkernels.a.p': 'mezzo_kernels',
           'libmezzo-mpi.so.p': 'mezzo-mpi'}
VARIANTS = 'tensor/cpu/variants/libkernels_'
MADE = {'version.cpp', 'build_facts.cpp', 'page_template.cpp'}
STUB = ('cuda/absent.cpp', ())  # stands for the GPU backend, which CMake does not build


def target_of(output):
    """Returns the target of CMake's that has an object of Meson's, or None."""
    folder = output.rsplit('/', 1)[0]
    if folder.startswith(VARIANTS):
        return f'mezzo_kernels_{folder.removeprefix(VARIANTS).removesuffix(".a.p")}'
    return TARGETS.get(folder)


def commands(folder, root):
    """{(source, its instruction set): words of its command}, from compile_commands.json."""
    found = {}
    for entry in compile_commands(folder):
        source = Path(entry['file'])
        if 'output' in entry and not target_of(entry['output']):
            continue  # one of Meson's other programs
        if source.suffix != '.cpp':
            continue  # a precompiled header
        made = source.name in MADE or not source.is_relative_to(root)
        name = source.name if made else str(source.relative_to(root))
        words = shlex.split(entry['command'])
        isa = tuple(word for word in words if word.startswith(('-march', '-mavx')))
        found[name, isa] = words
    return found


def differences(scratch, meson):
    """What differs between the sources and flags of both, with the default options."""
    (scratch / 'CMakeLists.txt').write_text(
        f'{PROJECT}add_subdirectory("{ROOT}" mezzo)\n', encoding='utf-8')
    (scratch / 'main.cpp').touch()
    must(['cmake', '-S', scratch, '-B', scratch / 'cmake', '-DCMAKE_EXPORT_COMPILE_COMMANDS=ON'])
    must([meson, 'setup', scratch / 'meson', ROOT, '-Dtests=disabled', '-Dsamples=disabled',
          '-Dcuda=disabled'])
    by_cmake = commands(scratch / 'cmake', ROOT)
    del by_cmake['main.cpp', ()]
    by_meson = set(commands(scratch / 'meson', ROOT)) | {STUB}
    for source, isa in sorted(by_meson - set(by_cmake)):
        yield f'CMake does not compile {source} {" ".join(isa)}'
    for source, isa in sorted(set(by_cmake) - by_meson):
        yield f'Meson does not compile {source} {" ".join(isa)}'
    for (source, _), words in sorted(by_cmake.items()):
        if not DECIDE_VALUES <= set(words):
            yield f'{source}: CMake does not pass {" ".join(sorted(DECIDE_VALUES - set(words)))}'


def repository(folder):
    """Makes a git repository of the sources, with the branch that README.md names."""
    copy_sources(folder)
    git = ['git', '-C', folder, '-c', 'user.name=check', '-c', 'user.email=check@localhost']
    must([*git, 'init', '--quiet', '--initial-branch=main'])
    must([*git, 'add', '--all', '--force'])
    must([*git, 'commit', '--quiet', '--message', 'Sources'])
    return folder


def name_by_cmake(build, entry):
    """Returns the path of an object in a build of CMake's, or None."""
    source, target = Path(entry['file']), target_of(entry['output'])
    if target and source.is_relative_to(ROOT) and not source.is_relative_to(build):
        return f'{target}.dir/{source.relative_to(ROOT)}.o'
    return None


def fetched_program(scratch, build, cpu_arch, compiler):
    """What the first program prints, built by the lines of README.md."""
    source, expected = first_program()
    project = scratch / 'project'
    project.mkdir()
    (project / 'main.cpp').write_text(source, encoding='utf-8')
    lines = next(block for block in install_blocks('cmake') if 'FetchContent' in block)
    (project / 'CMakeLists.txt').write_text(PROJECT + lines, encoding='utf-8')
    objects = link_objects(build, scratch / 'objects', compiler,
                           lambda entry: name_by_cmake(build, entry))
    reusing = reusing_compiler(scratch / 'compiler', compiler, objects, '*CMakeFiles/')
    environment = os.environ | {'CCACHE_DISABLE': '1'}
    must(['cmake', '-S', project, '-B', project / 'build', f'-DCMAKE_CXX_COMPILER={reusing}',
          f'-DMEZZO_URL={repository(scratch / "repository")}', f'-DMEZZO_CPU_ARCH={cpu_arch}',
          '-DCMAKE_DISABLE_PRECOMPILE_HEADERS=ON'], env=environment)
    must(['cmake', '--build', project / 'build', '--parallel', os.cpu_count()], env=environment)
    said = must([project / 'build' / 'program'], stderr=subprocess.DEVNULL)
    if said != expected:
        yield f'the program printed {said!r}, expected {expected!r}'


def main(build, meson, cpu_arch, *compiler):
    if not shutil.which('cmake'):
        skip('cmake is not here')
    build = Path(build).resolve()
    with tempfile.TemporaryDirectory() as scratch:
        scratch = Path(scratch)
        failures = list(differences(scratch, meson))
        if not failures:
            failures += fetched_program(scratch, build, cpu_arch, compiler)
    verdict(2 if not failures else 0, failures)


main(*sys.argv[1:])
