// Reports of bench --ranks and bench --scaling-model: tables, JSON and a page.
#pragma once

#include <string>
#include <vector>

#include "ranks.h"
#include "scaling.h"

namespace samples {

/** What applies to all rows of a report. */
struct RankFacts {
  std::string size;                     // size of the nets
  std::int64_t warm_up = 0, steps = 0;  // RankOptions
};

/** Returns the environment and the facts as a JSON object in one line. */
std::string json(const RankFacts& facts);

/** Returns a table with a line for each row. */
mezzo::TextTable text_table(const std::vector<RankRow>& rows);
/** Returns the facts and the rows as a JSON object. Numbers that are not finite are null. */
std::string json(const RankFacts& facts, const std::vector<RankRow>& rows);
/** Returns a page with the table, and bars for each net. It needs no network. */
std::string page(const RankFacts& facts, const std::vector<RankRow>& rows);

/** Returns tables of the communicator, of predicted and measured steps, and of predictions for 2 to
 *  512 ranks. */
std::string tables(const ScalingResults& results);
/** Returns the facts and the results as a JSON object. */
std::string json(const RankFacts& facts, const ScalingResults& results);

}  // namespace samples
