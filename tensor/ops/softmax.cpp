// Shape rules of the softmax family.
#include "softmax.h"

#include "../core/registry.h"
#include "../text/text.h"

namespace mezzo::op {

namespace {

OutSpecs like_input(Inputs in, std::string_view op) {
  if (!is_floating(in[0].dtype()))
    fail<DtypeError>(op, {.what = "not defined for integers",
                          .got = str(in[0]),
                          .expected = "a floating dtype",
                          .hint = "pass {.dtype = f32}"});
  return {{in[0].shape(), in[0].dtype()}};
}

}  // namespace

OutSpecs LogSoftmax::infer(Inputs in, const Attrs&) { return like_input(in, traits.name); }

OutSpecs LogSoftmaxBackward::infer(Inputs in, const Attrs&) {
  return {{in[1].shape(), in[1].dtype()}};
}

OutSpecs Softmax::infer(Inputs in, const Attrs&) { return like_input(in, traits.name); }

OutSpecs SoftmaxBackward::infer(Inputs in, const Attrs&) {
  return {{in[1].shape(), in[1].dtype()}};
}

std::span<OpInfo* const> softmax_ops() { return infos_of(SoftmaxOps{}); }

}  // namespace mezzo::op
