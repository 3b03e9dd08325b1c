// error: Linear
#include <mezzo.h>

using namespace mezzo;

int main() { return nn::Linear(4, 2, {.use_bias = false})(ones({1, 4})).dim(); }
