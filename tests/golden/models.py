"""The models that models.cpp compares with those of torchvision and of Hugging Face's transformers.

Inputs and weights are not stored: both languages compute them with filled(). The file has the
results in evaluation mode, in f64, one tensor per model, and in its metadata the names and shapes
of the state_dict. Of large models it has only names and shapes, and the results of a small one.
"""
import torch
import torchvision
from transformers import GPT2Config, GPT2LMHeadModel

from layers import described, drawn

RESNETS = ('resnet18', 'resnet34', 'resnet50')
LARGE = {
    'vit_b_16': torchvision.models.vit_b_16,
    'gpt2': lambda: GPT2LMHeadModel(GPT2Config())
}
PIXELS = 40


def images():
    return drawn(0, [2, 3, PIXELS, PIXELS])


def tokens(vocabulary):
    return (torch.arange(2 * 9, dtype=torch.int64) * 7 % vocabulary).reshape(2, 9)


def vit_small():
    """A vision transformer of 2 blocks of width 64, on 25 patches."""
    return torchvision.models.VisionTransformer(
        PIXELS, patch_size=8, num_layers=2, num_heads=4, hidden_dim=64, mlp_dim=128, num_classes=10)


def gpt2_small():
    """A GPT-2 of 2 blocks of width 64, for 50 tokens."""
    return GPT2LMHeadModel(
        GPT2Config(vocab_size=50, n_positions=12, n_embd=64, n_layer=2, n_head=4,
                   attn_implementation='eager'))


def filled(k, name, shape):
    """Returns values of the k-th tensor under which activations keep their size."""
    values = drawn(k, shape)
    if len(shape) > 1:
        return values * (3 * shape[0] / torch.Size(shape).numel())**0.5
    return values * 0.1 + (name.endswith('weight') or name.endswith('var'))


def result_of(model, x):
    """Returns the model's result with the weights filled()."""
    model.double().eval()
    for k, (name, value) in enumerate(model.state_dict().items()):
        if value.is_floating_point():
            value.copy_(filled(k, name, value.shape))
    with torch.no_grad():
        return model(x)


def tensors_of_models():
    tensors, names = {}, {}
    for title in RESNETS:
        model = getattr(torchvision.models, title)()
        names[title] = described(model)
        tensors[title] = result_of(model, images())
    for title, make in LARGE.items():
        with torch.device('meta'):
            names[title] = described(make())
    for title, model in {'vit_small': vit_small(), 'gpt2_small': gpt2_small()}.items():
        names[title] = described(model)
        is_text = title == 'gpt2_small'
        result = result_of(model, tokens(50) if is_text else images())
        tensors[title] = result.logits if is_text else result
    return tensors, names
