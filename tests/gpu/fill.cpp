// Whether the kernels of training steps fill a GPU: dry runs record their grids at realistic sizes.
// Calls of cuBLASLt and cuDNN are not included.
#include <algorithm>
#include <map>
#include <string>
#include <vector>

#include "../support/catch.h"
#include "dry_steps.h"

using namespace dry_steps;

namespace {

/** With fewer blocks, multiprocessors are idle or have a single block. */
constexpr std::int64_t kEnoughBlocks = 2 * emulator::kMultiprocessors;

/** A kernel whose work in these nets is too small to fill a GPU. */
struct Small {
  const char* kernel;
  std::int64_t blocks;  // the largest such grid
  const char* reason;
};
constexpr Small kSmall[] = {
    {"copy_kernel", 5, "the gradient of the first layer's 9,408 weights"},
    {"copy_packs_kernel", 196, "8 elements per thread: biases and weights of single layers"},
    {"count_digits_kernel", 4, "sorts 16,384 indices of an embedding"},
    {"forward_packs_kernel", 256, "elementwise, 8 elements per thread: at most 524,288"},
    {"forward_table_kernel", 132, "blocks of 1,024 threads with a table, one per multiprocessor"},
    {"gated_column_sum_kernel", 256, "4,096 columns of 512 rows, 32 elements per thread"},
    {"join_gradient_sums_kernel", 256, "2 channels per block, of up to 512"},
    {"join_kernel", 256, "16 sums of each of 4,096 columns"},
    {"join_moments_kernel", 256, "2 channels per block, of up to 512"},
    {"join_segments_kernel", 192, "16,384 indices of rows of 48 packs, 16 indices per thread"},
    {"loss_and_gradient_kernel", 64, "1,024 lines of 10 classes, 16 per block"},
    {"move_digits_kernel", 4, "sorts 16,384 indices of an embedding"},
    {"name_kernel", 64, "16,384 indices of an embedding"},
    {"packed_backward_kernel", 256, "one wave of 264, in which all blocks have 64 rows"},
    {"packed_column_sum_kernel", 256, "65,536 sums of products of 256 images, at O0"},
    {"packed_gradient_kernel", 256, "of cross entropy: 256 lines of 1,000 classes"},
    {"packed_loss_kernel", 256, "256 lines of 1,000 classes"},
    {"packed_whole_gradient_kernel", 256, "256 channels with a block of 1,024 threads each"},
    {"packed_whole_norm_kernel", 256, "256 channels with a block of 1,024 threads each"},
    {"partial_loss_kernel", 32, "sums 16,384 losses"},
    {"scan_kernel", 1, "places of 256 digits of 16,384 indices"},
    {"segment_sums_kernel", 192, "16,384 indices of rows of 48 packs, 16 indices per thread"},
    {"total_loss_kernel", 1, "at most 1,024 losses, or 32 sums of them"},
    {"transpose_kernel", 256, "weights of convolutions that are channels-last inside"},
    {"windows_kernel", 6, "of the first layer's 9,408 weights"},
};

/** With fewer bytes in flight per multiprocessor, memory is not used in full. */
constexpr std::int64_t kEnoughBytes = 20 << 10;

/** The bytes that a thread loads before it needs the first of them, in 16 bits: the loads that
 *  tests/checks/sass_budget.py counts. */
struct InFlight {
  const char* kernel;
  std::int64_t bytes;       // 0: not checked
  const char* reason = "";  // why it is not checked
  bool loops = false;       // threads loop over any number of elements
};
constexpr const char* kProducts = "bound by products, not by memory";
constexpr const char* kAnyLayout = "for any layout: loads elements one by one";
constexpr InFlight kInFlight[] = {
    {"attention_kernel", 0, kProducts},
    {"axpby_kernel", 32},
    {"copy_kernel", 0, kAnyLayout},
    {"copy_packs_kernel", 16},
    {"fill_kernel", 0, "loads nothing"},
    {"forward_low_packs_kernel", 16},
    {"forward_kernel", 0, kAnyLayout},
    {"forward_packs_kernel", 16},
    {"gated_column_sum_kernel", 128, "", true},
    {"gated_table_sum_kernel", 128, "", true},
    {"gradient_low_packs_kernel", 16},
    {"gradient_packs_kernel", 16},
    {"gradient_sums_kernel", 0, kAnyLayout},
    {"gradients_kernel", 0, kProducts},
    {"join_gradient_sums_kernel", 0, "joins the sums of at most 528 blocks"},
    {"join_kernel", 0, "joins the sums of chunks"},
    {"join_moments_kernel", 0, "joins the moments of at most 528 blocks"},
    {"join_segments_kernel", 0, "joins what segment_sums_kernel left of 16,384 indices"},
    {"moments_kernel", 0, kAnyLayout},
    {"norm_backward_kernel", 0, kAnyLayout},
    {"normalise_kernel", 0, kAnyLayout},
    {"offsets_kernel", 0, "of attention's gradients; takes little of their time"},
    {"packed_backward_kernel", 128, "", true},
    {"packed_column_sum_kernel", 64, "", true},
    {"packed_gradient_kernel", 32},
    {"packed_gradient_sums_kernel", 64, "", true},
    {"packed_loss_kernel", 32},
    {"packed_moments_kernel", 64, "", true},
    {"packed_norm_gradient_kernel", 64, "", true},
    {"packed_norm_kernel", 64},
    {"packed_normalise_kernel", 64, "", true},
    {"packed_run_gradient_kernel", 44, "", true},
    {"packed_run_moments_kernel", 32, "", true},
    {"packed_run_norm_kernel", 64, "", true},
    {"packed_run_sums_kernel", 44, "", true},
    {"packed_whole_gradient_kernel", 28, "", true},
    {"packed_whole_norm_kernel", 32, "", true},
    {"pair_max_backward_kernel", 12},
    {"pair_max_kernel", 32},
    {"plane_max_backward_kernel", 24},
    {"plane_max_kernel", 48},
    {"reduce_kernel", 0, kAnyLayout},
    {"segment_sums_kernel", 64, "", true},
    {"take_kernel", 0, "loads rows by index, in words of up to 16 bytes"},
    {"transpose_kernel", 0, "tiles in shared memory: a barrier between loads and stores"},
    {"update_kernel", 32},
    {"whole_backward_kernel", 0, kAnyLayout},
    {"whole_norm_kernel", 0, kAnyLayout},
    {"windows_kernel", 16},
};

/** Checks that a launch of many blocks has enough bytes in flight. A grid that is resident at once,
 *  whose threads do not loop, has all its loads in flight. */
void check_bytes_in_flight(const Launch& launch) {
  if (launch.blocks < kEnoughBlocks) return;
  const auto* const entry = std::find_if(std::begin(kInFlight), std::end(kInFlight),
                                         [&](auto& of) { return launch.kernel == of.kernel; });
  INFO(launch.kernel << " " << launch.blocks << " x " << launch.threads);
  REQUIRE(entry != std::end(kInFlight));
  const std::int64_t resident = launch.resident_threads() * emulator::kMultiprocessors;
  if (entry->bytes == 0 || (!entry->loops && launch.blocks * launch.threads <= resident)) return;
  CHECK(launch.bytes_in_flight(entry->bytes) >= kEnoughBytes);
}

/** Kernels with too few blocks, and the largest number of blocks. */
using TooFew = std::map<std::string, std::int64_t>;

TooFew too_few(const std::vector<Launch>& launches) {
  TooFew found;
  for (const Launch& launch : launches)
    if (launch.blocks < kEnoughBlocks)
      found[launch.kernel] = std::max(found[launch.kernel], launch.blocks);
  return found;
}

}  // namespace

