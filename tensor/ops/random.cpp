// Shape rules of the random ops.
#include "random.h"

#include "../core/registry.h"
#include "../text/text.h"

namespace mezzo::op {

OutSpecs RandomFill::infer(Inputs in, const Attrs&) { return {{in[0].shape(), in[0].dtype()}}; }

OutSpecs Dropout::infer(Inputs in, const Attrs&) {
  if (!is_floating(in[0].dtype()))
    fail<DtypeError>(
        "dropout",
        {.what = "not defined for integers", .got = str(in[0]), .expected = "a floating dtype"});
  return {{in[0].shape(), in[0].dtype()}, {in[0].shape(), DType::boolean}};
}

std::span<OpInfo* const> random_ops() { return infos_of(RandomOps{}); }

}  // namespace mezzo::op
