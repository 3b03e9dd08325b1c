"""Writes the C++ source that returns the page of a report and its style.

Usage: embed_page.py PAGE_DIR OUT.cpp
"""
import sys
from pathlib import Path

sys.path.insert(0, sys.argv[1])
sys.dont_write_bytecode = True
from assemble import assemble, style  # noqa: E402 (the folder is an argument)

PIECE = 8000  # compilers limit the length of a literal
MARK = 'mezzo_page'


def function(name, text):
    if f'){MARK}"' in text:
        sys.exit(f'embed_page.py: {name} holds ){MARK}", which ends the literal')
    pieces = [text[i:i + PIECE] for i in range(0, len(text), PIECE)]
    literals = '\n'.join(f'  out += R"{MARK}({piece}){MARK}";' for piece in pieces)
    return f'''std::string {name}() {{
  std::string out;
{literals}
  return out;
}}
'''


if __name__ == '__main__':
    folder, out = Path(sys.argv[1]), Path(sys.argv[2])
    out.write_text(f'''// Made by embed_page.py.
#include <string>

namespace mezzo::amp::report {{

{function('page_template', assemble(folder))}
{function('page_style', style(folder))}
}}  // namespace mezzo::amp::report
''', encoding='utf-8')