TEST_CASE("a dry run logs the launches that it omits", "[gpu][fill]") {
  const Tensor x = ones({3, 1000}, {.device = kDevice});
  const emulator::FillLog log;
  {
    const emulator::DryRun dry;
    mul_(x, 2.0);
    softmax(x, 1);
    matmul(x, x.t());  // runs in the library
  }
  CHECK(x.to_vector<double>() == std::vector<double>(3000, 1));
  REQUIRE(log.launches.size() == 2);
  CHECK(log.launches[0].kernel == "forward_packs_kernel");
  CHECK(log.launches[1].kernel == "packed_softmax_kernel");
  CHECK(log.launches[1].blocks == 3);
  CHECK(log.launches[1].threads == 64);
  CHECK(log.launches[1].resident_threads() == 64);  // on three multiprocessors
  CHECK(Launch{"", 10000, 256}.resident_threads() == 2048);
  CHECK(Launch{"", 10000, 32}.bytes_in_flight(16) == 32 * 32 * 16);
}

TEST_CASE("the kernels of training steps fill a GPU", "[gpu][fill]") {
  manual_seed(1);
  const LargeDryRun scope;
  TooFew listed, most;
  for (const Small& small : kSmall) listed[small.kernel] = small.blocks;
  const auto check = [&](const char* net, const std::vector<Launch>& launches) {
    INFO(net);
    CHECK(launches.size() > 6);
    for (const Launch& launch : launches) check_bytes_in_flight(launch);
    for (const auto& [kernel, blocks] : too_few(launches)) {
      INFO(kernel << " has " << blocks << " blocks");
      CHECK(blocks <= listed[kernel]);
      most[kernel] = std::max(most[kernel], blocks);
    }
  };
  check("MLP", digits_step(samples::Mlp(4096), 512, "O2"));
  check("LeNet", digits_step(samples::LeNet(32), 1024, "O2"));
  check("char-GPT", gpt_step({}, 64, "O2"));
  check("GPT-2", gpt_step(kGpt2, 16, "O2"));
  check("ResNet-50", resnet_step(MemoryFormat::channels_last, "O2"));
  check("ResNet-50, row-major", resnet_step(MemoryFormat::contiguous, "O0"));
  check("ResNet-50, row-major", resnet_step(MemoryFormat::contiguous, "O2"));
  for (const Small& small : kSmall) {  // the list has no entries too many
    INFO(small.kernel);
    CHECK(most[small.kernel] == small.blocks);
  }
}

