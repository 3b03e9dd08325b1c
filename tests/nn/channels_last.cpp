// Modules in channels-last: parameters keep identity and values, results keep the layout, and
// states load from either layout into the other.
#include "support.h"

using namespace mezzo;

namespace {

constexpr MemoryFormat kLast = MemoryFormat::channels_last;

struct VolumeNet : nn::Model<VolumeNet> {
  nn::Conv2d first = add("first", nn::Conv2d{3, 4, 3, {.padding = 1}});
  nn::Conv2d point = add("point", nn::Conv2d{4, 5, 1});
  nn::ConvTranspose2d up = add("up", nn::ConvTranspose2d{5, 2, 2, {.stride = 2}});
  nn::Conv3d volume = add("volume", nn::Conv3d{1, 2, 2});
  nn::Linear fc = add("fc", nn::Linear{2, 3});
  /** Returns the activations before the mean over the pixels. */
  Tensor images(const Tensor& x) const { return up(relu(point(max_pool2d(relu(first(x)), 2)))); }
  Tensor forward(const Tensor& x) const { return fc(mean(images(x), {2, 3})); }
};

std::vector<std::vector<double>> all_values(const nn::Module& module) {
  std::vector<std::vector<double>> out;
  for (const Tensor& p : module.parameters()) out.push_back(values(p));
  return out;
}

/** Trains a net for some steps, in channels-last from the given step on, and returns its values. */
std::vector<std::vector<double>> trained_parameters(int channels_last_from) {
  manual_seed(4);
  const VolumeNet net;
  const Tensor x = randn({2, 3, 6, 6}), target = tensor({0, 2}, {2}, {.dtype = i64});
  optim::Adam optimizer(net.parameters(), {.lr = 0.01});
  for (int i = 0; i < 4; ++i) {
    if (i == channels_last_from) net.to(kLast);
    optimizer.zero_grad();
    cross_entropy(net(i >= channels_last_from ? x.to(kLast) : x), target).backward();
    (void)optimizer.step();
  }
  return all_values(net);
}

}  // namespace

TEST_CASE("a module converts to channels-last and back and keeps its tensors and values") {
  const VolumeNet net;
  const std::vector<Tensor> before = net.parameters();
  const auto numbers = all_values(net);
  const nn::StateDict state = net.state_dict();
  sum(net(randn({2, 3, 6, 6}))).backward();
  const auto gradient = values(net.first.weight().grad());
  net.to(kLast);
  CHECK(net.first.weight().strides() == Strides{27, 1, 9, 3});
  CHECK(net.point.weight().strides() == Strides{4, 1, 4, 4});
  CHECK(net.up.weight().strides() == Strides{8, 1, 4, 2});
  CHECK(net.volume.weight().strides() == Strides{8, 1, 4, 2, 1});
  CHECK(net.fc.weight().is_contiguous());
  for (std::size_t i = 0; i < before.size(); ++i) {
    CHECK(net.parameters()[i].is_same(before[i]));
    CHECK(before[i].is_leaf());
    CHECK(before[i].requires_grad());
  }
  CHECK(all_values(net) == numbers);
  CHECK(values(net.first.weight().grad()) == gradient);
  CHECK(same_dense_layout(net.first.weight().grad(), net.first.weight()));
  for (const auto& [name, value] : net.state_dict())
    CHECK(values(value) == values(state.find(name)));
  net.to(MemoryFormat::contiguous);
  for (const Tensor& p : net.parameters()) CHECK(p.strides() == contiguous_strides(p.shape()));
  CHECK(all_values(net) == numbers);
}

TEST_CASE("the images of a channels-last net are channels-last, also for row-major inputs") {
  manual_seed(3);
  const VolumeNet net;
  const Tensor x = randn({2, 3, 6, 6});
  const Tensor expected = net.images(x);
  CHECK(expected.is_contiguous());
  net.to(kLast);
  for (const Tensor& in : {x, x.to(kLast)}) {
    const Tensor y = net.images(in);
    CHECK(y.is_contiguous(kLast));
    CHECK_FALSE(y.is_contiguous());
    CHECK(values(y) == values(expected));
  }
}

TEST_CASE("training gives the same bits in every memory format") {
  const auto expected = trained_parameters(100);
  CHECK(trained_parameters(0) == expected);
  CHECK(trained_parameters(2) ==
        expected);  // moments created before the conversion follow the new layout
}

TEST_CASE("states load into channels-last parameters and keep their layout") {
  manual_seed(1);
  const VolumeNet from, to;
  to.to(kLast);
  const Strides strides = to.first.weight().strides();
  CHECK(all_values(from) != all_values(to));
  to.load_state_dict(from.state_dict());
  CHECK(all_values(from) == all_values(to));
  CHECK(to.first.weight().strides() == strides);
  manual_seed(8);
  const VolumeNet back;
  back.load_state_dict(to.state_dict());
  CHECK(all_values(back) == all_values(from));
  CHECK(back.first.weight().is_contiguous());
}
