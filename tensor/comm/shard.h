// Shard: which part of something that several processes divide belongs to this one.
#pragma once

namespace mezzo::comm {

/** Which of `count` equal shares of something belongs to a process. */
struct Shard {
  int index = 0;  // from 0
  int count = 1;  // number of shares
};

}  // namespace mezzo::comm
