// The format of tables and numbers that the samples print.
#pragma once

#include <mezzo.h>

namespace samples {

using mezzo::bytes_text;
using mezzo::fixed;
using Table = mezzo::TextTable;

}  // namespace samples
