"""The transforms of images that transforms.cpp compares, by torchvision (its functions of tensors,
with antialias=True, its default).

Images are not stored: both languages compute them with drawn() of layers.py.
"""
import torch
from torchvision import transforms as T
from torchvision.transforms import functional as F
from torchvision.utils import make_grid

from layers import drawn


def image(k, shape, as_bytes):
    x = drawn(k, shape)
    return (x * 127 + 128).to(torch.uint8) if as_bytes else x.float()


def affine(angle=0., translate=(0, 0), scale=1., shear=(0., 0.)):
    """The nearest pixel, 2 outside."""
    return lambda x: F.affine(x, angle, list(translate), scale, list(shear), fill=[2.])


CASES = {
    'Resize smaller': (T.Resize(7), [3, 11, 16]),
    'Resize larger': (T.Resize(20), [3, 11, 16]),
    'Resize tall': (T.Resize(5), [1, 23, 9]),
    'Resize both': (T.Resize((6, 21)), [3, 11, 16]),
    'CenterCrop': (T.CenterCrop(6), [3, 11, 16]),
    'CenterCrop odd': (T.CenterCrop((4, 9)), [3, 11, 16]),
    'CenterCrop larger': (T.CenterCrop((14, 7)), [3, 11, 16]),
    # No window fits, so that it is the largest in the middle.
    'RandomResizedCrop wide': (T.RandomResizedCrop((5, 8), scale=(1, 1)), [3, 6, 50]),
    'RandomResizedCrop tall': (T.RandomResizedCrop(9, scale=(1, 1)), [3, 41, 7]),
    'GaussianBlur': (lambda x: F.gaussian_blur(x, [3, 3], [0.7, 0.7]), [3, 11, 16]),
    'GaussianBlur wide': (lambda x: F.gaussian_blur(x, [7, 7], [2.5, 2.5]), [2, 4, 9]),
    'RandomAffine turned': (affine(angle=33), [3, 11, 16]),
    'RandomAffine moved': (affine(translate=[3, -2]), [3, 11, 16]),
    'RandomAffine scaled': (affine(scale=1.7), [3, 11, 16]),
    'RandomAffine sheared': (affine(shear=[21, -14]), [3, 11, 16]),
    'RandomAffine all': (affine(-71, [2, 1], 0.6, [10, 5]), [3, 12, 9]),
    'make_grid': (lambda x: make_grid(x, nrow=3), [5, 3, 4, 6]),
    'make_grid grey': (lambda x: make_grid(x, nrow=2, padding=1, pad_value=3), [4, 1, 3, 5]),
    'make_grid one': (make_grid, [1, 1, 3, 5]),
    'make_grid two dimensions': (make_grid, [3, 5]),
}

# Of floating-point numbers only.
FLOATS = {
    'make_grid normalized': (lambda x: make_grid(x, normalize=True), [3, 1, 4, 5]),
    'make_grid each normalized': (lambda x: make_grid(x, normalize=True, scale_each=True),
                                  [3, 3, 4, 5]),
    'make_grid from a range': (lambda x: make_grid(x, normalize=True, value_range=(-0.5, 0.75)),
                               [3, 3, 4, 5]),
}


def tensors_of_transforms():
    out = {}
    for k, (name, (transform, shape)) in enumerate(CASES.items()):
        out[name] = transform(image(k, shape, False))
        out[name + ':u8'] = transform(image(k, shape, True))
    for k, (name, (transform, shape)) in enumerate(FLOATS.items(), len(CASES)):
        out[name] = transform(image(k, shape, False))
    return out
