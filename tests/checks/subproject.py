"""Builds the first program of README.md with Mezzo as its Meson subproject, by the lines there.

Checks that it configures, compiles with the given include folders and links with the static
library, which must have every source. The build has already compiled the sources, so their objects
are taken from there.

Usage: subproject.py SCRATCH_DIR MESON BUILD_DIR CPU_ARCH COMPILER...   (the last as in the build)
"""
import os
import shutil
import subprocess
import sys
from pathlib import Path

from check import (copy_sources, first_program, install_blocks, link_objects, must,
                   reusing_compiler, verdict)

def main(scratch, meson, build, cpu_arch, *compiler):
    scratch = Path(scratch)
    shutil.rmtree(scratch, ignore_errors=True)
    project = scratch / 'project'
    copy_sources(project / 'subprojects' / 'mezzo')
    source, expected = first_program()
    (project / 'main.cpp').write_text(source, encoding='utf-8')
    (project / 'meson.build').write_text("project('program', 'cpp')\n" + install_blocks('meson')[0],
                                         encoding='utf-8')
    reusing = reusing_compiler(scratch / 'compiler', compiler,
                               link_objects(build, scratch / 'objects', compiler),
                               'subprojects/mezzo/')
    environment = os.environ | {'CXX': str(reusing), 'CCACHE_DISABLE': '1'}
    must([
        meson, 'setup', scratch / 'build', project, '--wrap-mode=nodownload',
        '-Ddefault_library=static', '-Dmezzo:default_library=static', '-Dmezzo:cuda=disabled',
        f'-Dmezzo:cpu_arch={cpu_arch}', '-Db_pch=false'
    ],
         env=environment)
    must(['ninja', '-C', scratch / 'build', 'program'], env=environment)
    said = must([scratch / 'build' / 'program'], stderr=subprocess.DEVNULL)
    verdict(1 if said == expected else 0,
            [] if said == expected else [f'the program printed {said!r}'])


main(*sys.argv[1:])
