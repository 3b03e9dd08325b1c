// The page of a report without its data. The build makes the definition from page/.
#pragma once

#include <string>

namespace mezzo::amp::report {

/** Returns the page, in which @DATA@ stands for the element that holds the lines. */
std::string page_template();

}  // namespace mezzo::amp::report
