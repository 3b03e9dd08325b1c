// The page of a report without its data, and its style. The build makes the definitions from page/.
#pragma once

#include <string>

namespace mezzo::amp::report {

/** Returns the page, in which @DATA@ stands for the element that holds the lines. */
std::string page_template();

/** Returns the style sheet, which the bench's page has too. */
std::string page_style();

}  // namespace mezzo::amp::report
