"""Writes golden_npy.h: files made by NumPy, for tests of its formats.

Usage: make_npy_golden.py   (in tests/io, with NumPy 2)
"""
import io
from pathlib import Path

import numpy

from byte_arrays import text_of_arrays


def array(value, **options):
    file = io.BytesIO()
    numpy.save(file, value, **options)
    return file.getvalue()


def archive(save):
    file = io.BytesIO()
    save(file, first=numpy.arange(6, dtype='<f4').reshape(2, 3), second=numpy.arange(600) % 7)
    return file.getvalue()


FILES = {
    'F32': array(numpy.array([[1.5, -2, 3], [4, 5, 1e-3]], '<f4')),
    'I64Fortran': array(numpy.asfortranarray(numpy.arange(24).reshape(2, 3, 4))),
    'Bool': array(numpy.array([True, False, True])),
    'Half': array(numpy.array(1.5, '<f2')),
    'Short': array(numpy.array([-300, 7], '<i2')),
    'Byte': array(numpy.array([-3, 7], 'i1')),
    'U8': array(numpy.array([[], []], 'u1')),
    'BigEndian': array(numpy.array([1.0], '>f4')),
    'Npz': archive(numpy.savez),
    'NpzCompressed': archive(numpy.savez_compressed),
}

origin = f'files made by make_npy_golden.py with NumPy {numpy.__version__}'
arrays = {f'kNumpy{name}': content for name, content in FILES.items()}
Path('golden_npy.h').write_text(text_of_arrays(origin, arrays), encoding='utf-8')
