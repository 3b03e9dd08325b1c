// error: forward does not take these arguments
#include <mezzo.h>

using namespace mezzo;

int main() { return nn::Linear(4, 2)(std::string("text")).dim(); }
