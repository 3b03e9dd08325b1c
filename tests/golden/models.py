"""The models that models.cpp compares with torchvision's: results in evaluation mode, in f64.

Inputs and weights are not stored: both languages compute them with filled(). The file has one
tensor per model, and in its metadata the names and shapes of the state_dict.
"""
import torch
import torchvision

from layers import described, drawn

MODELS = {name: getattr(torchvision.models, name) for name in ('resnet18', 'resnet34', 'resnet50')}
PIXELS = 40


def filled(k, name, shape):
    """Returns values of the k-th tensor under which activations keep their size."""
    values = drawn(k, shape)
    if len(shape) > 1:
        return values * (3 * shape[0] / torch.Size(shape).numel())**0.5
    return values * 0.1 + (name.endswith('weight') or name.endswith('var'))


def tensors_of_models():
    tensors, names = {}, {}
    for title, make in MODELS.items():
        model = make().double().eval()
        names[title] = described(model)
        for k, (name, value) in enumerate(model.state_dict().items()):
            if value.is_floating_point():
                value.copy_(filled(k, name, value.shape))
        with torch.no_grad():
            tensors[title] = model(drawn(0, [2, 3, PIXELS, PIXELS]))
    return tensors, names
