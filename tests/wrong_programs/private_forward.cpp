// error: or is not public
#include <mezzo.h>

using namespace mezzo;

class Net : public nn::Model<Net> {
  Tensor forward(const Tensor& x) const { return x; }
};
int main() { return Net()(ones({1, 4})).dim(); }
