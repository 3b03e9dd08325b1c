#include "digits.h"

namespace samples {

using namespace mezzo;

data::Split load_digits(const std::string& dir, std::int64_t train, std::int64_t test,
                        std::uint64_t seed) {
  if (!dir.empty()) return data::mnist(dir);
  const data::Dataset all = data::synthetic_digits(train + test, seed);
  return {all.slice(0, train), all.slice(train, test)};
}

}  // namespace samples
