"""Checks what Mezzo's levels are in PyTorch: dtypes of parameters, masters, norms and products.

Needs a python3 with torch; torch_peer.py runs it.
"""
import sys

from check import ROOT, Expectations

sys.path.insert(0, str(ROOT / 'samples'))
import torch  # noqa: E402

import torch_levels  # noqa: E402
import torch_nets  # noqa: E402

expect = Expectations()
ADAM = {'optimizer': 'adam', 'lr': '1e-3'}


def lenet(level, facts=ADAM):
    """Returns a small net at the level, and the dtype of its first convolution's output."""
    torch.manual_seed(1)
    net = torch_nets.LeNet({'conv1.weight': (4, 1, 5, 5)}, {})
    for norm in (net.bn1, net.bn2):
        torch.nn.init.uniform_(norm.weight)  # values that bf16 would round
    levelled = torch_levels.Levelled(net, torch_levels.optimizer_of(facts), level, 'cpu')
    seen = []
    net.conv1.register_forward_hook(lambda module, inputs, output: seen.append(output.dtype))
    return levelled, seen


def step(levelled, max_norm=0):
    torch.manual_seed(2)
    x, classes = torch.randn(8, 1, 28, 28), torch.randint(10, (8,))
    loss = torch.nn.functional.cross_entropy(levelled(x), classes)
    levelled.zero_grad()
    levelled.backward(loss)
    levelled.step(max_norm)
    return loss.item()


def dtypes(tensors):
    return {t.dtype for t in tensors if t.is_floating_point()}


def f32_and_autocast():
    for level, low in (('O0', torch.float32), ('O4', torch.bfloat16)):
        levelled, seen = lenet(level)
        step(levelled)
        expect(dtypes(levelled.net.state_dict().values()) == {torch.float32}, f'{level}: weights')
        expect(seen == [low], f'{level}: output of a convolution', seen)
        expect(not levelled.masters, f'{level}: masters', levelled.masters)


def bf16_model():
    levelled, seen = lenet('O5')
    net, bf16, f32 = levelled.net, torch.bfloat16, torch.float32
    norms = [*net.bn1.state_dict().values(), *net.bn2.state_dict().values()]
    others = [net.conv1.weight, net.conv2.weight, *net.fc1.parameters(), *net.fc2.parameters()]
    torch.manual_seed(1)
    first = torch_nets.LeNet({'conv1.weight': (4, 1, 5, 5)}, {}).conv1.weight
    expect(torch.equal(levelled.masters[0][1], first), 'O5: masters have the f32 values')
    before = net.bn1.weight.detach().clone()
    expect(not torch.equal(before, before.bfloat16().float()), 'O5: batch norms are not rounded')
    for max_norm in (0, 1):
        step(levelled, max_norm)
    expect(dtypes(norms) == {f32}, 'O5: batch norms', dtypes(norms))
    expect(dtypes(others) == {bf16} and seen == [bf16, bf16], 'O5: weights, products', seen)
    expect(dtypes(levelled.stepped) == {f32}, 'O5: what the optimizer steps')
    expect(len(levelled.masters) == len(others), 'O5: one master per 16-bit weight')
    expect(all(torch.equal(p, master.bfloat16()) for p, master in levelled.masters),
           'O5: weights are the rounded masters')
    expect(not torch.equal(before, net.bn1.weight), 'O5: batch norms are stepped')
    states = [value for state in levelled.optimizer.state.values() for value in state.values()
              if torch.is_tensor(value)]
    expect(len(states) > 0 and dtypes(states) <= {f32}, 'O5: states of the optimizer')


def forms_of_optimizers():
    """The first form that PyTorch has is chosen, and all give the same step."""
    for facts in (ADAM, {**ADAM, 'optimizer': 'adamw', 'weight_decay': '0.1'},
                  {'optimizer': 'sgd', 'lr': '0.1', 'momentum': '0.9', 'weight_decay': '1e-4'}):
        name = facts['optimizer']
        kind = {'adam': torch.optim.Adam, 'adamw': torch.optim.AdamW, 'sgd': torch.optim.SGD}[name]
        p = torch.nn.Parameter(torch.ones(3))
        has = torch_levels.steps_with(kind, [p], {'lr': 0.1, 'fused': True})
        levelled, _ = lenet('O0', facts)
        expect(levelled.form == ('fused' if has else 'foreach'), f'{name}: form', levelled.form)
        other, _ = lenet('O0', facts)
        other.optimizer = kind(other.stepped, **{
            key: value for key, value in levelled.optimizer.defaults.items()
            if key in ('lr', 'betas', 'weight_decay', 'momentum')})
        for _ in range(2):
            step(levelled)
            step(other)
        near = all(torch.allclose(a, b, rtol=1e-5, atol=1e-7) for a, b in
                   zip(levelled.stepped, other.stepped))
        expect(near, f'{name}: the {levelled.form} form steps as the default one')
    lost = torch_levels.steps_with(torch.optim.SGD, [p], {'lr': 0.1, 'no_such_option': True})
    expect(not lost, 'an unknown option')


def f16_runs_or_raises():
    """Autocast that has no effect, or a scale that PyTorch lacks, is an error."""
    for level in ('O1', 'O2', 'O3'):
        try:
            levelled, seen = lenet(level)
            loss = step(levelled)
        except RuntimeError as error:
            expect(str(error), f'{level}: a reason')
            continue
        expect(seen == [torch.float16] and loss == loss, f'{level}: ran in f16', seen)
        expect(levelled.scaler.is_enabled() == (level != 'O3'), f'{level}: scale')


def state_of_lstm():
    """The state is carried for four batches, in the method that can be compiled, too."""
    shapes = {'embedding.weight': (9, 4), 'lstm.weight_ih_l0': (16, 4)}
    net = torch_nets.CharLstm(shapes, {})
    x = torch.randint(9, (3, 2))
    outputs = [net(x) for _ in range(5)]
    expect(not torch.equal(outputs[0], outputs[1]), 'the state is carried')
    expect(torch.equal(outputs[0], outputs[4]), 'the state is reset after four batches')
    expect(torch.equal(net.read(x, None)[0], outputs[0]), 'read() from the start')


for check in (f32_and_autocast, bf16_model, forms_of_optimizers, f16_runs_or_raises, state_of_lstm):
    check()
expect.verdict()
