"""The layers that layers.cpp compares: `layer(name, module, shapes of the inputs, call)`.

Inputs and parameters are not stored: both languages compute the k-th tensor (inputs first, then
parameters in order) with drawn(). The file stores for each case, all in f64: results "name:y0",
..., gradients of inputs "name:g0", ..., gradients of parameters "name:d.PARAMETER", buffers after
the call "name:b.BUFFER"; and in its metadata the names and shapes of the state_dict.
"""
import torch
from torch import nn

LAYERS = []


def layer(name, module, shapes, call=lambda m, *x: m(*x), train=True):
    assert all(other[0] != name for other in LAYERS), name
    LAYERS.append((name, module, shapes, call, train))


def drawn(k, shape):
    """Returns deterministic numbers between -1 and 1."""
    i = torch.arange(torch.Size(shape).numel(), dtype=torch.int64)
    return (((i * 7919 + (k + 1) * 104729) % 2003).double() / 1001.5 - 1).reshape(shape)


def flat(results):
    """Returns the tensors of nested results without None."""
    if isinstance(results, torch.Tensor):
        return [results]
    return [] if results is None else [y for part in results for y in flat(part)]


def described(module):
    """Returns the same text as keys() of tests/nn/support.h."""
    return ', '.join(f'{name} [{",".join(map(str, value.shape))}]'
                     for name, value in module.state_dict().items())


def tensors_of_layers(incoming):
    tensors, names = {}, {}
    for name, module, shapes, call, train in LAYERS:
        names[name] = described(module)
        module = module.double().train(train)
        inputs = [drawn(k, shape).requires_grad_() for k, shape in enumerate(shapes)]
        for k, (_, p) in enumerate(module.named_parameters()):
            p.data = drawn(len(shapes) + k, p.shape)
        results = flat(call(module, *inputs))
        recorded = [y for y in results if y.requires_grad]
        torch.autograd.backward(recorded, [incoming(y) for y in recorded])
        for k, y in enumerate(results):
            tensors[f'{name}:y{k}'] = y.detach()
        for k, x in enumerate(inputs):
            tensors[f'{name}:g{k}'] = torch.zeros_like(x) if x.grad is None else x.grad
        for key, p in module.named_parameters():
            tensors[f'{name}:d.{key}'] = torch.zeros_like(p).detach() if p.grad is None else p.grad
        for key, b in module.named_buffers():
            tensors[f'{name}:b.{key}'] = b.detach()
    return tensors, names


# ---- recurrent
def packed(lengths, batch_first=False):
    def call(m, x, *states):
        sequence = nn.utils.rnn.pack_padded_sequence(x, lengths, batch_first, enforce_sorted=False)
        output, last = m(sequence, states if len(states) > 1 else states[0] if states else None)
        return [output.data, last]
    return call


def lstm_states(m, x, h, c):
    return m(x, (h, c))


layer('RNN', nn.RNN(3, 4, 2), [(5, 2, 3), (2, 2, 4)])
layer('RNN/relu', nn.RNN(3,
                         4,
                         nonlinearity='relu',
                         bias=False,
                         batch_first=True,
                         bidirectional=True), [(2, 5, 3)])
layer('RNN/unbatched', nn.RNN(3, 4, batch_first=True, bidirectional=True), [(5, 3), (2, 4)])
layer('GRU', nn.GRU(3, 4, 2, bidirectional=True, dropout=.3), [(4, 2, 3), (4, 2, 4)], train=False)
layer('GRU/packed', nn.GRU(3, 4, 2, bidirectional=True), [(4, 3, 3), (4, 3, 4)], packed([2, 4, 1]))
layer('LSTM', nn.LSTM(3, 4, 2), [(5, 2, 3), (2, 2, 4), (2, 2, 4)], lstm_states)
layer('LSTM/projection', nn.LSTM(3, 4, 2, batch_first=True, bidirectional=True, proj_size=2),
      [(2, 4, 3), (4, 2, 2), (4, 2, 4)], lstm_states)
