// comm::Reducer averages gradients on demand.
#include "trainees.h"

using namespace trainees;

TEST_CASE("a reducer averages gradients and gives all ranks the weights of rank 0") {
  const int n = ranks().size(), rank = ranks().rank();
  for (const DType dtype : {f32, f16, bf16}) {
    manual_seed(static_cast<std::uint64_t>(rank));
    nn::Linear model{3, 2};
    model.to(dtype);
    const comm::Reducer reducer(model, ranks());
    states::State state{{"weight", states::bytes_of(model.weight())}};
    CHECK(difference_between_ranks(state) == "");
    model.weight().set_grad(full({2, 3}, rank + 1, {.dtype = dtype}));
    reducer.reduce();
    CHECK(model.weight().grad().to_vector<double>() ==
          std::vector<double>(6, full({}, (n + 1) / 2.0, {.dtype = dtype}).item<double>()));
    CHECK(!model.bias().grad().defined());
  }
}

TEST_CASE("a reducer takes a list of tensors, dense or not") {
  const int n = ranks().size(), rank = ranks().rank();
  const Tensor a = full({2, 3}, rank).requires_grad_();
  const comm::Reducer reducer({a}, ranks());
  CHECK(a.detach().to_vector<double>() == std::vector<double>(6, 0));
  a.set_grad(full({3}, rank).expand({2, 3}));
  reducer.reduce();
  for (const double x : a.grad().to_vector<double>()) CHECK(x == Approx((n - 1) / 2.0));
}
