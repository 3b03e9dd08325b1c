// Transport: the interface to a library that passes messages between processes. The libraries are
// loaded at run time, so this header needs nothing of Mezzo at link time.
#pragma once

#include <cstdint>
#include <string>

#include "../core/dtype.h"
#include "reduction.h"

namespace mezzo::comm::detail {

/** The kinds of collective operations. */
enum class TransferKind : std::uint8_t {
  all_reduce,
  reduce_scatter,
  all_gather,
  broadcast,
  all_to_all
};

/** One collective operation. "Blocks" are what is sent to or received from one rank. */
struct Transfer {
  TransferKind kind = TransferKind::broadcast;
  int group = 0;                // as returned by Transport::split(); 0: all ranks
  const void* in = nullptr;     // null: the input is where the output goes
  void* out = nullptr;          // a broadcast has only this one
  DType dtype = DType::u8;      // of an element
  std::int64_t count = 0;       // elements per block; all elements in all_reduce and broadcast; at
                                // most 2^30
  std::int64_t in_stride = 0;   // elements from one block of `in` to the next; 0: `count`
  std::int64_t out_stride = 0;  // the same for `out`
  Op op = Op::sum;              // all_reduce and reduce_scatter
  int root = 0;                 // broadcast
  bool skips_own = false;  // all_gather and all_to_all: this rank's own block of `out` stays as
                           // it is, and the others are sent directly from rank to rank
  bool is_frame = false;   // of a Frame; kept apart from data, so that neither arrives as the
                           // other where ranks are in different operations
};

/** Combines elements, as cpu_kernels::combine does. */
using Combine = void (*)(DType dtype, Op op, const void* from, void* into, std::int64_t n);

/** A started message-passing library. One thread makes all calls. No call blocks, except open(),
 *  split() and close(), which every rank makes at the same time. Functions that return a string
 *  return an error's text, empty if there is none. */
class Transport {
 public:
  virtual ~Transport() = default;

  /** Starts the library and connects the ranks. */
  virtual std::string open() = 0;
  virtual int rank() const = 0;
  virtual int size() const = 0;
  /** Returns this rank's number among those of its machine. */
  virtual int local_rank() const = 0;
  /** Returns the number of threads that this rank may use; see thread_share(). */
  virtual int threads() const = 0;

  /** Starts a transfer; the one before has ended. The memory stays in use until test() says that
   *  it is done. */
  virtual std::string start(const Transfer& transfer) = 0;
  /** Makes progress; sets `done` if the transfer has ended. */
  virtual std::string test(bool& done) = 0;
  /** Makes groups of the ranks of `group` with equal `color`, in the order of `key`. Sets `made`
   *  to this rank's new group. */
  virtual std::string split(int group, int color, int key, int& made) = 0;

  /** Sends a text of at most kMaxNote bytes to all other ranks, who need not expect it. */
  virtual void send_note(const std::string& text) = 0;
  /** Returns true, and sets the arguments, if a note has arrived. */
  virtual bool receive_note(int& from, std::string& text) = 0;
  /** Returns true if all notes have left this process. */
  virtual bool notes_sent() = 0;

  /** Ends the library. */
  virtual void close() = 0;
};

/** The longest note, in bytes. */
inline constexpr std::size_t kMaxNote = 2000;

/** Changes whenever this header does, so that a library of another version is refused. */
inline constexpr int kTransportVersion = 3;

/** What a transport library exports under the name kTransportSymbol. */
struct TransportLibrary {
  int version;          // kTransportVersion
  const char* family;   // "Open MPI", "MPICH"
  const char* release;  // the version that it was compiled against
  Transport* (*create)(Combine combine);
};
inline constexpr const char* kTransportSymbol = "mezzo_transport";

}  // namespace mezzo::comm::detail
