// The kernels of training steps by name. A step that launches a kernel which is not listed fails:
// for example a generic kernel, or a copy that a fused kernel makes needless. Calls of cuBLASLt are
// not included; attention and convolutions run on Mezzo's own kernels here.
#include <algorithm>
#include <regex>
#include <set>
#include <string>
#include <vector>

#include "../support/catch.h"
#include "dry_steps.h"

using namespace dry_steps;

namespace {

using Names = std::vector<std::string>;

/** Kernels that the steps of some nets launch at some levels. `Low` stands for the 16-bit type. */
struct Group {
  Names nets, levels, kernels;
};
const Group kGroups[] = {
    // casts, the loss, the optimizer
    {{"MLP", "LeNet", "char-LSTM"},
     {"O2", "O4"},
     {"update_kernel<optim::AdamUpdate, float, 0u, 4096ul>"}},
    {{"char-GPT", "GPT-2", "ResNet-50"},
     {"O2", "O4"},
     {"update_kernel<optim::AdamUpdate, float, 0u, 32764ul>"}},
    {{"MLP", "LeNet", "char-LSTM", "ResNet-50"}, {"O2"}, {"copy_packs_kernel"}},
    {{"MLP", "LeNet", "char-LSTM", "char-GPT", "GPT-2", "ResNet-50"},
     {"O4"},
     {"copy_packs_kernel"}},
    // the check of the gradients, with a copy of the scale
    {{"MLP", "LeNet", "char-LSTM"}, {"O2"}, {"axpby_kernel<float, 4096ul>"}},
    {{"char-GPT", "GPT-2", "ResNet-50"}, {"O2"}, {"axpby_kernel<float, 32764ul>"}},
    // casts of weights that are not whole packs
    {{"MLP", "LeNet", "char-LSTM"}, {"O4"}, {"copy_kernel<float>"}},
    // cross entropy of few numbers, of few classes, and of many
    {{"MLP", "LeNet"}, {"O2", "O4"}, {"loss_and_gradient_kernel<float>"}},
    {{"char-LSTM", "char-GPT"},
     {"O2", "O4"},
     {"backward_kernel<float>", "line_loss_kernel<float>"}},
    {{"GPT-2", "ResNet-50"},
     {"O2", "O4"},
     {"packed_gradient_kernel<Low, float, Low>", "packed_loss_kernel<Low, float>"}},
    // the sum of the losses, where their kernel does not compute it
    {{"char-LSTM", "char-GPT", "GPT-2"}, {"O2", "O4"}, {"partial_loss_kernel<float>"}},
    {{"ResNet-50"}, {"O2", "O4"}, {"total_loss_kernel<float>"}},
    // gradients of biases
    {{"MLP", "LeNet"},
     {"O2", "O4"},
     {"gated_column_sum_kernel<Relu, Low>", "join_kernel<SumOf<float> >"}},
    {{"MLP", "LeNet"}, {"O4"}, {"packed_column_sum_kernel<Low, Low>"}},
    {{"char-LSTM", "char-GPT", "GPT-2", "ResNet-50"},
     {"O2", "O4"},
     {"join_kernel<SumOf<float> >", "packed_column_sum_kernel<Low, Low>"}},
    // embeddings; their gradients are sums of segments of sorted indices
    {{"char-LSTM", "char-GPT", "GPT-2"},
     {"O2", "O4"},
     {"count_digits_kernel<cpu_kernels::NarrowEntry>",
      "move_digits_kernel<cpu_kernels::NarrowEntry>", "name_kernel<cpu_kernels::NarrowEntry>",
      "scan_kernel<Places, false, false>"}},
    {{"char-LSTM"}, {"O2", "O4"}, {"take_kernel"}},
    {{"char-GPT", "GPT-2"}, {"O4"}, {"take_kernel"}},
    {{"char-LSTM", "char-GPT", "GPT-2"},
     {"O2"},
     {"join_segments_kernel<Low>", "segment_sums_kernel<Low>"}},
    {{"char-LSTM", "char-GPT", "GPT-2"},
     {"O4"},
     {"join_segments_kernel<float>", "segment_sums_kernel<float>"}},
    // layers
    {{"MLP", "LeNet"}, {"O2", "O4"}, {"forward_packs_kernel<Relu>"}},
    // row-major at both ends, where elements of 16 bits and a gradient in f32 change places
    {{"LeNet"}, {"O2", "O4"}, {"transpose_kernel<WordCopy<unsigned short>, true>"}},
    {{"LeNet"}, {"O4"}, {"transpose_kernel<WordCopy<unsigned int>, true>"}},
    {{"char-LSTM"},
     {"O2", "O4"},
     {"bias_kernel<float>", "fill_kernel", "join_kernel",
      "persistent_backward_kernel<Low, 4, 4, 2>", "persistent_forward_kernel<Low, 4, 4>",
      "rows_kernel<float>"}},
    {{"ResNet-50"}, {"O2", "O4"}, {"forward_packs_kernel<Add>"}},
    {{"char-GPT", "GPT-2"},
     {"O2", "O4"},
     {"attention_kernel<Low, 64>", "forward_table_kernel<Gelu, Low>", "gradients_kernel<Low, 64>",
      "offsets_kernel<float>"}},
    {{"char-GPT", "GPT-2"}, {"O2"}, {"gated_column_sum_kernel<Gelu, Low>"}},
    {{"char-GPT", "GPT-2"}, {"O4"}, {"gated_table_sum_kernel<Gelu>"}},
    {{"char-GPT", "GPT-2"},
     {"O2"},
     {"packed_backward_kernel<Low, Low, false, Low>", "packed_backward_kernel<Low, Low, true, Low>",
      "packed_column_sum_kernel<Low, float>", "packed_norm_kernel<Low, Low, true, Low>",
      "packed_norm_kernel<Low, Low, true, Repeated<Low> >"}},
    // the residual stream is f32, its branches and the gradients of norms have 16 bits
    {{"char-GPT", "GPT-2"},
     {"O4"},
     {"packed_backward_kernel<float, float, false, Low>",
      "packed_backward_kernel<float, float, true, Low>", "packed_column_sum_kernel<float, float>",
      "packed_norm_kernel<float, float, true, Low>",
      "packed_norm_kernel<float, float, true, Repeated<float> >"}},
    {{"ResNet-50"}, {"O2", "O4"}, {"forward_packs_kernel<Div>"}},
    // channels-last layers; those of LeNet are row-major for the program
    {{"LeNet", "ResNet-50"},
     {"O2", "O4"},
     {"join_gradient_sums_kernel<RowSums>", "join_moments_kernel",
      "packed_gradient_sums_kernel<Low>", "packed_moments_kernel<Low>",
      "packed_norm_gradient_kernel<Low>", "packed_normalise_kernel<Low>",
      "plane_max_backward_kernel<Low, 8, unsigned char>",
      "plane_max_kernel<Low, 8, unsigned char>"}},
    // the first layer, with the kernel's columns as channels
    {{"LeNet", "ResNet-50"}, {"O2", "O4"}, {"copy_kernel<float>", "windows_kernel"}},
};

bool contains(const Names& names, const std::string& name) {
  return std::find(names.begin(), names.end(), name) != names.end();
}

std::set<std::string> listed_kernels(const std::string& net, const std::string& level) {
  static const std::regex low("\\bLow\\b");
  std::set<std::string> kernels;
  for (const Group& group : kGroups)
    if (contains(group.nets, net) && contains(group.levels, level))
      for (const std::string& kernel : group.kernels)
        kernels.insert(std::regex_replace(kernel, low, level == "O2" ? "Half" : "BFloat16"));
  return kernels;
}

/** Calls f(net, level, launches) for each step. */
template <class F> void for_each_step(const F& f) {
  const LargeDryRun scope;
  for (const std::string level : {"O2", "O4"}) {
    f("MLP", level, digits_step(samples::Mlp(4096), 512, level));
    f("LeNet", level, digits_step(samples::LeNet(32), 1024, level));
    f("char-LSTM", level, lstm_step(64, level));
    f("char-GPT", level, gpt_step({.vocabulary = 65}, 64, level));
    f("GPT-2", level, gpt_step(kGpt2, 16, level));
    f("ResNet-50", level, resnet_step(MemoryFormat::channels_last, level));
  }
}

}  // namespace

TEST_CASE("training steps launch the kernels that are listed, and no others", "[gpu][fill]") {
  manual_seed(1);
  for_each_step(
      [](const std::string& net, const std::string& level, const std::vector<Launch>& launches) {
        INFO(net << " " << level);
        std::set<std::string> found;
        for (const Launch& launch : launches) found.insert(launch.instance);
        CHECK(found.size() > 6);
        const std::set<std::string> listed = listed_kernels(net, level);
        for (const std::string& kernel : found) {
          INFO(kernel << " is launched");
          CHECK(listed.contains(kernel));
        }
        for (const std::string& kernel : listed) {
          INFO(kernel << " is listed");
          CHECK(found.contains(kernel));
        }
        // Of the two gradients of the max pool's result. Those of a block's result are added by the
        // gradient of its last norm.
        if (net == "ResNet-50")
          CHECK(std::count_if(launches.begin(), launches.end(), [](const Launch& launch) {
                  return launch.instance == "forward_packs_kernel<Add>";
                }) == 1);
      });
}
