// Pieces of lines, for long lines that several blocks share.
#pragma once

#include "lines.h"

namespace mezzo::gpu {

/** Blocks that keep a GPU busy: four for each multiprocessor of an H100. */
inline constexpr std::int64_t kPlenty = 4 * 132;

/** Returns the offset of a line's first element. */
MZ_HD inline std::int64_t first_place(const Lines& lines, std::int64_t line) {
  return line / lines.inner * lines.length * lines.inner + line % lines.inner;
}

/** Lines cut into pieces of equal length, except the last. */
struct Pieces {
  std::int64_t length = 0, count = 1;  // elements of a piece, pieces of a line

  Pieces(std::int64_t elements, std::int64_t its_length)
      : length(its_length), count(blocks_for(elements, its_length)) {}
  std::int64_t blocks(const Lines& lines) const { return lines.blocks() * count; }
  Grid grid(const Lines& lines) const {
    return {.blocks = blocks(lines), .threads = lines.spread.threads()};
  }
};

/** A LineWalk over the calling block's piece of the line. Element indices are those of the line. */
struct PieceWalk : LineWalk {
  std::int64_t number, begin, end;  // index of the piece in its line, and its range of elements

  __device__ PieceWalk(const Lines& l, const Pieces& pieces)
      : LineWalk(l, blockIdx.x / static_cast<unsigned>(pieces.count)),
        number(blockIdx.x % static_cast<unsigned>(pieces.count)),
        begin(number * pieces.length),
        end(begin + pieces.length < l.length ? begin + pieces.length : l.length) {}
  template <class F> __device__ void for_each(F&& f) const {
    if (has_line)
      for (std::int64_t i = begin + at.part; i < end; i += lines.spread.parts)
        f(base + i * lines.inner, i);
  }
  template <class State, class Combine, class Value>
  __device__ State fold(State* room, State start, const Combine& combine, Value&& value) const {
    State state = start;
    for_each([&](std::int64_t place, std::int64_t i) { state = combine(state, value(place, i)); });
    return joined(lines.spread, at, room, state, combine);
  }
};

}  // namespace mezzo::gpu
