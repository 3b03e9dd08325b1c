#include "norm_checks.h"

#include "../text/text.h"

namespace mezzo::op {

void check_floating_input(const Tensor& x, std::string_view op) {
  if (!is_floating(x.dtype()))
    fail<DtypeError>(
        op, {.what = "the input must be floating", .got = str(x), .expected = "a floating dtype"});
}

void check_has_channels(const Tensor& x, std::string_view op) {
  if (x.dim() < 2)
    fail<ShapeError>(op, {.what = "the input has no channel dimension",
                          .got = str(x),
                          .expected = "[N,C] or [N,C,...]"});
}

void check_values(const Tensor& x, const Tensor& values, const Shape& shape, const char* what,
                  std::string_view op) {
  if (!values.defined()) return;
  if (!is_floating(values.dtype()))
    fail<DtypeError>(op, {.what = str(what, " must be floating"),
                          .got = str(values),
                          .expected = "a floating dtype"});
  if (!(values.shape() == shape))
    fail<ShapeError>(op, {.what = str(what, " does not fit the input"),
                          .got = str("input ", x, " and ", what, " ", values),
                          .expected = str("shape ", shape)});
}

}  // namespace mezzo::op
