"""Checks C++ files with clang-tidy and the checks of .clang-tidy.

Usage: tidy.py BUILD_DIR [--since COMMIT] [FILE...]

Without files: those of the library and the samples that differ from COMMIT; default: the last
commit.
"""
import argparse
import shutil
import sys
from pathlib import Path

from check import ROOT, compile_commands, in_parallel, must, run, skip, verdict
from second_compiler import options_of

UNKNOWN_TO_CLANG = ['-Wno-unknown-warning-option']


def changed_files(commit):
    """Returns the sources of the library and the samples that differ from a commit."""
    listed = must(['git', 'diff', '--name-only', '--diff-filter=d', commit, '--'], cwd=ROOT)
    return [name for name in listed.split()
            if name.endswith('.cpp') and not name.startswith('tests/')]


def main(build, files):
    if shutil.which('clang-tidy') is None:
        skip('clang-tidy is not here')
    entries = {Path(entry['file']): entry for entry in compile_commands(build)}
    chosen = [entries[path] for path in (Path(ROOT / name).resolve() for name in files)
              if path in entries]

    def complaint(entry):
        done = run(['clang-tidy', '--quiet', entry['file'], '--', *options_of(entry),
                    *UNKNOWN_TO_CLANG], cwd=entry['directory'])
        return done.stdout if done.returncode != 0 else ''

    failures = [text for text in in_parallel(complaint, chosen) if text]
    verdict(len(chosen) - len(failures), failures)


if __name__ == '__main__':
    parser = argparse.ArgumentParser()
    parser.add_argument('build')
    parser.add_argument('--since', metavar='COMMIT', default='HEAD')
    parser.add_argument('files', nargs='*')
    given = parser.parse_args()
    main(given.build, given.files or changed_files(given.since))
