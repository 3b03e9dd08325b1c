// error: forward does not take these arguments
#include <mezzo.h>

using namespace mezzo;

struct Net : nn::Model<Net> {
  Tensor forward(const Tensor& x, const Tensor& mask) const { return x * mask; }
};
int main() { return Net()(ones({1, 4})).dim(); }
