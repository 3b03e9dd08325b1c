// Prints the tree of a module as text.
#include <algorithm>
#include <ostream>

#include "../tensor/comm/communicator.h"
#include "../tensor/text/text.h"
#include "module.h"

namespace mezzo::nn {

namespace {

struct Line {
  std::string left;
  std::int64_t parameters = 0;
};

/** Returns n with digits in groups of three, such as "203,530". */
std::string grouped(std::int64_t n) {
  const std::string digits = str(n);
  std::string text;
  for (std::size_t i = 0; i < digits.size(); ++i) {
    if (i > 0 && (digits.size() - i) % 3 == 0) text += ',';
    text += digits[i];
  }
  return text;
}

/** Returns the module's own tensors as text, such as "  weight [256,784], bias [256] bf16 frozen".
 */
std::string tensors_text(const ModuleState& state) {
  std::string text;
  const auto append = [&](const NamedTensor& entry, const char* mark) {
    text += str(text.empty() ? "  " : ", ", entry.name, " ", entry.tensor.shape());
    if (entry.tensor.dtype() != DType::f32) text += str(" ", entry.tensor.dtype());
    text += mark;
  };
  for (const NamedTensor& p : state.parameters)
    append(p, p.tensor.requires_grad() ? "" : " frozen");
  for (const NamedTensor& b : state.buffers) append(b, " buffer");
  return text;
}

/** Returns ", synchronised over 4 ranks" for a batch norm whose statistics several ranks share. */
std::string synchronisation_text(const ModuleState& state) {
  if (!state.statistics_group) return {};
  return str(", synchronised over ", state.statistics_group->size(), " ranks");
}

constexpr std::size_t kDeepest = 64;  // maximum depth of printed modules

void describe(const Module& module, const std::string& name, std::size_t depth,
              std::vector<Line>& lines) {
  const ModuleState& state = module.state();
  std::string left(2 * depth, ' ');
  if (!name.empty()) left += name + ": ";
  left += module.kind();
  if (!state.summary.empty() || state.children.empty())
    left += "(" + state.summary + synchronisation_text(state) + ")";
  lines.push_back({left + tensors_text(state), module.num_parameters()});
  if (depth == kDeepest && !state.children.empty()) {
    lines.emplace_back().left.append(2 * depth + 2, ' ').append("...");
    return;
  }
  for (const NamedModule& child : state.children)
    describe(child.module, child.name, depth + 1, lines);
}

}  // namespace

using mezzo::str;  // which the next declaration would hide from files compiled together with this
                   // one

std::string str(const Module& module) {
  std::vector<Line> lines;
  describe(module, {}, 0, lines);
  std::size_t width = 0;
  for (const Line& line : lines) width = std::max(width, line.left.size());
  const std::size_t digits = grouped(lines.front().parameters).size();
  std::string text;
  for (const Line& line : lines) {
    text += line.left;
    if (line.parameters > 0) {
      const std::string count = grouped(line.parameters);
      text += std::string(width + 2 - line.left.size() + digits - count.size(), ' ') + count;
    }
    text += '\n';
  }
  text.insert(text.find('\n'), " parameters");
  return text;
}

std::ostream& operator<<(std::ostream& out, const Module& module) { return out << str(module); }

}  // namespace mezzo::nn
