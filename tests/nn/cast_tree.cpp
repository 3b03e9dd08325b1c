// map_tensors, and the wrapper around a model's call.
#include "../../nn/cast_tree.h"

#include <array>
#include <deque>
#include <list>
#include <map>
#include <memory>
#include <set>
#include <string>

#include "../../nn/model.h"
#include "../../tensor/ops/ops.h"
#include "../support/catch.h"

using namespace mezzo;

namespace user {

struct Output {
  Tensor logits;
  int count = 0;
  std::vector<Tensor> hidden;
};
auto fields(Output& o) { return std::tie(o.logits, o.count, o.hidden); }

struct Tree {
  Tensor value;
  std::vector<Tree> below;
};
auto fields(Tree& t) { return std::tie(t.value, t.below); }

/** A type with its own map_tensors. */
struct Packed {
  Tensor data;
  Packed to(DType dtype) const { return {data.to(dtype)}; }
};

struct Opaque {
  Tensor inside;
};

struct ByName {
  bool operator()(const std::pair<std::string, Tensor>& a,
                  const std::pair<std::string, Tensor>& b) const {
    return a.first < b.first;
  }
};

}  // namespace user

namespace {

const auto kHalf = [](const Tensor& x) { return is_floating(x.dtype()) ? x.to(f16) : x; };

Tensor one() { return ones({2}); }

struct ToHalf {
  Tensor operator()(const Tensor& x) const { return kHalf(x); }
  template <nn::SelfConverting T> T operator()(const T& v) const { return v.to(f16); }
};

/** Casts inputs to f16 and outputs to f32, and records the calls. */
struct Recorder final : nn::CallWrapper {
  std::vector<std::string> log;
  void begin() override { log.push_back("begin"); }
  void end() noexcept override { log.push_back("end"); }
  Tensor cast_in(const Tensor& x) const override { return x.to(f16); }
  Tensor cast_out(const Tensor& y) const override { return y.to(f32); }
  std::optional<DType> dtype_in() const override { return f16; }
};

}  // namespace

TEST_CASE("tensors inside containers are mapped and the container type is kept") {
  CHECK(nn::map_tensors(one(), kHalf).dtype() == f16);
  const std::vector<Tensor> list{one(), ones({1}, {.dtype = i64})};
  const std::vector<Tensor> halves = nn::map_tensors(list, kHalf);
  CHECK(halves[0].dtype() == f16);
  CHECK(halves[1].is_same(list[1]));
  CHECK(list[0].dtype() == f32);
  CHECK(nn::map_tensors(std::array<Tensor, 2>{one(), one()}, kHalf)[1].dtype() == f16);
  CHECK(nn::map_tensors(std::list<Tensor>{one()}, kHalf).front().dtype() == f16);
  CHECK(nn::map_tensors(std::deque<std::vector<Tensor>>{{one()}}, kHalf)[0][0].dtype() == f16);
  const std::map<std::string, std::pair<Tensor, int>> map{{"a", {one(), 3}}};
  CHECK(nn::map_tensors(map, kHalf).at("a").first.dtype() == f16);
  CHECK(nn::map_tensors(map, kHalf).at("a").second == 3);
  const auto tuple =
      nn::map_tensors(std::make_tuple(one(), 2.5, std::string("x"), std::optional(one())), kHalf);
  CHECK(std::get<0>(tuple).dtype() == f16);
  CHECK(std::get<1>(tuple) == 2.5);
  CHECK(std::get<3>(tuple)->dtype() == f16);
  CHECK_FALSE(nn::map_tensors(std::optional<Tensor>{}, kHalf).has_value());
  const std::variant<int, Tensor> variant = one();
  CHECK(std::get<Tensor>(nn::map_tensors(variant, kHalf)).dtype() == f16);
  CHECK(std::get<int>(nn::map_tensors(std::variant<int, Tensor>{4}, kHalf)) == 4);
  const std::set<std::pair<std::string, Tensor>, user::ByName> set{{"x", one()}, {"a", one()}};
  CHECK(nn::map_tensors(set, kHalf).begin()->second.dtype() == f16);
  const std::map<std::pair<std::string, Tensor>, Tensor, user::ByName> keyed{{{"x", one()}, one()}};
  CHECK(nn::map_tensors(keyed, kHalf).begin()->first.second.dtype() == f16);
}

