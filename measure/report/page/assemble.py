"""Joins the parts of the report's page into one template, in which @DATA@ is left.

Usage: assemble.py PAGE_DIR OUT

Comments that stand on lines of their own and indentation are left out.
"""
import re
import sys
from pathlib import Path

COMMENT = re.compile(r'^\s*(?://[^\n]*|/\*(?:(?!\*/).)*\*/)\n', re.MULTILINE | re.DOTALL)
INDENT = re.compile(r'^ +', re.MULTILINE)


def read(path):
    return path.read_text(encoding='utf-8')


def bare(path):
    """Returns the text of a script or style without comments and indentation."""
    return INDENT.sub('', COMMENT.sub('', read(path))).strip()


def style(folder):
    return bare(folder / 'page.css')


def assemble(folder):
    """Returns the text of page.html with the style and the scripts of order.txt."""
    script = '\n'.join(bare(folder / name) for name in read(folder / 'order.txt').split())
    page = read(folder / 'page.html')
    for mark in ('@STYLE@', '@SCRIPT@', '@DATA@'):
        if page.count(mark) != 1:
            sys.exit(f'assemble.py: page.html must hold {mark} once; got {page.count(mark)}')
    if '</script' in script or '@DATA@' in script:
        sys.exit('assemble.py: a script holds </script or @DATA@, which would end or change it')
    page = page.replace('@STYLE@', style(folder))
    return page.replace('@SCRIPT@', f"(() => {{\n'use strict';\n{script}\n}})();")


if __name__ == '__main__':
    Path(sys.argv[2]).write_text(assemble(Path(sys.argv[1])), encoding='utf-8')
