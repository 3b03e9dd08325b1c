// The transport over MPI: libmezzo-mpi.so, loaded by load_mpi.cpp. The only file that includes the
// header of MPI. It uses nothing of libmezzo, so it fits programs that link the static library as
// well.
#include <mpi.h>

#include <algorithm>
#include <cstring>
#include <deque>
#include <memory>
#include <vector>

#include "../device/cpu_set.h"
#include "transport.h"

namespace mezzo::comm::detail {

namespace {

#if defined(OPEN_MPI)
constexpr const char* kFamily = "Open MPI";
#else
constexpr const char* kFamily = "MPICH";
#endif
#if defined(OMPI_MAJOR_VERSION)
#  define MZ_TEXT_OF(x) #x
#  define MZ_RELEASE(a, b, c) MZ_TEXT_OF(a) "." MZ_TEXT_OF(b) "." MZ_TEXT_OF(c)
constexpr const char* kRelease =
    MZ_RELEASE(OMPI_MAJOR_VERSION, OMPI_MINOR_VERSION, OMPI_RELEASE_VERSION);
#elif defined(MPICH_VERSION)
constexpr const char* kRelease = MPICH_VERSION;
#else
constexpr const char* kRelease = "";
#endif

constexpr int kNoteTag = 1, kDataTag = 2;

std::string text_of(int code) {
  if (code == MPI_SUCCESS) return {};
  char text[MPI_MAX_ERROR_STRING] = "";
  int length = 0;
  MPI_Error_string(code, text, &length);
  return std::string(text, static_cast<std::size_t>(length));
}

// MPI calls a reduction without a pointer to the caller's data: a function for each pair of dtype
// and op.
Combine the_combine = nullptr;
using Function = void (*)(void* from, void* into, int* n, MPI_Datatype* type);
template <DType dtype, Op op> void call_combine(void* from, void* into, int* n, MPI_Datatype*) {
  the_combine(dtype, op, from, into, *n);
}
constexpr Function kLowFunctions[2][kNumOps] = {
    {call_combine<f16, Op::sum>, call_combine<f16, Op::max>, call_combine<f16, Op::min>},
    {call_combine<bf16, Op::sum>, call_combine<bf16, Op::max>, call_combine<bf16, Op::min>},
};
// MPI does not specify the maximum and minimum of NaN, so our own functions are used.
constexpr Function kWideFunctions[2][kNumOps] = {
    {nullptr, call_combine<f32, Op::max>, call_combine<f32, Op::min>},
    {nullptr, call_combine<f64, Op::max>, call_combine<f64, Op::min>},
};

Function function_for(DType dtype, Op op) {
  const auto i = static_cast<std::size_t>(op);
  if (is_low(dtype)) return kLowFunctions[dtype == bf16][i];
  // Open MPI 4.1 saturates sums of bytes where the CPU has vectors of them, and else wraps.
  if (dtype == u8 && op == Op::sum) return call_combine<u8, Op::sum>;
  return is_floating(dtype) ? kWideFunctions[dtype == f64][i] : nullptr;
}

MPI_Op builtin(Op op) {
  switch (op) {
    case Op::sum: return MPI_SUM;
    case Op::max: return MPI_MAX;
    case Op::min: break;
  }
  return MPI_MIN;
}

MPI_Datatype type_for(DType dtype) {
  switch (dtype) {
    case DType::boolean:
    case DType::u8: return MPI_UINT8_T;
    case DType::i32: return MPI_INT32_T;
    case DType::i64: return MPI_INT64_T;
    case DType::f16:
    case DType::bf16: return MPI_UINT16_T;
    case DType::f32: return MPI_FLOAT;
    case DType::f64: break;
  }
  return MPI_DOUBLE;
}

/** How MPI describes one block: a count of elements, or one element of a type that spans a block
 *  and its distance to the next. */
class Blocks {
 public:
  Blocks(const Transfer& t, std::int64_t stride) : type_(type_for(t.dtype)) {
    if (stride == 0 || stride == t.count) {
      count_ = static_cast<int>(t.count);
      return;
    }
    MPI_Datatype block = MPI_DATATYPE_NULL;
    MPI_Type_contiguous(static_cast<int>(t.count), type_, &block);
    const auto extent = static_cast<MPI_Aint>(stride) * static_cast<MPI_Aint>(item_size(t.dtype));
    MPI_Type_create_resized(block, 0, extent, &type_);
    MPI_Type_free(&block);
    MPI_Type_commit(&type_);
    count_ = 1;
    is_made_ = true;
  }
  ~Blocks() {  // MPI keeps a type until the transfers that use it are over
    if (is_made_) MPI_Type_free(&type_);
  }
  Blocks(const Blocks&) = delete;
  Blocks& operator=(const Blocks&) = delete;

  int count() const { return count_; }
  MPI_Datatype type() const { return type_; }

