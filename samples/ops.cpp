// ops: prints the op reference, generated from the registered ops.
//   ops            a Markdown table of the public ops
//   ops --json     all ops, including internal ops for gradients
#include <iostream>
#include <nlohmann/json.hpp>

#include "common/arguments.h"
#include "common/op_facts.h"
#include "common/program.h"

namespace {

using namespace samples;

std::string joined(const std::vector<std::string>& words) {
  std::string text;
  for (const std::string& word : words) text += (text.empty() ? "" : " ") + word;
  return text;
}

/** Returns the dtypes as text, with short names for common lists. */
std::string dtypes_text(const OpFacts& op) {
  const std::string list = joined(op.dtypes);
  if (list == "f16 bf16 f32 f64") return "floating";
  if (list == "u8 i32 i64 f16 bf16 f32 f64") return "numbers";
  if (list == "bool u8 i32 i64") return "integers, bool";
  if (list == "bool u8 i32 i64 f16 bf16 f32 f64") return "all";
  return list;
}

std::string derivatives_text(const OpFacts& op) {
  return op.derivatives == 0 ? "-" : op.derivatives == 1 ? "1st" : "1st, 2nd";
}

std::string forms_text(const OpFacts& op) {
  if (op.body == "view") return "view";
  return op.in_place ? "in place" : "";
}

void print_markdown() {
  std::cout << "| op | tag |";
  for (const mezzo::amp::Level& level : mezzo::amp::kLevels) std::cout << " " << level.name << " |";
  std::cout << " dtypes | kernels | gradient | forms | what it gives |\n|---|---|";
  for (std::size_t i = 0; i < mezzo::amp::kLevels.size(); ++i) std::cout << "---|";
  std::cout << "---|---|---|---|---|\n";
  for (const OpFacts& op : all_op_facts()) {
    if (op.internal) continue;
    std::cout << "| `" << op.name << "` | " << op.tag << " |";
    for (const std::string& level : op.levels) std::cout << " " << level << " |";
    std::cout << " " << dtypes_text(op) << " | "
              << (op.body == "kernel" ? joined(op.devices) : op.body) << " | "
              << derivatives_text(op) << " | " << forms_text(op) << " | " << op.summary << " |\n";
  }
}

void print_json() {
  auto ops = nlohmann::ordered_json::array();
  for (const OpFacts& op : all_op_facts()) {
    nlohmann::ordered_json levels;
    for (std::size_t i = 0; i < op.levels.size(); ++i)
      levels[std::string(mezzo::amp::kLevels[i].name)] = op.levels[i];
    ops.push_back({{"name", op.name},
                   {"tag", op.tag},
                   {"levels", levels},
                   {"dtypes", op.dtypes},
                   {"devices", op.devices},
                   {"body", op.body},
                   {"derivatives", op.derivatives},
                   {"in_place", op.in_place},
                   {"view", op.body == "view"},
                   {"internal", op.internal},
                   {"summary", op.summary}});
  }
  std::cout << ops.dump(1) << "\n";
}

}  // namespace

int main(int argc, char** argv) {
  bool json = false;
  Arguments arguments("ops", "Prints the op reference: a Markdown table of the public ops.");
  arguments.flag("json", json, "print all ops as JSON");
  if (const auto status = arguments.parse(argc, argv)) return *status;
  return run_program("ops", [&] {
    json ? print_json() : print_markdown();
    return 0;
  });
}
