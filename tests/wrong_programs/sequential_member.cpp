// error: a public forward that takes one Tensor
#include <mezzo.h>

using namespace mezzo;

struct TwoInputs : nn::Model<TwoInputs> {
  Tensor forward(const Tensor& x, const Tensor& y) const { return x + y; }
};
int main() { return nn::Sequential(nn::Linear(4, 2), TwoInputs())(ones({1, 4})).dim(); }
