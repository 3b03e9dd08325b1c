"""Recurrent layers, attention."""
import torch
import torch.nn.functional as F

from golden import case, constant, given, mask, real


def attention(q, k, v, bias=None, factor=None):
    scores = q @ k.transpose(-2, -1) * (q.shape[-1] ** -0.5 if factor is None else factor)
    return torch.softmax(scores if bias is None else scores + bias, -1) @ v


def barred(allowed):
    return torch.zeros(allowed.shape, dtype=torch.float64).masked_fill(~allowed, float('-inf'))


# Written out: older versions of PyTorch have no public function, and give nan where nothing may be seen.
QKV = (real(2, 2, 3, 4), real(2, 2, 5, 4), real(2, 2, 5, 3))
case('scaled_dot_product_attention', attention, *QKV)
case('scaled_dot_product_attention/scale', lambda q, k, v: attention(q, k, v, factor=0.3), *QKV)
case('scaled_dot_product_attention/mask', lambda q, k, v, m: attention(q, k, v, barred(m).to(q.dtype)), *QKV,
     given([[True, False, True, True, False], [False, False, False, False, True], [True] * 5]))
case('scaled_dot_product_attention/bias', attention, *QKV, real(2, 1, 3, 5))
case('scaled_dot_product_attention/causal', lambda q, k, v: attention(q, k, v, barred(torch.ones(3, 5, dtype=torch.bool).tril()).to(q.dtype)), *QKV)
