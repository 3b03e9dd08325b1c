"""Counts the code of loss scaling: lines without blanks and comments, and types, in every file of
amp, optim and cuda that holds a loss scale, an overflow flag or the result of a step. Master weights
are not counted.

Usage: scaling_size.py [COMMIT]   (default: the working tree)
"""
import re
import subprocess
import sys

from check import ROOT

# Names of today and of earlier commits.
FILES = re.compile(
    r'amp/scaling/(?!master\.).*|amp/session_core\.h|amp/diagnose/nonfinite_gradient\..*'
    r'|amp/checkpoint/iteration\..*|optim/(scale_|step_result|nonfinite_location|clock'
    r'|device_step_state).*|cuda/kernels/(deferred|scale_call)\.cu')
TYPE = re.compile(
    r'^\s*(?:template\s*<[^>]*>\s*)?(?:class|struct|enum class)\s+(?:MZ_API\s+)?([\w:]+)[^;()]*\{',
    re.MULTILINE)


def git(*words):
    return subprocess.run(['git', *words], cwd=ROOT, check=True, capture_output=True,
                          text=True).stdout


def files(commit):
    if commit:
        names = git('ls-tree', '-r', '--name-only', commit).splitlines()
    else:
        names = git('ls-files', '--cached', '--others', '--exclude-standard').splitlines()
    return sorted(name for name in set(names) if FILES.fullmatch(name) and name[-2:] != 'md')


def text_of(name, commit):
    return git('show', f'{commit}:{name}') if commit else (ROOT / name).read_text()


def code_of(text):
    """Returns the text without comments."""
    text = re.sub(r'/\*.*?\*/', '', text, flags=re.DOTALL)
    return re.sub(r'//[^\n]*', '', text)


def main():
    commit = sys.argv[1] if len(sys.argv) > 1 else None
    lines, types = 0, []
    for name in files(commit):
        if not commit and not (ROOT / name).is_file():
            continue
        code = code_of(text_of(name, commit))
        count, found = sum(1 for line in code.splitlines() if line.strip()), TYPE.findall(code)
        print(f'{count:5} {name}  {" ".join(found)}')
        lines += count
        types += found
    print(f'{lines} lines, {len(types)} types')


if __name__ == '__main__':
    main()
