"""Installs Mezzo and builds users' programs against it.

Usage: install.py BUILD_DIR MESON COMPILER...
           Installs the build into a scratch folder by its tags. Links by pkg-config (shared and
           static) and CMake.
       install.py --page default|own BUILD_DIR MESON CPU_ARCH COMPILER...
           Runs the lines of README.md for the default prefix, or for one of the user's own, from
           setup to the last program; the last two arguments are as in the build. Objects that the
           build has already are taken from there. The default prefix is that of a system of its
           own: /usr/local, /etc and /var/cache are overlays in a mount namespace. Skipped, also
           with CI=true, where the system allows none.
"""
import os
import re
import shlex
import shutil
import sys
import tempfile
from pathlib import Path

from check import (ROOT, WARNINGS, copy_sources, first_program, install_blocks, link_objects, must,
                   program, reusing_compiler, run, skip, verdict)

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


# ---- the lines of README.md ---------------------------------------------------------------------

OVERLAYS = ('/usr/local', '/etc', '/var/cache')
# Calls Meson with more options: kernels as in the build, no precompiled headers, which cannot be
# reused, and no CUDA kernels, which take minutes where there is a GPU.
MESON = '''#!/bin/sh
[ "$1" = setup ] || exec {meson} "$@"
exec {meson} "$@" -Dcpu_arch={cpu_arch} -Db_pch=false -Dcuda=disabled
'''
CMAKE_PROJECT = '''cmake_minimum_required(VERSION 3.16)
project(program CXX)
add_executable(program main.cpp)
'''


def namespace():
    """Returns the words before a command that may mount, or None where that is impossible."""
    if not shutil.which('unshare'):
        return None
    for words in (['unshare', '--mount'], ['unshare', '--mount', '--map-root-user']):
        with tempfile.TemporaryDirectory() as scratch:
            probe = f'{overlay(scratch)}\ntouch /usr/local/lib/probe /etc/probe'
            if run([*words, 'sh', '-c', probe]).returncode == 0:
                return words
    return None


def overlay(scratch):
    """Returns the commands of a shell after which writes to the OVERLAYS go to the memory."""
    lines = ['set -e', f'mount -t tmpfs tmpfs {scratch}']
    for number, folder in enumerate(OVERLAYS):
        upper, work = f'{scratch}/upper{number}', f'{scratch}/work{number}'
        lines += [f'mkdir {upper} {work}',
                  f'mount -t overlay overlay -olowerdir={folder},upperdir={upper},workdir={work} '
                  f'{folder}']
    return '\n'.join(lines)


def page_script(scratch, prefix):
    """Returns a script with the lines of README.md, which writes what each program prints."""
    default, own, by_pkg_config = install_blocks('sh')
    find_package = next(block for block in install_blocks('cmake') if 'find_package' in block)
    if prefix == 'default':  # the library is found because of ldconfig
        by_pkg_config = re.sub(r'^rpath=.*\n', '', by_pkg_config)
    targets = re.findall(r'mezzo::\w+', find_package)
    lines = ['set -ex', f'cd {scratch}/source', default if prefix == 'default' else own,
             f'cd {scratch}/program', by_pkg_config]
    said = [(f'pkg-config, {name}', f'./{name}')
            for name in re.findall(r' -o (\w+) ', by_pkg_config)]
    for target in targets:
        folder = f'{scratch}/{target.replace("::", "_")}'
        lines += [f'mkdir {folder}', f'cp main.cpp {folder}',
                  f'cat >{folder}/CMakeLists.txt <<"END"',
                  CMAKE_PROJECT + find_package.replace(targets[0], target), 'END',
                  f'cmake -S {folder} -B {folder}/build', f'cmake --build {folder}/build']
        said.append((f'CMake, {target}', f'{folder}/build/program'))
    for name, binary in said:
        lines.append(f'{binary} >"{scratch}/said/{name}" 2>{scratch}/log')
        needs = not name.endswith('static')  # of the library; it is that of the prefix
        lines.append(f'ldd {binary} | grep -q libmezzo {"||" if needs else "&&"} exit 5')
    lines.append(f'stat -Lc %s $(pkg-config --variable=libdir mezzo)/libmezzo.so >{scratch}/size')
    return '\n'.join(lines)


def page(prefix, build, meson, cpu_arch, *compiler):
    build = Path(build).resolve()
    words = []
    if prefix == 'default':
        words = namespace()
        if words is None:
            print('the default prefix needs a mount namespace with overlays, which this system does '
                  'not allow')
            sys.exit(77)
    if not shutil.which('cmake'):
        skip('cmake is not here')
    source, expected = first_program()
    with tempfile.TemporaryDirectory() as scratch:
        scratch = Path(scratch)
        copy_sources(scratch / 'source')
        for folder in ('bin', 'home', 'memory', 'program', 'said'):
            (scratch / folder).mkdir()
        (scratch / 'program' / 'main.cpp').write_text(source, encoding='utf-8')
        program(scratch / 'bin' / 'meson',
                MESON.format(meson=shlex.quote(meson), cpu_arch=cpu_arch))
        reusing = reusing_compiler(scratch / 'bin' / 'reusing', compiler,
                                   link_objects(build, scratch / 'objects', compiler), '')
        environment = {name: text for name, text in os.environ.items()
                       if name not in ('PKG_CONFIG_PATH', 'CMAKE_PREFIX_PATH', 'LD_LIBRARY_PATH')}
        environment |= {'PATH': f'{scratch}/bin:{os.environ["PATH"]}:/usr/sbin:/sbin',
                        'HOME': str(scratch / 'home'), 'CXX': str(reusing), 'CCACHE_DISABLE': '1'}
        script = page_script(scratch, prefix)
        if prefix == 'default':
            script = f'{overlay(scratch / "memory")}\n{script}'
        must([*words, 'bash', '-c', script], env=environment)
        said = {path.name: path.read_text(encoding='utf-8')
                for path in (scratch / 'said').iterdir()}
        print(f'libmezzo.so: {int((scratch / "size").read_text()) / 1e6:.1f} MB')
    failures = [f'{way}: printed {text!r}, expected {expected!r}'
                for way, text in said.items() if text != expected]
    verdict(len(said) - len(failures), failures)


# ---- the build, by its tags ---------------------------------------------------------------------


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


if sys.argv[1] == '--page':
    page(*sys.argv[2:])
else:
    main(*sys.argv[1:])