 private:
  MPI_Datatype type_;
  int count_ = 0;
  bool is_made_ = false;
};

/** Returns this rank's number of threads, where `here` are the ranks of its machine. */
int threads_of(MPI_Comm here) {
  int rank = 0, size = 1;
  MPI_Comm_rank(here, &rank);
  MPI_Comm_size(here, &size);
  const CpuSet own = usable_cpus();
  std::vector<CpuSet> all(static_cast<std::size_t>(size), own);
  MPI_Allgather(&own, sizeof own, MPI_BYTE, all.data(), sizeof own, MPI_BYTE, here);
  return thread_share(all, static_cast<std::size_t>(rank));
}

/** A note on its way: one message per rank. */
struct SentNote {
  std::string text;
  std::vector<MPI_Request> requests;
};

class MpiTransport final : public Transport {
 public:
  std::string open() override {
    int on = 0;
    MPI_Initialized(&on);
    if (on) return "the program has called MPI_Init; call comm::init() instead";
    int provided = 0;
    if (const int code = MPI_Init_thread(nullptr, nullptr, MPI_THREAD_FUNNELED, &provided))
      return text_of(code);
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank_);
    MPI_Comm_size(MPI_COMM_WORLD, &size_);
    MPI_Comm all = MPI_COMM_NULL;
    if (const int code = MPI_Comm_dup(MPI_COMM_WORLD, &all)) return text_of(code);
    if (const int code = add_group(all)) return text_of(code);
    if (const int code = MPI_Comm_dup(MPI_COMM_WORLD, &notes_)) return text_of(code);
    MPI_Comm here = MPI_COMM_NULL;
    MPI_Comm_split_type(MPI_COMM_WORLD, MPI_COMM_TYPE_SHARED, rank_, MPI_INFO_NULL, &here);
    MPI_Comm_rank(here, &local_rank_);
    threads_ = threads_of(here);
    MPI_Comm_free(&here);
    make_operations();
    expect_note();
    return {};
  }

  int rank() const override { return rank_; }
  int size() const override { return size_; }
  int local_rank() const override { return local_rank_; }
  int threads() const override { return threads_; }

  std::string start(const Transfer& t) override {
    const Group& group = groups_[static_cast<std::size_t>(t.group)];
    const MPI_Comm comm = t.is_frame ? group.frames : group.data;
    const void* in = t.in ? t.in : MPI_IN_PLACE;
    const auto count = static_cast<int>(t.count);
    const MPI_Datatype type = type_for(t.dtype);
    if (t.skips_own) return start_direct(t, group);
    switch (t.kind) {
      case TransferKind::all_reduce:
        return text_of(MPI_Iallreduce(in, t.out, count, type, operation(t), comm, &running_));
      case TransferKind::reduce_scatter:
        return text_of(
            MPI_Ireduce_scatter_block(in, t.out, count, type, operation(t), comm, &running_));
      case TransferKind::broadcast:
        return text_of(MPI_Ibcast(t.out, count, type, t.root, comm, &running_));
      case TransferKind::all_gather: {
        const Blocks to(t, t.out_stride);
        return text_of(
            MPI_Iallgather(in, count, type, t.out, to.count(), to.type(), comm, &running_));
      }
      case TransferKind::all_to_all: break;
    }
    const Blocks from(t, t.in_stride), to(t, t.out_stride);
    return text_of(MPI_Ialltoall(in, from.count(), from.type(), t.out, to.count(), to.type(), comm,
                                 &running_));
  }

  std::string test(bool& done) override {
    int flag = 0;
    const int code = direct_.empty() ? MPI_Test(&running_, &flag, MPI_STATUS_IGNORE)
                                     : MPI_Testall(static_cast<int>(direct_.size()), direct_.data(),
                                                   &flag, MPI_STATUSES_IGNORE);
    done = flag != 0;
    if (done) direct_.clear();
    return text_of(code);
  }

  std::string split(int group, int color, int key, int& made) override {
    MPI_Comm comm = MPI_COMM_NULL;
    const int code =
        MPI_Comm_split(groups_[static_cast<std::size_t>(group)].data, color, key, &comm);
    if (code != MPI_SUCCESS) return text_of(code);
    made = static_cast<int>(groups_.size());
    return text_of(add_group(comm));
  }

  void send_note(const std::string& text) override {
    SentNote& note = sent_.emplace_back(SentNote{text.substr(0, kMaxNote), {}});
    for (int to = 0; to < size_; ++to)
      if (to != rank_)
        MPI_Isend(note.text.data(), static_cast<int>(note.text.size()), MPI_CHAR, to, kNoteTag,
                  notes_, &note.requests.emplace_back());
  }