TEST_CASE("structs with listed members are mapped, others are not") {
  const user::Output out = nn::map_tensors(user::Output{one(), 5, {one()}}, kHalf);
  CHECK(out.logits.dtype() == f16);
  CHECK(out.count == 5);
  CHECK(out.hidden[0].dtype() == f16);
  const user::Tree tree = nn::map_tensors(user::Tree{one(), {user::Tree{one(), {}}}}, kHalf);
  CHECK(tree.below[0].value.dtype() == f16);
  CHECK(nn::map_tensors(user::Opaque{one()}, kHalf).inside.dtype() == f32);
  CHECK(nn::map_tensors(user::Packed{one()}, ToHalf{}).data.dtype() == f16);
  CHECK(nn::map_tensors(user::Packed{one()}, kHalf).data.dtype() == f32);
}

TEST_CASE("references to tensors are returned as values") {
  const std::vector<Tensor> list{one(), one()};
  const std::vector<Tensor> mapped = nn::map_tensors(std::span(list), kHalf);
  CHECK(mapped[0].dtype() == f16);
  CHECK(list[0].dtype() == f32);
  Tensor a = one(), b = one();
  const std::tuple<Tensor, Tensor> pair = nn::map_tensors(std::tie(a, b), kHalf);
  CHECK(std::get<0>(pair).dtype() == f16);
  CHECK(a.dtype() == f32);
}

TEST_CASE("types that cannot hold tensors are detected") {
  using Half = decltype(kHalf);
  STATIC_REQUIRE(nn::kMayHoldTensors<std::vector<std::vector<Tensor>>, Half>);
  STATIC_REQUIRE(nn::kMayHoldTensors<user::Output, Half>);
  STATIC_REQUIRE_FALSE(nn::kMayHoldTensors<std::vector<int>, Half>);
  STATIC_REQUIRE_FALSE(nn::kMayHoldTensors<std::string, Half>);
  STATIC_REQUIRE_FALSE(nn::kMayHoldTensors<std::vector<bool>, Half>);
  STATIC_REQUIRE_FALSE(nn::kMayHoldTensors<std::unique_ptr<Tensor>, Half>);
  STATIC_REQUIRE_FALSE(nn::kMayHoldTensors<nn::Module, ToHalf>);  // its to() converts in place
  STATIC_REQUIRE_FALSE(nn::kMayHoldTensors<Shape, Half>);
}

TEST_CASE("a wrapper encloses the call and casts inputs and outputs") {
  struct Net : nn::Model<Net> {
    DType seen = f64;
    std::pair<Tensor, std::string> forward(const std::vector<Tensor>& in,
                                           const user::Packed& packed, double factor,
                                           std::vector<Tensor>& log) {
      log.push_back(in[0]);
      log.push_back(packed.data);
      return {in[0] * factor, "done"};
    }
  };
  Net net;
  const auto wrapper = std::make_shared<Recorder>();
  net.set_call_wrapper(wrapper);
  Net copy = net;
  std::vector<Tensor> in{ones({2}, {.requires_grad = true})}, log;
  const auto out = copy(in, user::Packed{one()}, 2, log);
  CHECK(out.first.dtype() == f32);
  CHECK(out.second == "done");
  CHECK(log.at(0).dtype() == f16);
  CHECK(log.at(1).dtype() == f16);
  CHECK(wrapper->log == std::vector<std::string>{"begin", "end"});
  sum(out.first).backward();
  CHECK(in[0].grad().dtype() == f32);
  CHECK(in[0].grad().to_vector<double>() == std::vector<double>{2, 2});
  net.set_call_wrapper(nullptr);
  log.clear();
  copy(in, user::Packed{one()}, 2, log);
  CHECK(log.at(0).dtype() == f32);
}

TEST_CASE("a wrapper's end runs when forward throws, and arguments that cannot be copied pass") {
  struct Net : nn::Model<Net> {
    Tensor forward(const std::unique_ptr<int>& number, Tensor x) const {
      if (*number > 0) throw std::runtime_error("positive");
      return x;
    }
  };
  const Net net;
  const auto wrapper = std::make_shared<Recorder>();
  net.set_call_wrapper(wrapper);
  CHECK_THROWS_AS(net(std::make_unique<int>(1), one()), std::runtime_error);
  CHECK(wrapper->log == std::vector<std::string>{"begin", "end"});
  CHECK(net(std::make_unique<int>(0), one()).dtype() == f32);
}
