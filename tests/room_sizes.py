"""Prints the size of each room beside its budget: files, lines of code, types.

A budget may be raised only with a line in CHANGELOG.md that says what for. Lines of code are those
with more than a comment; types are structs, classes, enumerations and aliases of any scope.

Usage: room_sizes.py
"""
import re
import subprocess
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
# room: files, lines of code, types
BUDGETS = {
    'tensor': (490, 42700, 1455),
    'autograd': (24, 1900, 45),
    'optim': (76, 5850, 243),
    'nn': (140, 10800, 360),
    'amp': (54, 5840, 112),
    'measure': (70, 5550, 105),
    'cuda': (187, 21050, 475),
    'samples': (115, 6000, 120),
}
COMMENT = re.compile(r'/\*.*?\*/|//[^\n]*', re.DOTALL)
TYPE = re.compile(r'^\s*(?:template <[^{;]*>\s*)?(?:struct|class|enum class) (?:MZ_API )?\w+[^;()]*\{'
                  r'|^\s*using \w+ =', re.MULTILINE)


def size_of(room):
    """Returns the number of files, lines of code and types of a room."""
    listed = subprocess.run(['git', 'ls-files', room], cwd=ROOT, capture_output=True, text=True,
                            check=True).stdout.split()
    files = [ROOT / name for name in listed if re.search(r'\.(h|cpp|cu|inc)$', name)]
    texts = [COMMENT.sub('', path.read_text(encoding='utf-8')) for path in files]
    lines = sum(1 for text in texts for line in text.splitlines() if line.strip())
    return len(files), lines, sum(len(TYPE.findall(text)) for text in texts)


def main():
    print(f'{"room":12}{"files":>14}{"code lines":>18}{"types":>14}')
    totals = [0, 0, 0]
    for room, budget in BUDGETS.items():
        sizes = size_of(room)
        totals = [total + size for total, size in zip(totals, sizes)]
        cells = [f'{size} ({most})' for size, most in zip(sizes, budget)]
        over = any(size > most for size, most in zip(sizes, budget))
        print(f'{room:12}{cells[0]:>14}{cells[1]:>18}{cells[2]:>14}{"  over" if over else ""}')
    print(f'{"all":12}{totals[0]:>14}{totals[1]:>18}{totals[2]:>14}')


main()
