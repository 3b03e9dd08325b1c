"""Builds a user's program with Mezzo as its Meson subproject, unoptimised and static: what is tested is how it is put together.

Usage: subproject.py SCRATCH_DIR MESON      (the scratch folder is kept, so that a second run builds only what changed)
"""
import shutil
import sys
from pathlib import Path

from check import ROOMS, ROOT, must, verdict

PARTS = (*ROOMS, '.package', 'mezzo.h', 'meson.build', 'meson_options.txt')


def copy_if_newer(source, target):
    target = Path(target)
    if not target.exists() or target.stat().st_mtime < Path(source).stat().st_mtime:
        shutil.copy2(source, target)


def copy(parts, source, target):
    """Copies files and folders, leaving alone what is up to date, so that it is not built again."""
    target.mkdir(parents=True, exist_ok=True)
    for part in parts:
        if (source / part).is_dir():
            shutil.copytree(source / part, target / part, copy_function=copy_if_newer, dirs_exist_ok=True)
        else:
            copy_if_newer(source / part, target / part)


def main(scratch, meson):
    project = Path(scratch) / 'project'
    build = Path(scratch) / 'build'
    copy(('main.cpp', 'meson.build'), ROOT / 'tests' / 'consumer', project)
    copy(PARTS, ROOT, project / 'subprojects' / 'mezzo')
    if not (build / 'build.ninja').exists():
        must([meson, 'setup', build, project, '--wrap-mode=nodownload', '-Dbuildtype=plain', '-Ddefault_library=static',
              '-Dmezzo:default_library=static', '-Dmezzo:cuda=disabled'])
    must(['ninja', '-C', build, 'consumer'])
    said = must([build / 'consumer'])
    verdict(1 if 'works' in said else 0, [] if 'works' in said else [f'the program printed {said!r}'])


main(*sys.argv[1:])
