// Mixed precision and memory formats: casts, masters, gradients and checkpoints keep the layout of
// channels-last parameters, and give the same bits; on a GPU, where a library's choice of
// algorithms depends on the format, the same numbers within roundings.
#include "../io/files.h"
#include "../support/catch.h"
#include "../support/levels.h"
#include "../support/same_bits.h"
#include "conv_net.h"

using namespace conv_net;
using nets::quiet;

namespace {

constexpr MemoryFormat kLast = MemoryFormat::channels_last;

/** A net, its optimizer and its session. The norm is not trained: its sums follow the order of
 *  memory, so their last bits depend on the layout. */
struct Parts {
  explicit Parts(const char* level, MemoryFormat format, const optimizers::Factory& make)
      : net(in(format)),
        optimizer(make(net.parameters())),
        session(amp::initialize(net, *optimizer, quiet(level))) {}

  static ConvNet in(MemoryFormat format) {
    ConvNet net;
    net.to(format);
    net.bn.eval();
    for (const Tensor& p : net.bn.parameters()) p.requires_grad_(false);
    return net;
  }
  void steps(int count) {
    const Tensor x = nets::wave({4, 2, 6, 6}, 0.3).to(net.conv.weight().memory_format());
    const Tensor classes = tensor({0, 1, 2, 1}, {4}, {.dtype = i64, .device = nets::test_device()});
    for (int i = 0; i < count; ++i) {
      optimizer->zero_grad();
      amp::scale_loss(cross_entropy(net(x), classes), *optimizer,
                      [](const Tensor& loss) { loss.backward(); });
      (void)optimizer->step();
    }
  }
  std::vector<std::vector<double>> values() const {
    std::vector<std::vector<double>> out;
    for (const Tensor& p : optimizer->params()) out.push_back(nets::values(p));
    return out;
  }

  ConvNet net;
  optimizers::Made optimizer;
  amp::Session session;
};

/** Returns whether two trainings, in different formats, have the same parameters. */
bool agree(const Parts& got, const Parts& expected) {
  const auto a = got.values(), b = expected.values();
  if (a == b || !mezzo::testing::is_gpu(nets::test_device())) return a == b;
  for (std::size_t p = 0; p < b.size(); ++p)
    for (std::size_t i = 0; i < b[p].size(); ++i)
      if (!(a[p][i] == Approx(b[p][i]).epsilon(0.02).margin(0.02))) return false;
  return a.size() == b.size();
}

}  // namespace

TEST_CASE("every level trains channels-last nets to the same bits, and keeps their layout",
          "[levels]") {
  for (const char* level : levels::names())
    for (const optimizers::Kind& kind : optimizers::kinds()) {
      INFO(level << " " << kind.name);
      Parts rows(level, MemoryFormat::contiguous, kind.make), last(level, kLast, kind.make);
      rows.steps(3);
      last.steps(3);
      CHECK(agree(last, rows));
      const Strides strides = strides_in(kLast, last.net.conv.weight().shape());
      CHECK(last.net.conv.weight().strides() == strides);
      for (const Tensor& p : last.optimizer->params())
        if (p.dim() == 4) CHECK(p.strides() == strides);
      CHECK(last.net.conv.weight().grad().strides() == strides);
    }
}

TEST_CASE("a closed session leaves channels-last parameters behind", "[levels]") {
  Parts parts("O2", kLast, optimizers::kinds().front().make);
  parts.steps(1);
  parts.session.close();
  CHECK(parts.net.conv.weight().dtype() == f32);
  CHECK(parts.net.conv.weight().is_contiguous(kLast));
  CHECK_FALSE(parts.net.conv.weight().is_contiguous());
}

TEST_CASE("checkpoints of row-major trainings continue in channels-last nets and vice versa",
          "[checkpoint]") {
  const auto& make = optimizers::kinds().front().make;
  for (const char* level : {"O0", "O1", "O2", "O3"})
    for (const auto& [from, to] :
         {std::pair{MemoryFormat::contiguous, kLast}, {kLast, MemoryFormat::contiguous}}) {
      INFO(level << " " << name(from));
      const files::Directory directory = files::Directory::fast();
      Parts whole(level, from, make), resumed(level, to, make);
      whole.steps(2);
      resumed.steps(1);
      amp::save_checkpoint(
          directory.path(),
          {.model = whole.net, .optimizer = *whole.optimizer, .session = whole.session});
      (void)amp::load_checkpoint(
          directory.path(),
          {.model = resumed.net, .optimizer = *resumed.optimizer, .session = resumed.session});
      CHECK(resumed.values() == whole.values());
      CHECK(resumed.net.conv.weight().is_contiguous(to));
      whole.steps(2);
      resumed.steps(2);
      CHECK(agree(resumed, whole));
      CHECK(resumed.net.conv.weight().strides() ==
            strides_in(to, resumed.net.conv.weight().shape()));
    }
}
