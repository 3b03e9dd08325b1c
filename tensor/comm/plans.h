// The plans of the operations: which transfers and which local arithmetic each consists of.
#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "job.h"

namespace mezzo::comm::detail {

/** The data of an operation, as flat arrays. */
struct Operands {
  const void* in = nullptr;
  void* out = nullptr;     // in all_reduce and broadcast: the same as `in`
  std::int64_t count = 0;  // elements per block, as in Transfer
};

/** Returns how many bytes of data a rank puts into its frame; 0 if they do not fit and transfers
 *  are needed. */
std::size_t bytes_in_frame(const Frame& frame, const Operands& operands);

/** Returns the plan of an all_reduce, reduce_scatter, all_gather, broadcast or all_to_all.
 *  `in_frame`: the frames hold the data. `max_count`: the most elements per block of a transfer. */
std::unique_ptr<Plan> plan_for(const Frame& frame, const Operands& operands, bool in_frame,
                               std::int64_t max_count);

/** Returns a plan that gathers `text` of every rank into `texts`. The frames hold the lengths, as
 *  put_length() writes them. */
std::unique_ptr<Plan> gather_text_plan(std::string text, std::vector<std::string>& texts);
void put_length(Frame& frame, std::size_t length);

/** Returns a plan that makes groups of equal colors. The frames hold color and key, as put_split()
 *  writes them. */
std::unique_ptr<Plan> split_plan(std::shared_ptr<Group>& made);
void put_split(Frame& frame, int color, int key);

/** Copies up to 32 bytes of a text into the frame. */
void put_name(Frame& frame, std::string_view name);

}  // namespace mezzo::comm::detail
