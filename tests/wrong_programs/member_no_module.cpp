// error: add() takes a module
#include <mezzo.h>

using namespace mezzo;

struct Plain {
  Tensor forward(const Tensor& x) const { return x; }
};
struct Net : nn::Model<Net> {
  Plain plain = add("plain", Plain());
  Tensor forward(const Tensor& x) const { return plain.forward(x); }
};
int main() { return Net()(ones({1, 4})).dim(); }
