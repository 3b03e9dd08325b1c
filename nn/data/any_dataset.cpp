#include "any_dataset.h"

#include "../../tensor/text/text.h"

namespace mezzo::data::detail {

void require_sample(std::string_view op, std::int64_t index, std::int64_t size) {
  if (index >= 0 && index < size) return;
  fail<IndexError>(op, {.what = "no such sample",
                        .got = str(index),
                        .expected = size > 0 ? str("0..", size - 1) : "none: the set is empty"});
}

}  // namespace mezzo::data::detail
