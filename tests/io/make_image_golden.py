"""Writes golden_images.h: small image files made by Pillow, and its pixels of the JPEG ones.

Usage: make_image_golden.py   (in tests/io, with Pillow)
"""
import io
from pathlib import Path

import PIL
from PIL import Image

from byte_arrays import text_of_arrays


def file(image, kind, **options):
    out = io.BytesIO()
    image.save(out, kind, **options)
    return out.getvalue()


def planes(image):
    """The pixels as [3,H,W]."""
    pixels = image.convert('RGB').tobytes()
    return b''.join(pixels[channel::3] for channel in range(3))


rgb = Image.frombytes('RGB', (3, 2), bytes(range(0, 180, 10)))
smooth = Image.frombytes('RGB', (16, 8), bytes((3 * (i // 3) + 40 * (i % 3)) % 256
                                               for i in range(384)))
jpeg = file(smooth, 'JPEG', quality=90)
grey_jpeg = file(smooth.convert('L'), 'JPEG')
cmyk_jpeg = file(smooth.convert('CMYK'), 'JPEG', quality=95)
FILES = {
    'Png': file(rgb, 'PNG'),
    'PngGrey': file(Image.frombytes('L', (3, 2), bytes(range(0, 60, 10))), 'PNG'),
    'PngAlpha': file(Image.frombytes('RGBA', (1, 2), bytes([1, 2, 3, 0, 4, 5, 6, 255])), 'PNG'),
    'PngPalette': file(rgb.convert('P', palette=Image.Palette.ADAPTIVE), 'PNG'),
    'Jpeg': jpeg,
    'JpegPlanes': planes(Image.open(io.BytesIO(jpeg))),
    'JpegGrey': grey_jpeg,
    'JpegGreyPlanes': planes(Image.open(io.BytesIO(grey_jpeg))),
    'JpegCmyk': cmyk_jpeg,
    'JpegCmykPlanes': planes(Image.open(io.BytesIO(cmyk_jpeg))),
    'JpegProgressive': file(smooth, 'JPEG', quality=90, progressive=True),
}

origin = f'files made by make_image_golden.py with Pillow {PIL.__version__}'
arrays = {f'k{name}': content for name, content in FILES.items()}
Path('golden_images.h').write_text(text_of_arrays(origin, arrays), encoding='utf-8')
