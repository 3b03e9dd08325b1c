#include "mean.h"

#include <cmath>

#include "../core/error.h"
#include "../text/text.h"

namespace mezzo::comm {

void Mean::add(double sum, std::int64_t count) {
  if (count < 0)
    fail<ValueError>("Mean::add", {.what = "the count is negative", .got = str(count)});
  if (count == 0) {
    if (sum == 0 || std::isnan(sum)) return;
    fail<ValueError>("Mean::add",
                     {.what = "the sum of no numbers is not 0", .got = str(sum), .expected = "0"});
  }
  sum_ += sum;
  count_ += static_cast<double>(count);
}

double Mean::value() const {
  const double mine[] = {sum_, count_};
  const std::vector<double> all = group_.gather(mine);
  double sum = 0, count = 0;
  for (std::size_t i = 0; i < all.size(); i += 2) {
    sum += all[i];
    count += all[i + 1];
  }
  return sum / count;  // NaN for 0 / 0
}

}  // namespace mezzo::comm
