"""The helpers of the case lists: `case(name, call, operand...)` and the kinds of operands."""
import inspect
import zlib
from dataclasses import dataclass
from pathlib import Path
from typing import Callable

import torch

CASES = []


@dataclass
class Spec:
    """How to draw the values of an operand: draw(generator) -> tensor."""
    draw: Callable
    gradient: bool = False


@dataclass
class Case:
    family: str  # the file it is stored in
    name: str    # "op" or "op/variant"; op is the registered name
    call: Callable
    specs: tuple


def case(name, call, *specs):
    """Adds a case to the file of the module that calls this."""
    assert all(other.name != name for other in CASES), name
    CASES.append(Case(Path(inspect.stack()[1].filename).stem[len('cases_'):], name, call, specs))


def operands_of(one):
    """Draws a case's operands with a seed from its name, so that new cases do not change others."""
    generator = torch.Generator().manual_seed(zlib.crc32(one.name.encode()))
    return [spec.draw(generator) for spec in one.specs]


def uniform(generator, shape, low, high):
    return low + (high - low) * torch.rand(shape, generator=generator)


def real(*shape, low=-2.0, high=2.0):
    """Uniform values with a gradient."""
    return Spec(lambda generator: uniform(generator, shape, low, high), True)


def positive(*shape):
    return real(*shape, low=0.1, high=3.0)


def constant(*shape, low=-2.0, high=2.0):
    """Uniform values without a gradient: class weights, running statistics."""
    return Spec(lambda generator: uniform(generator, shape, low, high))


def distinct(*shape):
    """Well-separated values, for ops that order them."""
    def draw(generator):
        n = max(1, torch.Size(shape).numel())
        places = torch.randperm(n, generator=generator).float()
        return ((places + 0.25 + 0.5 * torch.rand(n, generator=generator)) * (4 / n) -
                2)[:torch.Size(shape).numel()].reshape(shape)
    return Spec(draw, True)


def whole(*shape, low=0, high=9):
    """Integers in [low, high]."""
    return Spec(lambda generator: torch.randint(low, high + 1, shape, generator=generator))


def mask(*shape):
    return Spec(lambda generator: torch.rand(shape, generator=generator) < 0.5)


def given(values, gradient=False):
    """The given values."""
    return Spec(lambda generator: torch.tensor(values), gradient)