layer('LSTM/unbatched', nn.LSTM(3, 4, bias=False), [(5, 3), (1, 4), (1, 4)], lstm_states)
layer('LSTM/packed', nn.LSTM(3, 4, bidirectional=True, batch_first=True), [(3, 5, 3), (2, 3, 4),
                                                                           (2, 3, 4)],
      packed([3, 5, 5], True))
layer('RNNCell', nn.RNNCell(3, 4), [(2, 3), (2, 4)])
layer('RNNCell/relu', nn.RNNCell(3, 4, bias=False, nonlinearity='relu'), [(2, 3), (2, 4)])
layer('GRUCell', nn.GRUCell(3, 4), [(2, 3), (2, 4)])
layer('GRUCell/unbatched', nn.GRUCell(3, 4), [(3,), (4,)])
layer('LSTMCell', nn.LSTMCell(3, 4), [(2, 3), (2, 4), (2, 4)], lstm_states)

# ---- attention
PADDING = torch.tensor([[False, False, True, False, True], [False, True, False, False, False]])
HIDDEN = torch.tensor([[False, True, False, False, True], [False, False, False, True, True],
                       [True, False, False, False, False]])


def self_attention(m, x, **options):
    return m(x, x, x, **options)


def cross_attention(m, x, y, **options):
    return m(x, y, y, **options)


layer('MultiheadAttention', nn.MultiheadAttention(8, 2), [(4, 2, 8)], self_attention)
layer('MultiheadAttention/no weights', nn.MultiheadAttention(8, 2, bias=False, batch_first=True),
      [(2, 4, 8)], lambda m, x: self_attention(m, x, need_weights=False))
layer('MultiheadAttention/cross',
      nn.MultiheadAttention(8, 4, dropout=.5), [(3, 2, 8), (5, 2, 8)],
      lambda m, x, y: cross_attention(
          m, x, y, key_padding_mask=PADDING, attn_mask=HIDDEN, average_attn_weights=False),
      train=False)
layer('MultiheadAttention/kdim', nn.MultiheadAttention(8, 2, kdim=3, vdim=5), [(3, 2, 8), (5, 2, 3),
                                                                               (5, 2, 5)],
      lambda m, q, k, v: m(q, k, v, key_padding_mask=PADDING, need_weights=False))
layer('MultiheadAttention/extra keys',
      nn.MultiheadAttention(8, 2, add_bias_kv=True, add_zero_attn=True,
                            batch_first=True), [(2, 3, 8), (2, 5, 8)],
      lambda m, x, y: cross_attention(m, x, y, key_padding_mask=PADDING, attn_mask=HIDDEN))
layer(
    'MultiheadAttention/added mask', nn.MultiheadAttention(8, 2), [(3, 2, 8), (5, 2, 8), (5, 2, 8),
                                                                   (4, 3, 5)], lambda m, q, k, v,
    mask: m(q, k, v, attn_mask=mask, key_padding_mask=PADDING, need_weights=False))
layer('MultiheadAttention/unbatched', nn.MultiheadAttention(8, 2, add_bias_kv=True), [(3, 8),
                                                                                      (5, 8)],
      lambda m, x, y: cross_attention(m, x, y, attn_mask=HIDDEN, average_attn_weights=False))

# ---- transformer
TRIANGLE = nn.Transformer.generate_square_subsequent_mask(3).double()
layer('TransformerEncoderLayer', nn.TransformerEncoderLayer(8, 2, 6, 0.), [(4, 2, 8)])
layer('TransformerEncoderLayer/norm first',
      nn.TransformerEncoderLayer(8, 2, 6, .2, 'gelu', 1e-3, True, True), [(2, 5, 8)],
      lambda m, x: m(x, src_key_padding_mask=PADDING),
      train=False)
layer(
    'TransformerDecoderLayer',
    nn.TransformerDecoderLayer(8, 2, 6, .2, 'gelu'), [(3, 2, 8), (5, 2, 8)],
    lambda m, x, y: m(x, y, tgt_mask=TRIANGLE, memory_mask=HIDDEN, memory_key_padding_mask=PADDING),
    train=False)
