"""Writes the C++ source that returns the page of a report.

Usage: embed_page.py PAGE_DIR OUT.cpp
"""
import sys
from pathlib import Path

sys.path.insert(0, sys.argv[1])
sys.dont_write_bytecode = True
from assemble import assemble  # noqa: E402 (the folder is an argument)

PIECE = 8000  # compilers limit the length of a literal
MARK = 'mezzo_page'


def source(page):
    pieces = [page[i:i + PIECE] for i in range(0, len(page), PIECE)]
    literals = '\n'.join(f'  out += R"{MARK}({piece}){MARK}";' for piece in pieces)
    return f'''// Made by embed_page.py.
#include <string>

namespace mezzo::amp::report {{

std::string page_template() {{
  std::string out;
{literals}
  return out;
}}

}}  // namespace mezzo::amp::report
'''


if __name__ == '__main__':
    page = assemble(Path(sys.argv[1]))
    if f'){MARK}"' in page:
        sys.exit(f'embed_page.py: the page holds ){MARK}", which ends the literal')
    Path(sys.argv[2]).write_text(source(page), encoding='utf-8')