TEST_CASE("grids of more than 2^31 elements cover them", "[gpu][fill]") {
  const LargeDryRun scope;
  constexpr std::int64_t kRows = (std::int64_t{1} << 18) + 64, kColumns = 8192;
  const Tensor x = zeros({kRows, kColumns}, {.dtype = bf16, .device = kDevice}),
               w = zeros({kColumns}, {.dtype = bf16, .device = kDevice}),
               odd = x.narrow(1, 1, kColumns - 1);  // no packs
  // Checks the kernel of a call's first launch. `each`: elements per thread, or 0 for a block per
  // row.
  const auto check = [](const char* kernel, const Tensor& operand, std::int64_t each,
                        const auto& call) {
    const emulator::FillLog log;
    call();
    INFO(kernel << " of " << operand.size(1) << " columns");
    REQUIRE(!log.launches.empty());
    const Launch& first = log.launches[0];
    CHECK(first.kernel == kernel);
    if (each == 0) {
      CHECK(first.blocks == operand.size(0));
    } else {
      const std::int64_t of_block = first.threads * each;
      CHECK(first.blocks == (operand.numel() + of_block - 1) / of_block);
    }
  };
  check("forward_packs_kernel", x, 8, [&] { relu(x); });
  check("forward_packs_kernel", x, 8, [&] { x + x; });
  check("forward_kernel", odd, 8, [&] { relu(odd); });
  check("copy_packs_kernel", x, 8, [&] { x.to(f16); });
  check("copy_packs_kernel", x, 8, [&] { x.clone(); });
  check("copy_kernel", odd, 8, [&] { odd.contiguous(); });
  check("packed_softmax_kernel", x, 0, [&] { softmax(x, 1); });
  check("packed_norm_kernel", x, 0, [&] { layer_norm(x, {kColumns}, {.weight = w, .bias = w}); });
  check("packed_row_kernel", x, 0, [&] { sum(x, 1); });
  check("reduce_kernel", odd, 0, [&] { sum(odd, 1); });
  check("transpose_kernel", x, 16, [&] { x.t().contiguous(); });
  check("join_kernel", x, 32,
        [&] { cat({x.slice(0, 0, kRows / 2), x.slice(0, kRows / 2, kRows)}); });
  // Threads loop over the elements: the numbers of blocks are those that fill the GPU.
  const emulator::FillLog log;
  sum(x);
  sum(x, 0);
  for (const Launch& launch : log.launches)
    if (launch.kernel == "reduce_kernel" || launch.kernel == "packed_column_sum_kernel")
      CHECK(launch.blocks >= kEnoughBlocks);
}

