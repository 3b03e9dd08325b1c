// The kernels of training steps by name: a step launches no kernel that is not listed, so that one
// for any layout, or a copy that a fused kernel makes needless, does not come back unseen. Calls of
// cuBLASLt are not included; attention and convolutions run on Mezzo's own kernels here.
#include <iostream>
#include <map>
#include <set>
#include <sstream>
#include <string>
#include <vector>

#include "../support/catch.h"
#include "dry_steps.h"

using namespace dry_steps;

namespace {

/** The steps, by net and level, each with its kernels, one per line. */
const std::map<std::string, std::string>& listed_kernels() {
  static const std::map<std::string, std::string> all{
      {"MLP O2", R"(
axpby_kernel<float>
backward_kernel<float>
copy_packs_kernel
forward_kernel<Mul, float>
forward_packs_kernel<Relu>
line_loss_kernel<float>
relu_mask_kernel<Half>
total_loss_kernel<float>
update_kernel<optim::AdamUpdate, float, 0u>
)"},
      {"LeNet O2", R"(
axpby_kernel<float>
backward_kernel<float>
copy_packs_kernel
forward_kernel<Mul, float>
forward_packs_kernel<Relu>
line_loss_kernel<float>
packed_run_gradient_kernel<Half, 4>
packed_run_gradient_kernel<Half, 8>
packed_run_moments_kernel<Half, 4>
packed_run_moments_kernel<Half, 8>
packed_run_norm_kernel<Half, 4>
packed_run_norm_kernel<Half, 8>
packed_run_sums_kernel<Half, 4>
packed_run_sums_kernel<Half, 8>
pair_max_backward_kernel<Half>
pair_max_kernel<Half>
relu_mask_kernel<Half>
total_loss_kernel<float>
update_kernel<optim::AdamUpdate, float, 0u>
)"},
      {"char-LSTM O2", R"(
axpby_kernel<float>
backward_kernel<float>
bias_kernel<float>
copy_packs_kernel
count_digits_kernel<cpu_kernels::WideEntry>
fill_kernel
forward_kernel<Mul, float>
join_kernel
join_kernel<SumOf<float> >
join_segments_kernel<Half>
line_loss_kernel<float>
move_digits_kernel<cpu_kernels::WideEntry>
name_kernel
packed_column_sum_kernel<Half>
partial_loss_kernel<float>
persistent_backward_kernel<Half, 4, 4, 2>
persistent_forward_kernel<Half, 4, 4>
rows_kernel<float>
scan_kernel<Places, false>
segment_sums_kernel<Half>
take_kernel
total_loss_kernel<float>
update_kernel<optim::AdamUpdate, float, 0u>
)"},
      {"char-GPT O2", R"(
attention_kernel<Half, 64>
axpby_kernel<float>
backward_kernel<float>
copy_packs_kernel
count_digits_kernel<cpu_kernels::WideEntry>
forward_kernel<Mul, float>
forward_low_packs_kernel<Gelu, Half>
forward_packs_kernel<Add>
gradient_low_packs_kernel<Gelu, Half>
gradient_packs_kernel<Add>
gradients_kernel<Half, 64>
join_segments_kernel<Half>
line_loss_kernel<float>
move_digits_kernel<cpu_kernels::WideEntry>
name_kernel
offsets_kernel<float>
packed_backward_kernel<Half, Half, false>
packed_backward_kernel<Half, Half, true>
packed_column_sum_kernel<float>
packed_norm_kernel<Half, Half, true, false>
packed_norm_kernel<Half, Half, true, true>
partial_loss_kernel<float>
scan_kernel<Places, false>
segment_sums_kernel<Half>
take_kernel
total_loss_kernel<float>
update_kernel<optim::AdamUpdate, float, 0u>
)"},
      {"GPT-2 O2", R"(
attention_kernel<Half, 64>
axpby_kernel<float>
copy_packs_kernel
count_digits_kernel<cpu_kernels::WideEntry>
forward_kernel<Mul, float>
forward_low_packs_kernel<Gelu, Half>
forward_packs_kernel<Add>
gradient_low_packs_kernel<Gelu, Half>
gradient_packs_kernel<Add>
gradients_kernel<Half, 64>
join_segments_kernel<Half>
move_digits_kernel<cpu_kernels::WideEntry>
name_kernel
offsets_kernel<float>
packed_backward_kernel<Half, Half, false>
packed_backward_kernel<Half, Half, true>
packed_column_sum_kernel<float>
packed_gradient_kernel<Half, float, Half>
packed_loss_kernel<Half, float>
packed_norm_kernel<Half, Half, true, false>
packed_norm_kernel<Half, Half, true, true>
partial_loss_kernel<float>
scan_kernel<Places, false>
segment_sums_kernel<Half>
take_kernel
total_loss_kernel<float>
update_kernel<optim::AdamUpdate, float, 0u>
)"},
      {"ResNet-50 O2", R"(
axpby_kernel<float>
copy_packs_kernel
forward_kernel<Mul, float>
forward_packs_kernel<Add>
forward_packs_kernel<Div>
join_gradient_sums_kernel
join_moments_kernel
packed_column_sum_kernel<Half>
packed_gradient_kernel<Half, float, Half>
packed_gradient_sums_kernel<Half>
packed_loss_kernel<Half, float>
packed_moments_kernel<Half>
packed_norm_gradient_kernel<Half>
packed_normalise_kernel<Half>
plane_max_backward_kernel<Half, 8, unsigned char>
plane_max_kernel<Half, 8, unsigned char>
total_loss_kernel<float>
update_kernel<optim::AdamUpdate, float, 0u>
)"},
      {"MLP O4", R"(
backward_kernel<float>
copy_kernel<float>
copy_packs_kernel
forward_packs_kernel<Relu>
line_loss_kernel<float>
relu_mask_kernel<BFloat16>
total_loss_kernel<float>
update_kernel<optim::AdamUpdate, float, 0u>
)"},
      {"LeNet O4", R"(
backward_kernel<float>
copy_kernel<float>
copy_packs_kernel
forward_packs_kernel<Relu>
line_loss_kernel<float>
packed_run_gradient_kernel<BFloat16, 4>
packed_run_gradient_kernel<BFloat16, 8>
packed_run_moments_kernel<BFloat16, 4>
packed_run_moments_kernel<BFloat16, 8>
packed_run_norm_kernel<BFloat16, 4>
packed_run_norm_kernel<BFloat16, 8>
packed_run_sums_kernel<BFloat16, 4>
packed_run_sums_kernel<BFloat16, 8>
pair_max_backward_kernel<BFloat16>
pair_max_kernel<BFloat16>
relu_mask_kernel<BFloat16>
total_loss_kernel<float>
update_kernel<optim::AdamUpdate, float, 0u>
)"},
      {"char-LSTM O4", R"(
backward_kernel<float>
bias_kernel<float>
copy_kernel<float>
copy_packs_kernel
count_digits_kernel<cpu_kernels::WideEntry>
fill_kernel
join_kernel
join_kernel<SumOf<float> >
join_segments_kernel<float>
line_loss_kernel<float>
move_digits_kernel<cpu_kernels::WideEntry>
name_kernel
packed_column_sum_kernel<BFloat16>
partial_loss_kernel<float>
persistent_backward_kernel<BFloat16, 4, 4, 2>
persistent_forward_kernel<BFloat16, 4, 4>
rows_kernel<float>
scan_kernel<Places, false>
segment_sums_kernel<float>
take_kernel
total_loss_kernel<float>
update_kernel<optim::AdamUpdate, float, 0u>
)"},
      {"char-GPT O4", R"(
attention_kernel<BFloat16, 64>
backward_kernel<float>
copy_packs_kernel
count_digits_kernel<cpu_kernels::WideEntry>
forward_kernel<Add, float>
forward_low_packs_kernel<Gelu, BFloat16>
forward_packs_kernel<Add>
gradient_kernel<Add, float>
gradient_low_packs_kernel<Gelu, BFloat16>
gradient_packs_kernel<Add>
gradients_kernel<BFloat16, 64>
join_segments_kernel<float>
line_loss_kernel<float>
move_digits_kernel<cpu_kernels::WideEntry>
name_kernel
offsets_kernel<float>
packed_backward_kernel<float, float, false>
packed_column_sum_kernel<float>
packed_norm_kernel<float, float, true, false>
partial_loss_kernel<float>
scan_kernel<Places, false>
segment_sums_kernel<float>
take_kernel
total_loss_kernel<float>
update_kernel<optim::AdamUpdate, float, 0u>
)"},
      {"GPT-2 O4", R"(
attention_kernel<BFloat16, 64>
copy_packs_kernel
count_digits_kernel<cpu_kernels::WideEntry>
forward_kernel<Add, float>
forward_low_packs_kernel<Gelu, BFloat16>
forward_packs_kernel<Add>
gradient_kernel<Add, float>
gradient_low_packs_kernel<Gelu, BFloat16>
gradient_packs_kernel<Add>
gradients_kernel<BFloat16, 64>
join_segments_kernel<float>
move_digits_kernel<cpu_kernels::WideEntry>
name_kernel
offsets_kernel<float>
packed_backward_kernel<float, float, false>
packed_column_sum_kernel<float>
packed_gradient_kernel<BFloat16, float, BFloat16>
packed_loss_kernel<BFloat16, float>
packed_norm_kernel<float, float, true, false>
partial_loss_kernel<float>
scan_kernel<Places, false>
segment_sums_kernel<float>
take_kernel
total_loss_kernel<float>
update_kernel<optim::AdamUpdate, float, 0u>
)"},
      {"ResNet-50 O4", R"(
copy_packs_kernel
forward_packs_kernel<Add>
forward_packs_kernel<Div>
join_gradient_sums_kernel
join_moments_kernel
packed_column_sum_kernel<BFloat16>
packed_gradient_kernel<BFloat16, float, BFloat16>
packed_gradient_sums_kernel<BFloat16>
packed_loss_kernel<BFloat16, float>
packed_moments_kernel<BFloat16>
packed_norm_gradient_kernel<BFloat16>
packed_normalise_kernel<BFloat16>
plane_max_backward_kernel<BFloat16, 8, unsigned char>
plane_max_kernel<BFloat16, 8, unsigned char>
total_loss_kernel<float>
update_kernel<optim::AdamUpdate, float, 0u>
)"},
  };
  return all;
}

std::set<std::string> lines_of(const std::string& text) {
  std::set<std::string> lines;
  std::istringstream in(text);
  for (std::string line; std::getline(in, line);)
    if (!line.empty()) lines.insert(line);
  return lines;
}

/** Calls f(name, launches) for each step. */
template <class F> void for_each_step(const F& f) {
  const LargeDryRun scope;
  for (const std::string level : {"O2", "O4"}) {
    f("MLP " + level, digits_step(samples::Mlp(4096), 512, level));
    f("LeNet " + level, digits_step(samples::LeNet(32), 1024, level));
    f("char-LSTM " + level, lstm_step(64, level));
    f("char-GPT " + level, gpt_step({.vocabulary = 65}, 64, level));
    f("GPT-2 " + level, gpt_step(kGpt2, 16, level));
    f("ResNet-50 " + level, resnet_step(MemoryFormat::channels_last, level));
  }
}

std::set<std::string> kernels_of(const std::vector<Launch>& launches) {
  std::set<std::string> kernels;
  for (const Launch& launch : launches) kernels.insert(launch.instance);
  return kernels;
}

}  // namespace

TEST_CASE("training steps launch the kernels that are listed, and no others", "[gpu][fill]") {
  manual_seed(1);
  for_each_step([](const std::string& step, const std::vector<Launch>& launches) {
    INFO(step);
    CHECK(launches.size() > 6);
    REQUIRE(listed_kernels().contains(step));
    const std::set<std::string> listed = lines_of(listed_kernels().at(step)),
                                found = kernels_of(launches);
    for (const std::string& kernel : found) {
      INFO(kernel << " is launched");
      CHECK(listed.contains(kernel));
    }
    for (const std::string& kernel : listed) {
      INFO(kernel << " is listed");
      CHECK(found.contains(kernel));
    }
  });
}

TEST_CASE("prints the list of kernels for this file", "[.kernels]") {
  for_each_step([](const std::string& step, const std::vector<Launch>& launches) {
    std::cout << "      {\"" << step << "\", R\"(\n";
    for (const std::string& kernel : kernels_of(launches)) std::cout << kernel << "\n";
    std::cout << ")\"},\n";
  });
}
