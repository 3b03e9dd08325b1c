"""Builds a user's program with Mezzo as its Meson subproject.

Checks that it configures, compiles with the given include folders and links with the static
library, which must have every source. The build has already compiled the sources, so their objects
are taken from there.

Usage: subproject.py SCRATCH_DIR MESON BUILD_DIR CPU_ARCH COMPILER...   (the last as in the build)
"""
import os
import shutil
import stat
import sys
from pathlib import Path

from check import ROOMS, ROOT, must, verdict

PARTS = (*ROOMS, '.package', 'mezzo.h', 'meson.build', 'meson_options.txt')
# A compiler that copies the objects of our sources from the build, and compiles other sources.
REUSING_COMPILER = r'''#!/bin/sh
for word; do
  case $previous in -o) object=$word ;; esac
  previous=$word
done
case $object in
  subprojects/mezzo/lib*.a.p/*.o | subprojects/mezzo/lib*.so*.p/*.o | \
      subprojects/mezzo/tensor/cpu/variants/lib*.a.p/*.o)
    made={build}/${{object#subprojects/mezzo/}}
    [ -f "$made" ] && exec cp "$made" "$object" ;;
esac
exec {compiler} "$@"
'''


def program(path, text):
    path.write_text(text, encoding='utf-8')
    path.chmod(path.stat().st_mode | stat.S_IXUSR)
    return path


def main(scratch, meson, build, cpu_arch, *compiler):
    scratch = Path(scratch)
    shutil.rmtree(scratch, ignore_errors=True)
    project = scratch / 'project'
    shutil.copytree(ROOT / 'tests' / 'consumer',
                    project,
                    ignore=shutil.ignore_patterns('CMakeLists.txt'))
    for part in PARTS:
        copy = shutil.copytree if (ROOT / part).is_dir() else shutil.copy2
        (project / 'subprojects' / 'mezzo').mkdir(parents=True, exist_ok=True)
        copy(ROOT / part, project / 'subprojects' / 'mezzo' / part)
    reusing = program(scratch / 'compiler',
                      REUSING_COMPILER.format(build=build, compiler=' '.join(compiler)))
    environment = os.environ | {'CXX': str(reusing), 'CCACHE_DISABLE': '1'}
    must([
        meson, 'setup', scratch / 'build', project, '--wrap-mode=nodownload',
        '-Ddefault_library=static', '-Dmezzo:default_library=static', '-Dmezzo:cuda=disabled',
        f'-Dmezzo:cpu_arch={cpu_arch}', '-Db_pch=false'
    ],
         env=environment)
    must(['ninja', '-C', scratch / 'build', 'consumer'], env=environment)
    said = must([scratch / 'build' / 'consumer'])
    verdict(1 if 'works' in said else 0,
            [] if 'works' in said else [f'the program printed {said!r}'])


main(*sys.argv[1:])
