"""The golden cases of ops: operands and expressions, which stand in tests/ops/rows.

The program of the golden tests lists them. Expressions may use what this file defines and imports,
and x0, x1, ..., the operands; without an operand they are functions of all operands.
"""
import re
import subprocess
import zlib
from dataclasses import dataclass
from typing import Callable

import torch
import torch.nn.functional as F

linalg = torch.linalg
INF, NAN = float('inf'), float('nan')
EDGES = [0.0, -0.0, 1.0, -1.0, INF, -INF, NAN, 1e-30, -80.0, 80.0]


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


def cases_of(program):
    """Returns the cases that the program lists."""
    listed = subprocess.run([program, '[.list]'], capture_output=True, text=True, check=True).stdout
    rows = [line.split('\t') for line in listed.splitlines() if line.count('\t') == 3]
    cases = []
    for family, name, operands, expression in rows:
        specs = eval(f'({operands},)')
        is_function = not re.search(r'\bx\d+\b', expression)
        names = ', '.join(f'x{k}' for k in range(len(specs)))
        call = eval(expression if is_function else f'lambda {names}: {expression}')
        cases.append(Case(family, name, call, specs))
    assert len({one.name for one in cases}) == len(cases), 'names are unique'
    return cases


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


# ---- matrices -----------------------------------------------------------------------------------

def regular(*shape):
    """Well-conditioned matrices with separate singular values, and a gradient."""
    def draw(generator):
        m, n = shape[-2:]
        diagonal = torch.eye(m, n) * (torch.arange(n) + 3.)
        return uniform(generator, shape, -2., 2.) / max(m, n) + diagonal
    return Spec(draw, True)


def definite(*shape):
    """Symmetric positive definite matrices with separate eigenvalues, and a gradient."""
    def draw(generator):
        x = regular(*shape).draw(generator)
        return x + x.mT
    return Spec(draw, True)


# Singular vectors and eigenvectors have arbitrary signs, so results hold their squares, and
# products in which the signs cancel.

def eigenvectors(x, uplo='L'):
    values, vectors = linalg.eigh(x, UPLO=uplo)
    return values, vectors * vectors, (vectors * torch.exp(-values).unsqueeze(-2)) @ vectors.mT


def singular_vectors(x, full):
    u, s, vh = linalg.svd(x, full_matrices=full)
    k = s.shape[-1]
    u, vh = u[..., :k], vh[..., :k, :]
    return s, u * u, vh * vh, u @ vh


# ---- norms, attention, recurrent layers ---------------------------------------------------------

def training(norm):
    """Returns a call of a norm whose results include the running statistics that it updates."""
    def call(x, mean, var, *affine):
        mean, var = mean.clone(), var.clone()
        return norm(x, mean, var, *affine), mean, var
    return call


def attention(q, k, v, bias=None, factor=None):
    """Written out: older versions of PyTorch have no public function and give nan for fully masked
    rows."""
    scores = q @ k.transpose(-2, -1) * (q.shape[-1] ** -0.5 if factor is None else factor)
    return torch.softmax(scores if bias is None else scores + bias, -1) @ v


def barred(allowed):
    return torch.zeros(allowed.shape, dtype=torch.float64).masked_fill(~allowed, float('-inf'))


def layer(name, weights, hidden, inputs=3, projection=0):
    """Returns specs of the weights of one layer and direction: G blocks of rows."""
    blocks = {'rnn': 1, 'gru': 3, 'lstm': 4}[name]
    specs = [
        real(blocks * hidden, inputs, low=-.7, high=.7),
        real(blocks * hidden, projection or hidden, low=-.7, high=.7)
    ]
    specs += [real(blocks * hidden), real(blocks * hidden)] if weights >= 4 else []
    return specs + ([real(projection, hidden, low=-.7, high=.7)] if projection else [])