layer('TransformerDecoderLayer/norm first',
      nn.TransformerDecoderLayer(8, 2, 6, 0., batch_first=True, norm_first=True), [(2, 3, 8),
                                                                                   (2, 5, 8)])
layer('TransformerEncoder',
      nn.TransformerEncoder(nn.TransformerEncoderLayer(8, 2, 6, 0.), 2, nn.LayerNorm(8)),
      [(3, 2, 8)], lambda m, x: m(x, mask=TRIANGLE))
layer('TransformerDecoder', nn.TransformerDecoder(nn.TransformerDecoderLayer(8, 2, 6, 0.), 2),
      [(3, 2, 8), (4, 2, 8)])
layer('Transformer', nn.Transformer(8, 2, 1, 1, 6, 0.), [(4, 2, 8), (3, 2, 8)],
      lambda m, x, y: m(x, y, tgt_mask=TRIANGLE))


# ---- norms
def then_eval(m, x):
    m(x)
    return m.eval()(x * 2)


for dims, shape in (1, (4, 3, 5)), (2, (3, 3, 2, 4)), (3, (2, 3, 2, 2, 3)):
    batch, instance = getattr(nn, f'BatchNorm{dims}d'), getattr(nn, f'InstanceNorm{dims}d')
    layer(f'BatchNorm{dims}d', batch(3), [shape])
    layer(f'BatchNorm{dims}d/eval', batch(3), [shape], then_eval)
    layer(f'InstanceNorm{dims}d', instance(3), [shape])
    layer(f'InstanceNorm{dims}d/affine', instance(3, affine=True, track_running_stats=True),
          [shape])
    layer(f'InstanceNorm{dims}d/eval', instance(3, affine=True, track_running_stats=True), [shape],
          then_eval)
    layer(f'InstanceNorm{dims}d/unbatched', instance(3, affine=True), [shape[1:]])
layer('BatchNorm1d/plain', nn.BatchNorm1d(3, 1e-3, .2, False, False), [(6, 3)])
layer('BatchNorm2d/averaged', nn.BatchNorm2d(3, momentum=None), [(2, 3, 2, 2)], then_eval)
layer('LayerNorm', nn.LayerNorm([3, 4]), [(2, 3, 4)])
layer('GroupNorm', nn.GroupNorm(2, 4), [(2, 4, 3)])
layer('LocalResponseNorm', nn.LocalResponseNorm(3, .1, .7, 2.), [(2, 5, 3)])

# ---- the others
layer('Bilinear', nn.Bilinear(3, 4, 2), [(2, 5, 3), (2, 5, 4)])
layer('PReLU', nn.PReLU(), [(2, 3)])
layer('PReLU/channels', nn.PReLU(3), [(2, 3, 4)])
layer('RReLU/eval', nn.RReLU(.1, .4), [(2, 3, 4)], train=False)
layer('Softmax2d', nn.Softmax2d(), [(2, 3, 2, 2)])
layer('Threshold', nn.Threshold(.2, 3.), [(3, 5)])
layer('PixelShuffle', nn.PixelShuffle(2), [(2, 4, 2, 3)])
layer('PixelUnshuffle', nn.PixelUnshuffle(2), [(2, 1, 4, 6)])
layer('ChannelShuffle', nn.Identity(), [(2, 6, 2)],
      lambda m, x: x.reshape(2, 2, 3, 2).transpose(1, 2).reshape(2, 6, 2))
layer('Upsample', nn.Upsample(scale_factor=2.), [(1, 2, 3)])
layer('UpsamplingNearest2d', nn.UpsamplingNearest2d((3, 5)), [(1, 2, 2, 3)])
layer('UpsamplingBilinear2d', nn.UpsamplingBilinear2d(scale_factor=2), [(1, 2, 2, 3)])
layer('Unfold', nn.Unfold(2, padding=1), [(1, 2, 3, 4)])
layer('Fold', nn.Fold((3, 4), 2), [(1, 8, 6)])
for dims, shape, sides in (1, (2, 3, 4), (1, 2)), (2, (2, 3, 4, 5),
                                                   (1, 2, 0, 1)), (3, (1, 2, 3, 4, 5), (1, 2, 0, 1,
                                                                                        2, 1)):
    for kind in 'Reflection', 'Replication':
        layer(f'{kind}Pad{dims}d', getattr(nn, f'{kind}Pad{dims}d')(sides), [shape])
    layer(f'ConstantPad{dims}d', getattr(nn, f'ConstantPad{dims}d')(sides, .5), [shape])
