// error: the members of a Sequential are modules
#include <mezzo.h>

using namespace mezzo;

int main() { return nn::Sequential(nn::Linear(4, 2), relu)(ones({1, 4})).dim(); }
