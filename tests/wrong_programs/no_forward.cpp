// error: this model has no forward
#include <mezzo.h>

using namespace mezzo;

struct Net : nn::Model<Net> {
  nn::Linear fc = add("fc", nn::Linear{4, 2});
};
int main() { return Net()(ones({1, 4})).dim(); }
