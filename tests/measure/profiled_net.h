// A small net with nested modules and its training step, for the tests of the profiler.
#pragma once

#include <mezzo.h>

#include <algorithm>
#include <iterator>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "../support/device.h"

namespace mezzo::testing {

struct Block : nn::Model<Block> {
  nn::Linear fc1 = add("fc1", nn::Linear{8, 4});
  Tensor forward(const Tensor& x) const { return relu(fc1(x)); }
};

/** Linear 8 to 4 in block.fc1, relu in block, linear 4 to 3 in head. */
struct ProfiledNet : nn::Model<ProfiledNet> {
  Block block = add("block", Block{});
  nn::Linear head = add("head", nn::Linear{4, 3});
  Tensor forward(const Tensor& x) const { return head(block(x)); }
};

/** A net with its optimizer and one batch on the device of the tests. */
struct Training {
  explicit Training(const std::string& level = "O0") {
    net.to(test_device());
    session.emplace(amp::initialize(net, optimizer, {.opt_level = level, .verbosity = 0}));
  }

  void step() {
    const Tensor loss = sum(net(x));
    optimizer.zero_grad();
    amp::scale_loss(loss, optimizer, [](const Tensor& scaled) { scaled.backward(); });
    optimizer.step();
  }

  ProfiledNet net;
  optim::Adam optimizer{net.parameters(), {.lr = 0.01}};
  std::optional<amp::Session> session;
  Tensor x = (manual_seed(1), rand({16, 8}, {.device = test_device()}));
};

/** Returns the only row of an op in a module and pass; fails if there is not exactly one. */
inline ProfileRow row_of(const std::vector<ProfileRow>& rows, std::string_view op,
                         std::string_view module = {}, bool backward = false) {
  std::vector<ProfileRow> found;
  std::copy_if(rows.begin(), rows.end(), std::back_inserter(found), [&](const ProfileRow& row) {
    return row.op == op && row.module == module && row.backward == backward;
  });
  if (found.size() != 1)
    throw ValueError(str("expected one row of ", op, " in ", module, ", got ", found.size()));
  return found[0];
}

/** Returns the sum of a member over all rows. */
template <class T> double sum_over(const std::vector<ProfileRow>& rows, T ProfileRow::* member) {
  double sum = 0;
  for (const ProfileRow& row : rows) sum += static_cast<double>(row.*member);
  return sum;
}

}  // namespace mezzo::testing