  bool receive_note(int& from, std::string& text) override {
    int flag = 0;
    MPI_Status status;
    if (MPI_Test(&expected_, &flag, &status) != MPI_SUCCESS || !flag) return false;
    int length = 0;
    MPI_Get_count(&status, MPI_CHAR, &length);
    from = status.MPI_SOURCE;
    text.assign(received_, static_cast<std::size_t>(length));
    expect_note();
    return true;
  }

  bool notes_sent() override {
    return std::all_of(sent_.begin(), sent_.end(), [](SentNote& note) {
      int flag = 0;
      MPI_Testall(static_cast<int>(note.requests.size()), note.requests.data(), &flag,
                  MPI_STATUSES_IGNORE);
      return flag != 0;
    });
  }

  void close() override {
    while (!notes_sent()) {}
    MPI_Cancel(&expected_);
    MPI_Wait(&expected_, MPI_STATUS_IGNORE);
    for (auto& row : operations_)
      for (MPI_Op& op : row)
        if (op != MPI_OP_NULL) MPI_Op_free(&op);
    for (Group& group : groups_) MPI_Comm_free(&group.frames), MPI_Comm_free(&group.data);
    MPI_Comm_free(&notes_);
    MPI_Finalize();
  }

 private:
  struct Group {
    MPI_Comm frames, data;
    int rank = 0, size = 1;
  };

  int add_group(MPI_Comm data) {
    Group group{MPI_COMM_NULL, data};
    const int code = MPI_Comm_dup(data, &group.frames);
    MPI_Comm_rank(data, &group.rank);
    MPI_Comm_size(data, &group.size);
    groups_.push_back(group);
    return code;
  }

  /** Starts an all_gather or all_to_all as one message for each pair of ranks. */
  std::string start_direct(const Transfer& t, const Group& group) {
    const auto count = static_cast<int>(t.count);
    const MPI_Datatype type = type_for(t.dtype);
    const auto item = static_cast<std::int64_t>(item_size(t.dtype));
    const std::int64_t in_stride = (t.in_stride ? t.in_stride : t.count) * item,
                       out_stride = (t.out_stride ? t.out_stride : t.count) * item;
    auto* const out = static_cast<char*>(t.out);
    const auto* const in = t.in ? static_cast<const char*>(t.in) : out;
    const bool to_all = t.kind == TransferKind::all_gather;
    const auto block_for = [&](int to) {
      if (!to_all) return in + to * in_stride;
      return t.in ? in : out + group.rank * out_stride;
    };
    int code = MPI_SUCCESS;
    for (int step = 1; step < group.size && code == MPI_SUCCESS; ++step) {
      const int from = (group.rank + group.size - step) % group.size;
      code = MPI_Irecv(out + from * out_stride, count, type, from, kDataTag, group.data,
                       &direct_.emplace_back());
    }
    for (int step = 1; step < group.size && code == MPI_SUCCESS; ++step) {
      const int to = (group.rank + step) % group.size;
      code =
          MPI_Isend(block_for(to), count, type, to, kDataTag, group.data, &direct_.emplace_back());
    }
    return text_of(code);
  }

  void make_operations() {
    for (int d = 0; d < kNumDTypes; ++d)
      for (int o = 0; o < kNumOps; ++o) {
        MPI_Op& made = operations_[d][o];
        made = MPI_OP_NULL;
        const Function function = function_for(static_cast<DType>(d), static_cast<Op>(o));
        if (function) MPI_Op_create(function, 1, &made);
      }
  }

  MPI_Op operation(const Transfer& t) const {
    const MPI_Op own = operations_[static_cast<int>(t.dtype)][static_cast<int>(t.op)];
    return own == MPI_OP_NULL ? builtin(t.op) : own;
  }

  void expect_note() {
    MPI_Irecv(received_, sizeof received_, MPI_CHAR, MPI_ANY_SOURCE, kNoteTag, notes_, &expected_);
  }

  int rank_ = 0, size_ = 1, local_rank_ = 0, threads_ = 1;
  std::vector<Group> groups_;  // by Transfer::group
  MPI_Comm notes_ = MPI_COMM_NULL;
  MPI_Op operations_[kNumDTypes][kNumOps];  // null: MPI's own
  MPI_Request running_ = MPI_REQUEST_NULL;
  std::vector<MPI_Request> direct_;          // instead of running_, unless empty
  MPI_Request expected_ = MPI_REQUEST_NULL;  // of the next note
  char received_[kMaxNote];
  std::deque<SentNote> sent_;  // addresses stay valid
};

Transport* create(Combine combine) {
  the_combine = combine;
  return new MpiTransport;
}

}  // namespace

}  // namespace mezzo::comm::detail

extern "C" {
/** What load_mpi.cpp looks for. */
__attribute__((
    visibility("default"))) extern const mezzo::comm::detail::TransportLibrary mezzo_transport{
    mezzo::comm::detail::kTransportVersion, mezzo::comm::detail::kFamily,
    mezzo::comm::detail::kRelease, mezzo::comm::detail::create};
}
