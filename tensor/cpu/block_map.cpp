#include "block_map.h"

#include <algorithm>
#include <array>
#include <cstring>

#include "../device/parallel.h"
#include "convert.h"
#include "word.h"

namespace mezzo::cpu_kernels {

namespace {

/** The memory layout of one operand relative to the order of the iteration. */
struct Operand {
  enum class Layout : std::uint8_t { absent, linear, constant, strided };
  char* data = nullptr;
  DType dtype = DType::f32;
  Layout layout = Layout::absent;
  Strides strides;       // of the iteration's dimensions, in bytes
  bool repeats = false;  // strided, and the same in every row of the iteration
};

/** Returns whether elements are stored as values of type V; a bool is a byte that is 0 or 1. */
template <class V> bool holds(DType dtype) {
  return dtype == dtype_of<V>() || (std::is_same_v<V, std::uint8_t> && dtype == DType::boolean);
}

/** Iterates over the elements of a shape in the memory order of a tensor of that format. */
struct Iteration {
  MemoryFormat format = MemoryFormat::contiguous;
  Shape shape;  // of the tensors
  Shape sizes;  // in iteration order, outermost first

  void set(const Tensor& y) {
    format = y.is_contiguous() ? MemoryFormat::contiguous : y.memory_format();
    shape = sizes = y.shape();
    for (int place = 0; place < shape.rank(); ++place) sizes[place] = shape[dim(place)];
  }
  int dim(int place) const { return dim_at(format, shape.rank(), place); }
};

Operand describe(const Tensor& x, const Iteration& iteration) {
  const Shape& shape = iteration.shape;
  Operand operand;
  if (!x.defined()) return operand;
  operand.data = static_cast<char*>(x.raw_data());
  operand.dtype = x.dtype();
  if (x.is_contiguous(iteration.format) && x.shape() == shape) {
    operand.layout = Operand::Layout::linear;
    return operand;
  }
  if (x.numel() == 1) {
    operand.layout = Operand::Layout::constant;
    return operand;
  }
  operand.layout = Operand::Layout::strided;
  operand.strides = Strides::filled(shape.rank(), 0);
  const int lead = shape.rank() - x.dim();
  const auto item = static_cast<std::int64_t>(item_size(x.dtype()));
  for (int place = 0; place < shape.rank(); ++place) {
    const int i = iteration.dim(place) - lead;
    if (i >= 0 && x.shape()[i] != 1) operand.strides[place] = x.strides()[i] * item;
  }
  return operand;
}

/** Calls visit(address, count, byte step) for each innermost run of the elements [at, at + n). */
template <class F>
void for_each_run(const Operand& x, const Shape& shape, std::int64_t at, std::int64_t n,
                  F&& visit) {
  const int last = shape.rank() - 1;
  std::array<std::int64_t, Shape::kMaxRank> index;
  std::int64_t rest = at;
  char* address = x.data;
  for (int i = last; i >= 0; --i) {
    index[static_cast<std::size_t>(i)] = rest % shape[i];
    rest /= shape[i];
    address += index[static_cast<std::size_t>(i)] * x.strides[i];
  }
  while (n > 0) {
    std::int64_t& inner = index[static_cast<std::size_t>(last)];
    const std::int64_t run = std::min(n, shape[last] - inner);
    visit(address, run, x.strides[last]);
    n -= run;
    inner += run;
    address += run * x.strides[last];
    for (int i = last; i > 0 && index[static_cast<std::size_t>(i)] == shape[i]; --i) {
      address += x.strides[i - 1] - shape[i] * x.strides[i];
      index[static_cast<std::size_t>(i)] = 0;
      ++index[static_cast<std::size_t>(i) - 1];
    }
  }
}

template <class Word>
void gather_run(const char* from, std::int64_t n, std::int64_t step, Word* to) {
  if (step == static_cast<std::int64_t>(sizeof(Word)))
    std::memcpy(to, from, static_cast<std::size_t>(n) * sizeof(Word));
  else if (step == 0) {
    Word word;
    std::memcpy(&word, from, sizeof word);
    std::fill(to, to + n, word);
  } else
    for (std::int64_t i = 0; i < n; ++i) std::memcpy(to + i, from + i * step, sizeof(Word));
}

template <class Word>
void scatter_run(const Word* from, std::int64_t n, std::int64_t step, char* to) {
  for (std::int64_t i = 0; i < n; ++i) std::memcpy(to + i * step, from + i, sizeof(Word));
}

/** Copies n elements from `at` on to contiguous `scratch`. */
void gather(const Operand& x, const Shape& shape, std::int64_t at, std::int64_t n, void* scratch) {
  visit_word(x.dtype, [&]<class Word>(std::type_identity<Word>) {
    Word* to = static_cast<Word*>(scratch);
    for_each_run(x, shape, at, n, [&](const char* from, std::int64_t run, std::int64_t step) {
      gather_run(from, run, step, to);
      to += run;
    });
  });
}

void scatter(const Operand& x, const Shape& shape, std::int64_t at, std::int64_t n,
             const void* scratch) {
  visit_word(x.dtype, [&]<class Word>(std::type_identity<Word>) {
    const Word* from = static_cast<const Word*>(scratch);
    for_each_run(x, shape, at, n, [&](char* to, std::int64_t run, std::int64_t step) {
      scatter_run(from, run, step, to);
      from += run;
    });
  });
}

/** Applies a function from blocks of V to blocks of C. */
template <class V, class C> class BlockMap {
 public:
  BlockMap(BlockFn<C, V> fn, Inputs in, Outputs out, const void* attrs) : fn_(fn), attrs_(attrs) {
    Iteration iteration;
    for (const Tensor& y : out)
      if (y.defined()) iteration.set(y);
    for (const Tensor& x : in) in_[num_in_++] = describe(x, iteration);
    for (const Tensor& y : out) out_[num_out_++] = describe(y, iteration);
    shape_ = iteration.sizes;
    merge_dims();
    choose_block();
  }

  void run(std::int64_t begin, std::int64_t end) const {
    alignas(64) V values[kMaxBlockOperands][kBlock];
    alignas(64) C results[kMaxBlockOperands][kBlock];
    alignas(64) std::uint64_t scratch[kBlock];
    const V* in[kMaxBlockOperands];
    C* out[kMaxBlockOperands];
    std::int64_t kept[kMaxBlockOperands] = {};  // values of whole rows that the buffers hold
    for (std::size_t i = 0; i < num_in_; ++i)
      in[i] = prepare(in_[i], values[i], std::min(kBlock, end - begin));
    std::int64_t n = 0;
    for (std::int64_t at = begin; at < end; at += n) {
      n = std::min(block_ - at % block_, end - at);
      const bool begins_row = at % row_ == 0;
      for (std::size_t i = 0; i < num_in_; ++i) {
        if (begins_row && n <= kept[i]) continue;
        load(in_[i], at, n, values[i], scratch, in[i]);
        if (in_[i].repeats) kept[i] = begins_row ? n : 0;
      }
      for (std::size_t i = 0; i < num_out_; ++i) out[i] = target(out_[i], at, results[i]);
      fn_(in, out, n, attrs_);
      for (std::size_t i = 0; i < num_out_; ++i) store(out_[i], at, n, results[i], scratch);
    }
  }

 private:
  /** Merges dimensions that every strided operand steps through as one, and drops those of size 1,
   *  so that the innermost runs are long. */
  void merge_dims() {
    Shape merged;
    for (int i = 0; i < shape_.rank(); ++i) {
      if (shape_[i] == 1) continue;
      if (!merged.empty() && continues(merged.rank() - 1, i))
        merged[merged.rank() - 1] *= shape_[i];
      else
        merged.push_back(shape_[i]);
      each_strided([&](Operand& x) { x.strides[merged.rank() - 1] = x.strides[i]; });
    }
    shape_ = merged;
  }

  /** Returns whether a step in dimension `outer` equals a pass through dimension `inner`. */
  bool continues(int outer, int inner) {
    bool all = true;
    each_strided([&](const Operand& x) {
      all = all && x.strides[outer] == x.strides[inner] * shape_[inner];
    });
    return all;
  }

  /** Makes blocks of whole rows if operands are strided: then the same rows need not be loaded
   *  again. */
  void choose_block() {
    bool any = false;
    each_strided([&](Operand& x) {
      any = true;
      x.repeats = std::all_of(x.strides.begin(), x.strides.begin() + shape_.rank() - 1,
                              [](std::int64_t stride) { return stride == 0; });
    });
    if (!any) return;
    row_ = shape_.back();
    if (row_ < kBlock) block_ = kBlock / row_ * row_;
  }

  template <class F> void each_strided(F&& f) {
    for (std::size_t i = 0; i < num_in_; ++i)
      if (in_[i].layout == Operand::Layout::strided) f(in_[i]);
    for (std::size_t i = 0; i < num_out_; ++i)
      if (out_[i].layout == Operand::Layout::strided) f(out_[i]);
  }

  /** Fills the buffer of a constant operand once. */
  static const V* prepare(const Operand& x, V* buffer, std::int64_t n) {
    if (x.layout == Operand::Layout::absent) return nullptr;
    if (x.layout == Operand::Layout::constant) {
      convert(x.dtype, x.data, dtype_of<V>(), buffer, 1);
      std::fill(buffer + 1, buffer + n, buffer[0]);
    }
    return buffer;
  }

  void load(const Operand& x, std::int64_t at, std::int64_t n, V* buffer, void* scratch,
            const V*& values) const {
    const bool direct = holds<V>(x.dtype);
    if (x.layout == Operand::Layout::linear) {
      const char* from = x.data + at * static_cast<std::int64_t>(item_size(x.dtype));
      if (direct)
        values = reinterpret_cast<const V*>(from);
      else
        convert(x.dtype, from, dtype_of<V>(), buffer, n);
    } else if (x.layout == Operand::Layout::strided) {
      if (const char* run = direct ? side_by_side(x, at, n) : nullptr) {
        values = reinterpret_cast<const V*>(run);
        return;
      }
      values = buffer;
      gather(x, shape_, at, n, direct ? static_cast<void*>(buffer) : scratch);
      if (!direct) convert(x.dtype, scratch, dtype_of<V>(), buffer, n);
    }
  }

  /** Returns the address of n elements from `at` on if they are contiguous in memory, as in a
   *  broadcast row; else null. */
  const char* side_by_side(const Operand& x, std::int64_t at, std::int64_t n) const {
    const int last = shape_.rank() - 1;
    if (x.strides[last] != static_cast<std::int64_t>(sizeof(V)) ||
        at % shape_[last] + n > shape_[last])
      return nullptr;
    const char* address = x.data;
    for (int i = last; i >= 0; --i) {
      address += at % shape_[i] * x.strides[i];
      at /= shape_[i];
    }
    return address;
  }

  static C* target(const Operand& y, std::int64_t at, C* buffer) {
    if (y.layout == Operand::Layout::absent) return nullptr;
    const bool direct = holds<C>(y.dtype) && y.layout == Operand::Layout::linear;
    return direct ? reinterpret_cast<C*>(y.data) + at : buffer;
  }

  void store(const Operand& y, std::int64_t at, std::int64_t n, const C* buffer,
             void* scratch) const {
    const bool direct = holds<C>(y.dtype);
    if (y.layout == Operand::Layout::linear) {
      if (!direct)
        convert(dtype_of<C>(), buffer, y.dtype,
                y.data + at * static_cast<std::int64_t>(item_size(y.dtype)), n);
    } else if (y.layout == Operand::Layout::constant) {
      convert(dtype_of<C>(), buffer, y.dtype, y.data, 1);
    } else if (y.layout == Operand::Layout::strided) {
      if (!direct) convert(dtype_of<C>(), buffer, y.dtype, scratch, n);
      scatter(y, shape_, at, n, direct ? static_cast<const void*>(buffer) : scratch);
    }
  }

  BlockFn<C, V> fn_;
  const void* attrs_;
  Shape shape_;                            // in iteration order
  std::int64_t row_ = 1, block_ = kBlock;  // elements of an innermost dimension, and of a block
  std::array<Operand, kMaxBlockOperands> in_;
  std::array<Operand, kMaxBlockOperands> out_;
  std::size_t num_in_ = 0, num_out_ = 0;
};

template <class C, class V = C>
void run_map(BlockFn<C, V> fn, Inputs in, Outputs out, const void* attrs) {
  std::int64_t n = 0;
  for (const Tensor& y : out)
    if (y.defined()) n = y.numel();
  if (n == 0) return;
  const BlockMap<V, C> map(fn, in, out, attrs);
  if (n <= kBlock) return map.run(0, n);
  parallel_chunks(n, kElementwiseChunk,
                  [&](std::int64_t begin, std::int64_t end) { map.run(begin, end); });
}

/** Returns whether bf16 holds the value of a single number exactly. */
bool is_bf16_number(const Tensor& x) {
  if (x.numel() != 1 || !is_floating(x.dtype())) return false;
  double value = 0, back = 0;
  BFloat16 rounded;
  convert(x.dtype(), x.raw_data(), DType::f64, &value, 1);
  convert(DType::f64, &value, DType::bf16, &rounded, 1);
  convert(DType::bf16, &rounded, DType::f64, &back, 1);
  return back == value;
}

/** Returns whether bf16 loops can read all operands: bf16 tensors and numbers that bf16 holds, such
 *  as the 0.5 of x * 0.5. */
bool fit_bf16(Inputs in) {
  bool any = false;
  for (const Tensor& x : in) {
    if (!x.defined()) continue;
    if (x.dtype() == DType::bf16)
      any = true;
    else if (!is_bf16_number(x))
      return false;
  }
  return any;
}

/** Returns whether all defined tensors are stored as values of type V. */
template <class V> bool all_hold(std::span<const Tensor> tensors) {
  return std::all_of(tensors.begin(), tensors.end(),
                     [](const Tensor& x) { return !x.defined() || holds<V>(x.dtype()); });
}

/** Returns whether results are rounded to bf16, which functions for bf16 may rely on, or are not
 *  floating. */
bool are_rounded(Outputs out) {
  return std::none_of(out.begin(), out.end(), [](const Tensor& y) {
    return y.defined() && is_floating(y.dtype()) && y.dtype() != DType::bf16;
  });
}

}  // namespace

void map_blocks(const BlockFns& fns, DType compute, Inputs in, Outputs out, const void* attrs) {
  if (compute == DType::f32 && fns.bf16 && fit_bf16(in) && are_rounded(out))
    run_map<float, BFloat16>(fns.bf16, in, out, attrs);
  else if (compute == DType::f32)
    run_map<float>(fns.f32, in, out, attrs);
  else if (compute == DType::f64)
    run_map<double>(fns.f64, in, out, attrs);
  else if (fns.u8 && all_hold<std::uint8_t>(in) && all_hold<std::uint8_t>(out))
    run_map<std::uint8_t>(fns.u8, in, out, attrs);
  else
    run_map<std::int64_t>(fns.i64, in, out, attrs);
}

}  // namespace mezzo::cpu_kernels
