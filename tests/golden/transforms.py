"""The transforms of images that transforms.cpp compares, by torchvision (its functions of tensors,
with antialias=True, its default).

Images are not stored: both languages compute them with drawn() of layers.py.
"""
import torch
from torchvision import transforms as T

from layers import drawn


def image(k, shape, as_bytes):
    x = drawn(k, shape)
    return (x * 127 + 128).to(torch.uint8) if as_bytes else x.float()


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
}


def tensors_of_transforms():
    out = {}
    for k, (name, (transform, shape)) in enumerate(CASES.items()):
        out[name] = transform(image(k, shape, False))
        out[name + ':u8'] = transform(image(k, shape, True))
    return out
