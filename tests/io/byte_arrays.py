"""Writes the bytes of files as arrays of a C++ header."""


def text_of_arrays(origin, arrays):
    """Returns a header with arrays by name, which says where the bytes are from."""
    lines = [f'// The bytes of {origin}.', '#pragma once', '', '// clang-format off']
    for name, content in arrays.items():
        lines.append(f'inline constexpr unsigned char {name}[] = {{')
        for at in range(0, len(content), 19):
            lines.append('  ' + ''.join(f'0x{b:02x},' for b in content[at:at + 19]))
        lines.append('};')
    return '\n'.join([*lines, '// clang-format on', ''])
