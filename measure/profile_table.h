// table_of(): the rows of a profile as text.
#pragma once

#include <string>
#include <vector>

#include "profiler.h"

namespace mezzo::detail {

/** Returns the table of Profiler::table(), one line per row, columns aligned. Columns without
 *  figures are left out. */
std::string table_of(std::vector<ProfileRow> rows, const ProfileTableOptions& options);

}  // namespace mezzo::detail