TEST_CASE("cross entropy of few lines of many classes fills a GPU", "[gpu][fill]") {
  const LargeDryRun scope;
  for (const std::int64_t lines : {1, 16, 100}) {
    INFO(lines);
    const Tensor x =
        zeros({lines, 50304}, {.dtype = bf16, .device = kDevice, .requires_grad = true});
    const emulator::FillLog log;
    cross_entropy(x, classes({lines})).backward();
    std::int64_t large = 0;
    for (const Launch& launch : log.launches) {
      const bool reads_scores =
          launch.kernel == "packed_loss_kernel" || launch.kernel == "packed_gradient_kernel";
      // A block has at least 256 packs of 8 elements.
      if (reads_scores)
        CHECK(launch.blocks >= std::min<std::int64_t>(kEnoughBlocks, lines * 50304 / 4096));
      CHECK(launch.kernel != "few_lines_kernel");
      CHECK(launch.kernel != "line_loss_kernel");
      large += reads_scores ? 1 : 0;
    }
    CHECK(large == 2);
  }
}

TEST_CASE("gradients of norms of rows of any length fill a GPU", "[gpu][fill]") {
  const LargeDryRun scope;
  for (const std::int64_t width : {64, 768, 1024, 1025, 4096, 16384}) {
    INFO(width);
    const Tensor x =
        zeros({8192, width}, {.dtype = bf16, .device = kDevice, .requires_grad = true});
    const nn::LayerNorm norm{width};
    norm.to(kDevice);
    const auto launches_of = [&](const std::vector<Tensor>& wanted) {
      const Tensor y = norm(x), g = zeros_like(y);
      const emulator::FillLog log;
      grad(TensorList(y), wanted, {}, TensorList(g));
      TooFew few = too_few(log.launches);
      few.erase("join_affine_kernel");
      // One wave, in which all blocks have the same number of rows.
      if (few.contains("packed_backward_kernel") && few["packed_backward_kernel"] == 256)
        few.erase("packed_backward_kernel");
      CHECK(few.empty());
      return log.launches.size();
    };
    CHECK(launches_of({x, norm.weight(), norm.bias()}) ==
          (width % 8 == 0 && width <= 8192 ? 1 : 3));
    norm.freeze();
    CHECK(launches_of({x}) == 1);  // the parameter gradients are not requested
  }
}

TEST_CASE("batch norms of ResNet-50 fill a GPU", "[gpu][fill]") {
  const LargeDryRun scope;
  struct Layer {
    std::int64_t channels, pixels;
  };
  constexpr Layer kLayers[] = {{64, 112}, {64, 56},   {256, 56}, {128, 28}, {512, 28},
                               {256, 14}, {1024, 14}, {512, 7},  {2048, 7}};
  for (const MemoryFormat format : {MemoryFormat::channels_last, MemoryFormat::contiguous})
    for (const auto& [channels, pixels] : kLayers) {
      INFO(name(format) << " " << channels << " channels of " << pixels << " x " << pixels);
      const Tensor x =
          zeros({256, channels, pixels, pixels}, {.dtype = bf16, .device = kDevice}).to(format);
      x.requires_grad_();
      const nn::BatchNorm2d norm{channels};
      norm.to(kDevice);
      const emulator::FillLog log;
      const Tensor y = nn::batch_norm_relu(norm, x), g = zeros_like(y);
      grad(TensorList(y), std::vector{x, norm.weight(), norm.bias()}, {}, TensorList(g));
      CHECK(log.launches.size() >= 2);
      for (const Launch& launch : log.launches) {
        if (launch.kernel.starts_with("join_")) continue;  // of few sums per channel
        INFO(launch.kernel << " has " << launch.blocks << " blocks of " << launch.threads);
        CHECK(launch.blocks * launch.threads >= kEnoughBlocks * 256);
      }
    }
}

TEST_CASE("sums of columns fill a GPU", "[gpu][fill]") {
  const LargeDryRun scope;
  for (const std::int64_t columns : {384, 768, 2304, 3072, 50304}) {
    INFO(columns);
    const Tensor x = zeros({16 * 1024, columns}, {.dtype = bf16, .device = kDevice});
    const emulator::FillLog log;
    const Tensor y = sum(x, 0);
    std::int64_t most = 0;
    for (const Launch& launch : log.launches) most = std::max(most, launch.blocks * launch.threads);
    CHECK(most >= kEnoughBlocks * 256);
  }
}