layer('CircularPad1d', nn.Identity(), [(2, 3, 4)],
      lambda m, x: nn.functional.pad(x, (1, 2), 'circular'))
layer('CircularPad2d', nn.Identity(), [(2, 3, 4, 5)],
      lambda m, x: nn.functional.pad(x, (1, 1, 1, 1), 'circular'))
layer('ZeroPad2d', nn.ZeroPad2d((1, 2, 0, -1)), [(2, 3, 4, 5)])
layer('CosineSimilarity', nn.CosineSimilarity(1), [(3, 4), (3, 4)])
layer('PairwiseDistance', nn.PairwiseDistance(3., keepdim=True), [(3, 4), (3, 4)])
layer('LPPool1d', nn.LPPool1d(2, 2), [(2, 3, 6)])
layer('LPPool2d', nn.LPPool2d(2, (2, 3), stride=1), [(2, 1, 4, 5)])
layer('MaxUnpool2d', nn.MaxUnpool2d(2), [(1, 2, 4, 4)],
      lambda m, x: m(*nn.functional.max_pool2d(x, 2, return_indices=True)))

# ---- losses
SIGNS = torch.tensor([1, -1, -1, 1])
CLASSES = torch.tensor([2, 0, 1, 2])
layer(
    'CTCLoss', nn.CTCLoss(blank=3), [(5, 2, 4)],
    lambda m, x: m(x.log_softmax(2), torch.tensor([[2, 0], [0, 1]]), torch.tensor([5, 4]),
                   torch.tensor([2, 1])))
layer('CosineEmbeddingLoss', nn.CosineEmbeddingLoss(.1), [(4, 3), (4, 3)],
      lambda m, a, b: m(a, b, SIGNS))
layer('GaussianNLLLoss', nn.GaussianNLLLoss(full=True), [(4, 3), (4, 3), (4, 1)],
      lambda m, x, t, v: m(x, t,
                           v.abs() + .1))
layer('GaussianNLLLoss/clamped', nn.GaussianNLLLoss(eps=.6, reduction='none'), [(4, 3), (4, 3),
                                                                                (4, 3)],
      lambda m, x, t, v: m(x, t, v.abs()))
layer('HingeEmbeddingLoss', nn.HingeEmbeddingLoss(.5), [(4, 3)],
      lambda m, x: m(x, SIGNS[:, None].expand(4, 3)))
layer('MarginRankingLoss', nn.MarginRankingLoss(.2, reduction='sum'), [(4, ), (4, )],
      lambda m, a, b: m(a, b, SIGNS))
layer('MultiLabelMarginLoss', nn.MultiLabelMarginLoss(), [(2, 4)],
      lambda m, x: m(x, torch.tensor([[3, 0, -1, 1], [1, -1, 0, 0]])))
layer('MultiLabelSoftMarginLoss', nn.MultiLabelSoftMarginLoss(), [(4, 3), (4, 3)],
      lambda m, x, t: m(x, (t > 0).double()))
layer('MultiMarginLoss', nn.MultiMarginLoss(p=2, margin=.7), [(4, 3)], lambda m, x: m(x, CLASSES))
layer('PoissonNLLLoss', nn.PoissonNLLLoss(full=True, reduction='none'), [(4, 3), (4, 3)],
      lambda m, x, t: m(x, 3 * t.detach().abs()))
layer('SoftMarginLoss', nn.SoftMarginLoss(), [(4,)], lambda m, x: m(x, SIGNS))
layer('TripletMarginLoss', nn.TripletMarginLoss(.8, swap=True), [(4, 3), (4, 3), (4, 3)])
