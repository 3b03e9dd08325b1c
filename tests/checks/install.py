"""Installs the build into a scratch folder by its tags and builds users' programs against it.

Uses pkg-config (shared and static) and CMake.

Usage: install.py BUILD_DIR MESON COMPILER...
"""
import os
import shutil
import sys
import tempfile
from pathlib import Path

from check import ROOT, WARNINGS, must, verdict

CONSUMER = ROOT / 'tests' / 'consumer'
PROGRAMS = ('main', 'bench')  # a source each
SAYS = {'main': 'consumer: works\n', 'bench': 'bench: works\n'}


def decoy(folder):
    """Creates a user's include folder with a header of our name, which ours must not include."""
    core = folder / 'tensor' / 'core'
    core.mkdir(parents=True)
    (core / 'macros.h').write_text('#error "this is the user\'s tensor/core/macros.h"\n',
                                   encoding='utf-8')
    return folder


def flags_by_kind(libdir, environment):
    """Returns {kind of linking: the flags that pkg-config gives for it}."""
    kinds = {
        'pkg-config': must(['pkg-config', '--cflags', '--libs', 'mezzo'], env=environment).split()
    }
    if list(libdir.glob('libmezzo.a')):
        words = must(['pkg-config', '--static', '--cflags', '--libs', 'mezzo'],
                     env=environment).split()
        kinds['static'] = ['-l:libmezzo.a' if word == '-lmezzo' else word for word in words]
    return kinds


def main(build, meson, *compilers):
    said = {}  # (way of building, program) -> what the program printed
    with tempfile.TemporaryDirectory() as scratch:
        scratch = Path(scratch)
        must([
            meson, 'install', '-C', build, '--no-rebuild', '--quiet', '--tags', 'runtime,devel',
            '--destdir', scratch / 'root'
        ])
        pc_file = next((scratch / 'root').rglob('mezzo.pc'))
        libdir = pc_file.parent.parent
        environment = os.environ | {
            'PKG_CONFIG_LIBDIR': str(pc_file.parent),
            'LD_LIBRARY_PATH': str(libdir),
            'PKG_CONFIG_SYSROOT_DIR': str(scratch / 'root')
        }
        program = scratch / 'program'
        users = decoy(scratch / 'user')
        for compiler in filter(shutil.which, compilers):
            for kind, flags in flags_by_kind(libdir, environment).items():
                for source in PROGRAMS:
                    must([
                        compiler, *WARNINGS, f'-I{users}', CONSUMER / f'{source}.cpp', '-o',
                        program, *flags
                    ])
                    said[f'{compiler}, {kind}', source] = must([program], env=environment)
        if shutil.which('cmake'):
            must([
                'cmake', '-S', CONSUMER, '-B', scratch / 'cmake',
                f'-DMezzo_DIR={libdir}/cmake/Mezzo'
            ])
            must(['cmake', '--build', scratch / 'cmake'])
            said['CMake', 'main'] = must([scratch / 'cmake' / 'consumer'], env=environment)
    failures = [
        f'{way}: {source}.cpp printed {text!r}, expected {SAYS[source]!r}'
        for (way, source), text in said.items() if text != SAYS[source]
    ]
    verdict(len(said) - len(failures), failures)


main(*sys.argv[1:])
