// The multi-tensor kernels of the CPU: chunks over threads, blocks that fit the cache, loops that vectorise.
#include <algorithm>
#include <atomic>
#include <bit>
#include <cmath>
#include <numeric>

#include "../tensor/cpu/convert.h"
#include "../tensor/cpu/elementwise_kernel.h"
#include "../tensor/parallel.h"
#include "updates.h"

namespace mezzo::optim {

namespace {

/** Elements per block: a handful of f64 buffers of this size stay in the first-level cache. */
constexpr std::int64_t kBlock = 512;

/** A piece of one item. */
struct Piece {
  std::size_t item;
  std::int64_t begin, end;
};

std::vector<Piece> cut(std::span<const MultiItem> items) {
  std::vector<Piece> pieces;
  for (std::size_t i = 0; i < items.size(); ++i)
    for (std::int64_t begin = 0; begin < items[i].numel; begin += kMultiTensorChunk)
      pieces.push_back({i, begin, std::min(items[i].numel, begin + kMultiTensorChunk)});
  return pieces;
}

/** Runs body(piece, index of the piece) over all items, on as many threads as the work is worth. */
template <class Body>
void for_each_piece(std::span<const MultiItem> items, double element_ns, const Body& body) {
  const std::vector<Piece> pieces = cut(items);
  double total = 0;
  for (const MultiItem& item : items) total += static_cast<double>(item.numel);
  const auto one = [&](std::int64_t i) {
    body(pieces[static_cast<std::size_t>(i)], static_cast<std::size_t>(i));
  };
  parallel_for(static_cast<std::int64_t>(pieces.size()), one, total * element_ns);
}

/** Block of one list in the type the arithmetic runs in: the memory itself where it has that type, else a converted copy. */
template <class V> class Block {
 public:
  /** Places the block at `begin`; with `load`, its values are there to be read. */
  V* open(const MultiItem& item, std::size_t list, std::int64_t begin, std::int64_t n, bool load) {
    dtype_ = item.dtype[list];
    address_ = nullptr;
    if (!item.data[list]) return buffer_;
    char* at = static_cast<char*>(item.data[list]) + begin * static_cast<std::int64_t>(item_size(dtype_));
    if (dtype_ == dtype_of<V>()) return static_cast<V*>(static_cast<void*>(at));
    address_ = at;
    if (load) cpu_kernels::convert(dtype_, at, dtype_of<V>(), buffer_, n);
    return buffer_;
  }
  /** Rounds the buffer into memory, where the block is not the memory itself. */
  void store(std::int64_t n) const {
    if (address_) cpu_kernels::convert(dtype_of<V>(), buffer_, dtype_, address_, n);
  }

 private:
  DType dtype_ = DType::f32;
  void* address_ = nullptr;
  alignas(64) V buffer_[kBlock];
};

// ---- updates --------------------------------------------------------------------------------------------------------

template <class V, class Formula>
void update_block(const Formula& formula, V inv_scale, V* p, const V* g, V* s0, std::int64_t n) {
  MZ_INDEPENDENT_LOOP
  for (std::int64_t k = 0; k < n; ++k) formula(p[k], g[k] * inv_scale, s0[k]);
}

template <class V, class Formula>
void update_block(const Formula& formula, V inv_scale, V* p, const V* g, V* s0, V* s1, std::int64_t n) {
  MZ_INDEPENDENT_LOOP
  for (std::int64_t k = 0; k < n; ++k) formula(p[k], g[k] * inv_scale, s0[k], s1[k]);
}

template <std::size_t kStates, class V, class Formula>
void update_piece(const MultiItem& item, const Piece& piece, const Formula& formula, V inv_scale) {
  Block<V> param, grad, states[2];
  for (std::int64_t begin = piece.begin; begin < piece.end; begin += kBlock) {
    const std::int64_t n = std::min(kBlock, piece.end - begin);
    V* p = param.open(item, kParam, begin, n, true);
    const V* g = grad.open(item, kGrad, begin, n, true);
    V* s0 = states[0].open(item, kState, begin, n, true);
    if constexpr (kStates == 2)
      update_block<V>(formula, inv_scale, p, g, s0, states[1].open(item, kState + 1, begin, n, true), n);
    else
      update_block<V>(formula, inv_scale, p, g, s0, n);
    param.store(n);
    if (item.data[kLowCopy]) {
      const DType low = item.dtype[kLowCopy];
      char* at = static_cast<char*>(item.data[kLowCopy]) + begin * static_cast<std::int64_t>(item_size(low));
      cpu_kernels::convert(dtype_of<V>(), p, low, at, n);
    }
  }
}

template <class Update, class V>
void update_in(const MultiItem& item, const Piece& piece, const typename Update::Settings& settings,
               double inv_scale) {
  with_mode<Update>(Update::mode(settings), [&]<unsigned kMode>() {
    const typename Update::template Formula<V, kMode> formula(settings);
    update_piece<Update::kStates, V>(item, piece, formula, static_cast<V>(inv_scale));
  });
}

template <class Update>
void update_all(std::span<const MultiItem> items, const void* settings, const UpdateCall& call) {
  if (call.found_inf && *call.found_inf != 0) return;
  const auto* each = static_cast<const typename Update::Settings*>(settings);
  for_each_piece(items, 1.0, [&](const Piece& piece, std::size_t) {
    const MultiItem& item = items[piece.item];
    if (item.dtype[kParam] == DType::f64)
      update_in<Update, double>(item, piece, each[piece.item], call.inv_scale);
    else
      update_in<Update, float>(item, piece, each[piece.item], call.inv_scale);
  });
}

// ---- list arithmetic ------------------------------------------------------------------------------------------------

template <class V> bool any_non_finite(const V* x, std::int64_t n) {
  using Bits = std::conditional_t<sizeof(V) == 4, std::uint32_t, std::uint64_t>;
  constexpr Bits kInfinity = sizeof(V) == 4 ? Bits{0x7F800000u} : static_cast<Bits>(0x7FF0000000000000ull);
  Bits found = 0;
  for (std::int64_t k = 0; k < n; ++k)
    found |= static_cast<Bits>((std::bit_cast<Bits>(x[k]) & kInfinity) == kInfinity);
  return found != 0;
}

enum AxpbyList : std::uint8_t { kX, kY, kOut };

/** out may be x or y, element for element. */
template <class V> void axpby_block(V a, const V* x, V b, const V* y, V* out, bool has_y, std::int64_t n) {
  if (has_y)
    for (std::int64_t k = 0; k < n; ++k) out[k] = a * x[k] + b * y[k];
  else
    for (std::int64_t k = 0; k < n; ++k) out[k] = a * x[k];
}

template <class V>
bool axpby_piece(const MultiItem& item, const Piece& piece, double a, double b, CheckFinite check) {
  const bool has_y = item.data[kY] != nullptr;
  const bool check_x = check == CheckFinite::x || check == CheckFinite::either;
  const bool check_y = has_y && (check == CheckFinite::y || check == CheckFinite::either);
  Block<V> blocks[3];
  bool bad = false;
  for (std::int64_t begin = piece.begin; begin < piece.end; begin += kBlock) {
    const std::int64_t n = std::min(kBlock, piece.end - begin);
    const V* x = blocks[kX].open(item, kX, begin, n, true);
    const V* y = blocks[kY].open(item, kY, begin, n, true);
    V* out = blocks[kOut].open(item, kOut, begin, n, false);
    bad = bad || (check_x && any_non_finite(x, n)) || (check_y && any_non_finite(y, n));
    axpby_block<V>(static_cast<V>(a), x, static_cast<V>(b), y, out, has_y, n);
    blocks[kOut].store(n);
  }
  return bad;
}

void axpby_all(std::span<const MultiItem> items, double a, double b, CheckFinite check, float* found_inf) {
  for_each_piece(items, 0.7, [&](const Piece& piece, std::size_t) {
    const MultiItem& item = items[piece.item];
    const bool bad = item.dtype[kOut] == DType::f64 ? axpby_piece<double>(item, piece, a, b, check)
                                                    : axpby_piece<float>(item, piece, a, b, check);
    if (bad && found_inf) std::atomic_ref(*found_inf).store(1.0f, std::memory_order_relaxed);
  });
}

/** Sum of squares in eight lanes, so that the order is fixed and the loop vectorises. */
template <class V> double squares(const V* x, std::int64_t n) {
  constexpr std::int64_t kLanes = 8;
  double lanes[kLanes] = {};
  std::int64_t k = 0;
  for (; k + kLanes <= n; k += kLanes)
    for (std::int64_t j = 0; j < kLanes; ++j)
      lanes[j] += static_cast<double>(x[k + j]) * static_cast<double>(x[k + j]);
  for (; k < n; ++k) lanes[k % kLanes] += static_cast<double>(x[k]) * static_cast<double>(x[k]);
  return std::accumulate(std::begin(lanes), std::end(lanes), 0.0);
}

/** The larger of two magnitudes; NaN wins. */
double larger(double a, double b) { return b > a || std::isnan(b) ? b : a; }

template <class V> double norm_of_block(const V* x, std::int64_t n, double p) {
  if (p == 2) return squares(x, n);
  double result = 0;
  if (std::isinf(p)) {
    for (std::int64_t k = 0; k < n; ++k)
      result = std::isnan(result) ? result : larger(result, std::fabs(static_cast<double>(x[k])));
  } else {
    for (std::int64_t k = 0; k < n; ++k) result += std::pow(std::fabs(static_cast<double>(x[k])), p);
  }
  return result;
}

double combine(double a, double b, double p) {
  return std::isinf(p) ? (std::isnan(a) ? a : larger(a, b)) : a + b;
}

template <class V> double norm_of_piece(const MultiItem& item, const Piece& piece, double p) {
  Block<V> block;
  double result = 0;
  for (std::int64_t begin = piece.begin; begin < piece.end; begin += kBlock) {
    const std::int64_t n = std::min(kBlock, piece.end - begin);
    result = combine(result, norm_of_block<V>(block.open(item, kX, begin, n, true), n, p), p);
  }
  return result;
}

void norm_all(std::span<const MultiItem> items, double p, double* result) {
  std::vector<double> partials(cut(items).size());
  for_each_piece(items, 0.5, [&](const Piece& piece, std::size_t index) {
    const MultiItem& item = items[piece.item];
    partials[index] = item.dtype[kX] == DType::f64 ? norm_of_piece<double>(item, piece, p)
                                                   : norm_of_piece<float>(item, piece, p);
  });
  double total = 0;
  for (const double partial : partials) total = combine(total, partial, p);
  *result = std::isinf(p) ? total : p == 2 ? std::sqrt(total) : std::pow(total, 1 / p);
}

}  // namespace

void SgdUpdate::cpu(std::span<const MultiItem> items, const void* settings, const UpdateCall& call) {
  update_all<SgdUpdate>(items, settings, call);
}

void AdamUpdate::cpu(std::span<const MultiItem> items, const void* settings, const UpdateCall& call) {
  update_all<AdamUpdate>(items, settings, call);
}

ListKernels& list_kernels(DeviceKind kind) {
  static std::array<ListKernels, kNumDeviceKinds> kernels{{{.axpby = &axpby_all, .norm = &norm_all}}};
  return kernels[static_cast<std::size_t>(kind)];
}

}  // namespace mezzo::optim
