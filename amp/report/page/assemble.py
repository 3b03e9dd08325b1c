"""Joins the parts of the report's page into one template, in which @DATA@ is left.

Usage: assemble.py PAGE_DIR OUT
"""
import sys
from pathlib import Path


def read(path):
    return path.read_text(encoding='utf-8')


def assemble(folder):
    """Returns the text of page.html with the style and the scripts of order.txt."""
    names = read(folder / 'order.txt').split()
    script = '\n'.join(read(folder / name) for name in names)
    page = read(folder / 'page.html')
    for mark in ('@STYLE@', '@SCRIPT@', '@DATA@'):
        if page.count(mark) != 1:
            sys.exit(f'assemble.py: page.html must hold {mark} once; got {page.count(mark)}')
    if '</script' in script or '@DATA@' in script:
        sys.exit('assemble.py: a script holds </script or @DATA@, which would end or change it')
    page = page.replace('@STYLE@', read(folder / 'page.css').strip())
    return page.replace('@SCRIPT@', f"(() => {{\n'use strict';\n{script}}})();")


if __name__ == '__main__':
    Path(sys.argv[2]).write_text(assemble(Path(sys.argv[1])), encoding='utf-8')
