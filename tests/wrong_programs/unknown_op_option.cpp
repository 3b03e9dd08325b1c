// error: ReduceOptions|sum
#include <mezzo.h>

using namespace mezzo;

int main() { return sum(ones({2}), 0, {.keep_dim = true}).dim(); }
