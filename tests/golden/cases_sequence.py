"""Recurrent layers, attention."""
import torch
import torch.nn.functional as F

from golden import case, constant, given, mask, real


def attention(q, k, v, bias=None, factor=None):
    scores = q @ k.transpose(-2, -1) * (q.shape[-1] ** -0.5 if factor is None else factor)
    return torch.softmax(scores if bias is None else scores + bias, -1) @ v


def barred(allowed):
    return torch.zeros(allowed.shape, dtype=torch.float64).masked_fill(~allowed, float('-inf'))


# Written out: older versions of PyTorch have no public function and give nan for fully masked rows.
QKV = (real(2, 2, 3, 4), real(2, 2, 5, 4), real(2, 2, 5, 3))
case('scaled_dot_product_attention', attention, *QKV)
case('scaled_dot_product_attention/scale', lambda q, k, v: attention(q, k, v, factor=0.3), *QKV)
case('scaled_dot_product_attention/mask',
     lambda q, k, v, m: attention(q, k, v,
                                  barred(m).to(q.dtype)), *QKV,
     given([[True, False, True, True, False], [False, False, False, False, True], [True] * 5]))
case('scaled_dot_product_attention/bias', attention, *QKV, real(2, 1, 3, 5))
case(
    'scaled_dot_product_attention/causal',
    lambda q, k, v: attention(q, k, v,
                              barred(torch.ones(3, 5, dtype=torch.bool).tril()).to(q.dtype)), *QKV)


def layer(name, weights, hidden, inputs=3, projection=0):
    """Returns specs of the weights of one layer and direction: G blocks of rows."""
    blocks = {'rnn': 1, 'gru': 3, 'lstm': 4}[name]
    specs = [
        real(blocks * hidden, inputs, low=-.7, high=.7),
        real(blocks * hidden, projection or hidden, low=-.7, high=.7)
    ]
    specs += [real(blocks * hidden), real(blocks * hidden)] if weights >= 4 else []
    return specs + ([real(projection, hidden, low=-.7, high=.7)] if projection else [])


# Operands: x, states, weights. PyTorch's modules call these functions of torch._VF.
for name in ('rnn_tanh', 'rnn_relu', 'gru'):
    kind = name.split('_')[0]
    cell, whole_layer = getattr(torch, name + '_cell'), getattr(torch._VF, name)
    case(f'{name}_cell', cell, real(2, 3), real(2, 4), *layer(kind, 4, 4))
    case(f'{name}_cell/without bias', cell, real(2, 3), real(2, 4), *layer(kind, 2, 4))
    case(name,
         lambda x, h, *w, f=whole_layer: f(x, h, w, True, 1, 0., False, False, False),
         real(3, 2, 3),
         real(1, 2, 4),
         *layer(kind, 4, 4))
    case(f'{name}/two layers, both directions',
         lambda x, h, *w, f=whole_layer: f(x, h, w, True, 2, 0., False, True, True),
         real(2, 3, 3),
         real(4, 2, 2),
         *layer(kind, 4, 2),
         *layer(kind, 4, 2),
         *layer(kind, 4, 2, 4),
         *layer(kind, 4, 2, 4))
case('lstm_cell', lambda x, h, c, *w: torch.lstm_cell(x, (h, c), *w), real(2, 3), real(2, 4),
     real(2, 4), *layer('lstm', 4, 4))
case('lstm', lambda x, h, c, *w: torch._VF.lstm(x, (h, c), w, True, 1, 0., False, False, False),
     real(3, 2, 3), real(1, 2, 4), real(1, 2, 4), *layer('lstm', 4, 4))
case('lstm/two layers, both directions',
     lambda x, h, c, *w: torch._VF.lstm(x,
                                        (h, c), w, True, 2, 0., False, True, True), real(2, 3, 3),
     real(4, 2, 2), real(4, 2, 2), *layer('lstm', 4, 2), *layer('lstm', 4, 2),
     *layer('lstm', 4, 2, 4), *layer('lstm', 4, 2, 4))
case('lstm/projection',
     lambda x, h, c, *w: torch._VF.lstm(x, (h, c), w, True, 1, 0., False, False, False),
     real(3, 2, 3), real(1, 2, 2), real(1, 2, 4), *layer('lstm', 4, 4, 3, 2))
