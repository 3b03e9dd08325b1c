// error: replace() takes the member itself: net.replace(net.head, nn::Linear{8, 3})
#include <mezzo.h>

using namespace mezzo;

struct Net : nn::Model<Net> {
  nn::Linear head = add("head", nn::Linear{4, 2});
  Tensor forward(const Tensor& x) const { return head(x); }
};
int main() {
  Net net;
  net.replace("head", nn::Linear{4, 3});
}
