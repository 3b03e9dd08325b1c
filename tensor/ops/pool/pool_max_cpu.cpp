// Kernels of max pooling and its gradient.
#include <cstring>
#include <limits>
#include <optional>

#include "../../cpu/simd.h"
#include "pool_planes_cpu.h"

namespace mezzo::op {

namespace {

using namespace cpu_kernels;

/** Returns whether v, which comes after `best`, replaces it: it is greater, or the first nan. */
template <class C> bool beats(C v, C best) {
  const bool not_less = !(v <= best), number = best == best;
  return not_less & number;
}

/** Returns where the window of result element `o` begins along axis a, in the padded input. */
std::int64_t window_begin(const PoolAttrs& attrs, std::size_t a, std::int64_t o) {
  return o * attrs.stride[a] - attrs.padding[a];
}

/** Returns the number of elements before the span of result element `o` that padding hides. */
std::int64_t hidden(const Windows& w, std::size_t a, const PoolSpan& span) {
  const std::int64_t o = &span - w.spans[a].data();
  return (span.begin - window_begin(w.attrs, a, o)) / w.attrs.dilation[a];
}

/** Computes window by window; supports every pooling. `At` is the type of the positions: in the
 *  plane, or, in 8 bits, in the window. */
template <class C, class At> void max_by_window(const Windows& w, const C* x, C* y, At* at) {
  constexpr bool kInWindow = std::is_same_v<At, std::uint8_t>;
  const PoolSizes &step = w.attrs.dilation, &kernel = w.attrs.kernel;
  for (const PoolSpan& d : w.spans[0])
    for (const PoolSpan& h : w.spans[1])
      for (const PoolSpan& c : w.spans[2]) {
        std::int64_t best_at = (d.begin * w.in[1] + h.begin) * w.in[2] + c.begin;
        C best = x[best_at];
        for (std::int64_t i = d.begin; i < d.end; i += step[0])
          for (std::int64_t j = h.begin; j < h.end; j += step[1]) {
            const std::int64_t row = (i * w.in[1] + j) * w.in[2];
            for (std::int64_t k = row + c.begin; k < row + c.end; k += step[2]) {
              if (!beats(x[k], best)) continue;
              best = x[k];
              best_at = k;
            }
          }
        *y++ = best;
        if (!at) continue;
        if constexpr (kInWindow) {
          const std::int64_t i = best_at / (w.in[1] * w.in[2]), j = best_at / w.in[2] % w.in[1],
                             k = best_at % w.in[2];
          best_at = ((i - d.begin) / step[0] + hidden(w, 0, d)) * kernel[1];
          best_at = (best_at + (j - h.begin) / step[1] + hidden(w, 1, h)) * kernel[2];
          best_at += (k - c.begin) / step[2] + hidden(w, 2, c);
        }
        *at++ = static_cast<At>(best_at);
      }
}

/** As many adjacent windows as fit a vector, and the positions of their maxima, in the plane or in
 *  the window, in equally wide integers. */
template <class C> struct Lanes {
  using Place = std::conditional_t<sizeof(C) == 4, int, long>;
  static_assert(sizeof(Place) == sizeof(C));
  // Not wider than the target's vectors: g++ computes the rest element by element.
  typedef C Values __attribute__((vector_size(kVectorBytes)));
  typedef Place Places __attribute__((vector_size(kVectorBytes)));
  static constexpr int kCount = Simd<C>::kWidth;
  static_assert(kPoolLanes % kCount == 0);

  Values best;
  Places at;

  template <class V, class T> static void load(V& to, const T* from) {
    std::memcpy(&to, from, sizeof to);
  }

  template <int... kLane>
  static Values every_second_from_1(Values low, Values high, std::integer_sequence<int, kLane...>) {
    return __builtin_shufflevector(low, high, (2 * kLane + 1)...);
  }

  /** Loads from[0], from[2], ... and from[1], from[3], ... */
  static void load_pairs(Values& even, Values& odd, const C* from) {
    Values low, high;
    load(low, from);
    load(high, from + kCount);
    even = Simd<C>::load_every_second(from);
    odd = every_second_from_1(low, high, std::make_integer_sequence<int, kCount>{});
  }

  /** Stores even[0], odd[0], even[1], odd[1], ... */
  static void store_pairs(C* to, const Values& even, const Values& odd) {
    const auto store_half = [&]<int... kLane>(std::integer_sequence<int, kLane...>, C* half,
                                              auto first) {
      const Values both = __builtin_shufflevector(
          even, odd, (first() + kLane / 2 + (kLane % 2 == 0 ? 0 : kCount))...);
      std::memcpy(half, &both, sizeof both);
    };
    constexpr std::make_integer_sequence<int, kCount> lanes{};
    store_half(lanes, to, std::integral_constant<int, 0>{});
    store_half(lanes, to + kCount, std::integral_constant<int, kCount / 2>{});
  }

  /** Loads from[0], from[stride], ...; kStride is the stride if known at compile time, else 0. */
  template <int kStride> static void load_strided(Values& to, const C* from, std::int64_t stride) {
    if constexpr (kStride == 1) {
      load(to, from);
    } else if constexpr (kStride == 2) {
      to = Simd<C>::load_every_second(from);
    } else {
      for (std::int64_t i = 0; i < kCount; ++i) to[i] = from[i * stride];
    }
  }

  /** Replaces the elements that v beats. Branch-free, because the outcome is unpredictable. */
  void take(const Values& v, const Places& v_at) {
    const Places better = ~(v <= best) & (best == best);
    best = better ? v : best;
    at = better ? v_at : at;
  }

  void store(C* to, Place* to_at) const {
    std::memcpy(to, &best, sizeof best);
    std::memcpy(to_at, &at, sizeof at);
  }
};

/** Computes many windows at once: first the maximum of each window's columns within every input
 *  row, then the maximum over these rows. Rows and columns are visited in order, so that the first
 *  of equal elements wins, as in max_by_window. */
template <class C> class MaxByRows {
 public:
  using L = Lanes<C>;
  using Place = typename L::Place;

  explicit MaxByRows(const Windows& windows)
      : w_(windows), lanes_(whole_lanes(w_.out[2])), first_(static_cast<std::size_t>(lanes_)) {
    const std::int64_t span = w_.attrs.dilation[2] * (w_.attrs.kernel[2] - 1);
    read_ = lanes_ * w_.attrs.stride[2] + span;
    padded_ = std::max(read_, w_.in[2] + w_.attrs.padding[2]);
    whole_ = w_.attrs.padding[2] == 0 && (w_.out[2] - 1) * w_.attrs.stride[2] + span < w_.in[2];
    for (std::size_t k = 0; k < w_.spans[2].size(); ++k)
      first_[k] =
          static_cast<Place>(in_window_ ? hidden(w_, 2, w_.spans[2][k]) : w_.spans[2][k].begin);
    if (in_window_) return;
    for (std::size_t i = 0; i < step_.size(); ++i)
      step_[i] = static_cast<Place>(static_cast<std::int64_t>(i) * w_.attrs.stride[2]);
  }

  /** Returns whether this is faster than max_by_window: it is not if full lanes or padding make
   *  rows much longer. */
  static bool serves(const Windows& w) {
    const double lanes = static_cast<double>(whole_lanes(w.out[2]));
    const double all = static_cast<double>(volume(w.in));
    const double read =
        lanes * static_cast<double>(w.attrs.stride[2]) +
        static_cast<double>(w.attrs.dilation[2]) * static_cast<double>(w.attrs.kernel[2]);
    const double row_bests = lanes * static_cast<double>(w.in[0] * w.in[1]);
    const bool places_fit = all < 1e9;  // with a margin for the positions in unused lanes
    return !w.attrs.adaptive && places_fit && read < 2 * static_cast<double>(w.in[2]) + 512 &&
           row_bests < 4 * all + 4096;
  }

  /** Returns the number of scratch elements per plane. */
  std::int64_t scratch() const {
    return padded_ + 2 * rows() * lanes_ + 2 * (volume(w_.out) + kPoolLanes);
  }

  /** Computes y and, if `at` is not null, the positions. */
  template <class At> void plane(const C* x, C* y, At* at, C* scratch) const {
    C *const padded = scratch, *const row_best = padded + padded_,
             *const best = row_best + rows() * lanes_;
    Place* const row_at = reinterpret_cast<Place*>(best + volume(w_.out) + kPoolLanes);
    Place* const best_at = row_at + rows() * lanes_;
    std::fill(padded, padded + padded_, -std::numeric_limits<C>::infinity());
    for (std::int64_t r = 0; r < rows(); ++r) {
      const C* row = x + r * w_.in[2];
      // Lanes without a window may read into the next rows, but not past the plane.
      const bool in_place = whole_ && r * w_.in[2] + read_ <= volume(w_.in);
      if (!in_place) {
        std::copy(row, row + w_.in[2], padded + w_.attrs.padding[2]);
        row = padded;
      }
      best_in_row(row, row_best + r * lanes_, row_at + r * lanes_);
    }
    best_of_rows(row_best, row_at, best, best_at);
    const std::int64_t count = volume(w_.out);
    std::copy(best, best + count, y);
    if (at)
      std::transform(best_at, best_at + count, at, [](Place p) { return static_cast<At>(p); });
  }

 private:
  std::int64_t rows() const { return w_.in[0] * w_.in[1]; }

  void best_in_row(const C* row, C* best, Place* at) const {
    switch (w_.attrs.stride[2]) {
      case 1: return best_in_row_by<1>(row, best, at);
      case 2: return best_in_row_by<2>(row, best, at);
      default: return best_in_row_by<0>(row, best, at);
    }
  }

  template <int kStride> void best_in_row_by(const C* row, C* best, Place* at) const {
    const std::int64_t stride = kStride > 0 ? kStride : w_.attrs.stride[2],
                       dilation = w_.attrs.dilation[2];
    typename L::Places step;
    L::load(step, step_.data());
    for (std::int64_t block = 0; block < lanes_; block += L::kCount) {
      L lanes{typename L::Values{} - std::numeric_limits<C>::infinity(), {}};
      L::load(lanes.at, first_.data() + block);
      for (std::int64_t k = 0; k < w_.attrs.kernel[2]; ++k) {
        const std::int64_t place = block * stride + k * dilation;
        typename L::Values v;
        L::template load_strided<kStride>(v, row + place, stride);
        lanes.take(v, step + static_cast<Place>(in_window_ ? k : place - w_.attrs.padding[2]));
      }
      lanes.store(best + block, at + block);
    }
  }

  /** Combines the rows of each window. Results are stored contiguously, so each row of them
   *  overwrites the start of the next one, which is stored later. */
  void best_of_rows(const C* row_best, const Place* row_at, C* best, Place* best_at) const {
    for (const PoolSpan& d : w_.spans[0])
      for (const PoolSpan& h : w_.spans[1]) {
        for (std::int64_t block = 0; block < lanes_; block += L::kCount)
          best_of_lanes(d, h, row_best + block, row_at + block)
              .store(best + block, best_at + block);
        best += w_.out[2];
        best_at += w_.out[2];
      }
  }

  L best_of_lanes(const PoolSpan& d, const PoolSpan& h, const C* row_best,
                  const Place* row_at) const {
    const std::int64_t first = d.begin * w_.in[1] + h.begin;
    const PoolSizes &step = w_.attrs.dilation, &kernel = w_.attrs.kernel;
    const std::int64_t hidden_d = in_window_ ? hidden(w_, 0, d) : 0,
                       hidden_h = in_window_ ? hidden(w_, 1, h) : 0;
    /** What row j of slice i of the window adds to the positions in it. */
    const auto row_place = [&](std::int64_t i, std::int64_t j, std::int64_t r) {
      return static_cast<Place>(in_window_ ? ((hidden_d + i) * kernel[1] + hidden_h + j) * kernel[2]
                                           : r * w_.in[2]);
    };
    L lanes;
    L::load(lanes.best, row_best + first * lanes_);
    L::load(lanes.at, row_at + first * lanes_);
    lanes.at += row_place(0, 0, first);
    std::int64_t slice = 0;
    for (std::int64_t i = d.begin; i < d.end; i += step[0], ++slice) {
      std::int64_t row = 0;
      for (std::int64_t j = h.begin; j < h.end; j += step[1], ++row) {
        const std::int64_t r = i * w_.in[1] + j;
        if (r == first) continue;
        typename L::Values v;
        typename L::Places v_at;
        L::load(v, row_best + r * lanes_);
        L::load(v_at, row_at + r * lanes_);
        lanes.take(v, v_at + row_place(slice, row, r));
      }
    }
    return lanes;
  }

  const Windows& w_;
  const bool in_window_ = w_.attrs.positions == PoolPositions::in_window;
  std::int64_t lanes_;                   // adjacent windows, including unused lanes at the end
  std::int64_t read_ = 0;                // elements that the lanes of a row read
  std::int64_t padded_ = 0;              // length of a row with its padding
  bool whole_ = false;                   // all windows are inside the row, which needs no copy
  std::array<Place, L::kCount> step_{};  // of the positions of each lane from the first
  std::vector<Place> first_;             // of each window: the first column inside the input
};

// ---- windows of 2 x 2, side by side -------------------------------------------------------------

/** Rows of windows of 2 x 2, side by side, that cover planes of even sizes: a row of windows lies
 *  over two rows of a plane, and the rows of all planes follow each other. Blocks of rows are
 *  computed in scratch, where unused lanes of a row write what its next row overwrites. */
template <class T> class PairRows {
 public:
  /** Returns true for these windows, if their positions are in the window, or not asked for. */
  static bool serves(const PoolAttrs& attrs, const PoolSizes& in, const PoolSizes& out) {
    return attrs.are_pairs() && attrs.positions != PoolPositions::in_plane && out[2] >= 4 &&
           in[1] == 2 * out[1] && in[2] == 2 * out[2];
  }

  /** All rows have `width` windows. */
  PairRows(std::int64_t windows, std::int64_t width)
      : rows_(windows / width),
        width_(width),
        block_(std::max<std::int64_t>(1, kBlockElements / (4 * width))) {}

  /** Computes the maxima, and their positions unless `at` is null. */
  void maxima(const T* x, T* y, std::uint8_t* at) const {
    for_each_block([&](std::int64_t row, std::int64_t rows, const Scratch& scratch) {
      to_compute(x + 4 * width_ * row, scratch.elements.data(), 4 * width_ * rows);
      const C* from = scratch.elements.data();
      for (std::int64_t r = 0; r < rows; ++r, from += 4 * width_)
        for (std::int64_t i = 0; i < width_; i += L::kCount)
          write_maxima(from + 2 * i, scratch, r * width_ + i);
      from_compute(scratch.values.data(), y + width_ * row, width_ * rows);
      if (at)
        std::transform(scratch.places.data(), scratch.places.data() + width_ * rows,
                       at + width_ * row, [](Place p) { return static_cast<std::uint8_t>(p); });
    });
  }

  /** Writes the gradient: 0 + g at the maxima, 0 elsewhere. */
  void gradient(const T* g, const std::uint8_t* at, T* dx) const {
    for_each_block([&](std::int64_t row, std::int64_t rows, const Scratch& scratch) {
      to_compute(g + width_ * row, scratch.values.data(), width_ * rows);
      std::copy_n(at + width_ * row, width_ * rows, scratch.places.data());  // widens
      C* to = scratch.elements.data();
      for (std::int64_t r = 0; r < rows; ++r)
        for (Place low = 0; low < 4; low += 2, to += 2 * width_)
          for (std::int64_t i = 0; i < width_; i += L::kCount)
            write_gradient(scratch, r * width_ + i, low, to + 2 * i);
      from_compute(scratch.elements.data(), dx + 4 * width_ * row, 4 * width_ * rows);
    });
  }

 private:
  using C = ComputeOf<T>;
  using L = Lanes<C>;
  using Place = typename L::Place;

  static constexpr std::int64_t kBlockElements = 2048;  // of planes, which fit the cache

  /** One block in the compute type: elements of planes, one value and position for each window. */
  struct Scratch {
    Workspace<C> elements, values;
    Workspace<Place> places;
  };

  static void to_compute(const T* from, C* to, std::int64_t n) {
    if constexpr (std::is_same_v<T, C>)
      std::copy_n(from, n, to);
    else
      widen(from, to, n);
  }
  static void from_compute(const C* from, T* to, std::int64_t n) {
    if constexpr (std::is_same_v<T, C>)
      std::copy_n(from, n, to);
    else
      narrow(from, to, n);
  }

  /** Calls body(first row, rows, scratch) for all blocks. */
  template <class F> void for_each_block(const F& body) const {
    const auto chunk = [&](std::int64_t begin, std::int64_t end) {
      const std::int64_t windows = block_ * width_;
      const Scratch scratch{Workspace<C>(4 * windows + 2 * L::kCount),
                            Workspace<C>(windows + L::kCount),
                            Workspace<Place>(windows + L::kCount)};
      // The unused lanes of the last row read these.
      std::fill_n(scratch.elements.data() + 4 * windows, 2 * L::kCount, C(0));
      for (std::int64_t row = begin; row < end; row += block_)
        body(row, std::min(block_, end - row), scratch);
    };
    const std::int64_t per_chunk = std::max(block_, kElementwiseChunk / (4 * width_));
    parallel_chunks(rows_, per_chunk, chunk, 0.4 * static_cast<double>(width_));
  }

  /** Writes the maxima of adjacent windows, the first of which is at `from`, and their positions.
   *  The first of equal elements wins, as in max_by_window. */
  void write_maxima(const C* from, const Scratch& scratch, std::int64_t window) const {
    typename L::Values odd, even, low_odd;
    L lanes{{}, {}};
    L::load_pairs(lanes.best, odd, from);
    L::load_pairs(even, low_odd, from + 2 * width_);
    const typename L::Places one = typename L::Places{} + 1;
    lanes.take(odd, one);
    lanes.take(even, one + 1);
    lanes.take(low_odd, one + 2);
    lanes.store(scratch.values.data() + window, scratch.places.data() + window);
  }

  /** Writes the upper (low = 0) or lower (2) row of the gradient of adjacent windows. */
  void write_gradient(const Scratch& scratch, std::int64_t window, Place low, C* to) const {
    typename L::Values g;
    L::load(g, scratch.values.data() + window);
    g += typename L::Values{};  // -0 becomes 0, as it does where gradients are added
    typename L::Places at;
    L::load(at, scratch.places.data() + window);
    L::store_pairs(to, at == low ? g : typename L::Values{},
                   at == low + 1 ? g : typename L::Values{});
  }

  std::int64_t rows_, width_;
  std::int64_t block_;  // rows of a block
};

template <class T, class At>
void max_planes(const Windows& w, const T* x, T* y, At* at, std::int64_t count) {
  using C = ComputeOf<T>;
  const std::int64_t in = volume(w.in), out = volume(w.out);
  Planes<T> planes{count, x, in, y, out};
  const auto positions = [&](std::int64_t plane) { return at ? at + plane * out : nullptr; };
  if constexpr (std::is_same_v<At, std::uint8_t> && !std::is_same_v<T, double>)
    if (PairRows<T>::serves(w.attrs, w.in, w.out))
      return PairRows<T>(count * out, w.out[2]).maxima(x, y, at);
  if (!MaxByRows<C>::serves(w))
    return for_each_plane(planes, 3.0 * static_cast<double>(in + out),
                          [&](const C* from, C* to, C*, std::int64_t plane) {
                            max_by_window(w, from, to, positions(plane));
                          });
  const MaxByRows<C> kernel(w);
  planes.scratch = kernel.scratch();
  for_each_plane(planes, 0.4 * static_cast<double>(in + out),
                 [&](const C* from, C* to, C* scratch, std::int64_t plane) {
                   kernel.plane(from, to, positions(plane), scratch);
                 });
}

void max_pool(int rank, const Tensor& input, Outputs out, const PoolAttrs& attrs) {
  if (out[0].numel() == 0) return;
  const Tensor x = row_major(input);
  const Windows w(attrs, pooled_dims(x.shape(), rank), pooled_dims(out[0].shape(), rank));
  with_row_major(out[0], [&](const Tensor& y) {
    with_row_major(out[1], [&](const Tensor& at) {
      visit_floating(x.dtype(), [&]<class T>(std::type_identity<T>) {
        const std::int64_t planes = x.numel() / volume(w.in);
        if (attrs.positions == PoolPositions::in_plane)
          return max_planes(w, x.data<T>(), y.data<T>(), at.data<std::int64_t>(), planes);
        max_planes(w, x.data<T>(), y.data<T>(),
                   attrs.positions == PoolPositions::none ? nullptr : at.data<std::uint8_t>(),
                   planes);
      });
    });
  });
}

/** Adds the elements of g of a plane at their positions in the plane. */
template <class C> void add_at(const C* g, const std::int64_t* at, std::int64_t count, C* to) {
  for (std::int64_t i = 0; i < count; ++i) to[at[i]] += g[i];
}

/** The windows of a gradient whose positions are in the window. */
class WindowPlaces {
 public:
  WindowPlaces(const MaxPoolBackward::Attrs& attrs, const PoolSizes& out)
      : attrs_(attrs.windows), in_(attrs.sizes), out_(out) {
    const PoolSizes &kernel = attrs_.kernel, &step = attrs_.dilation;
    for (std::int64_t i = 0; i < kernel[0]; ++i)
      for (std::int64_t j = 0; j < kernel[1]; ++j)
        for (std::int64_t k = 0; k < kernel[2]; ++k)
          offsets_.push_back(((i * step[0]) * in_[1] + j * step[1]) * in_[2] + k * step[2]);
  }

  /** Adds the elements of g of a plane at their positions. */
  template <class C> void add_at(const C* g, const std::uint8_t* at, C* to) const {
    for (std::int64_t i = 0; i < out_[0]; ++i)
      for (std::int64_t j = 0; j < out_[1]; ++j) {
        const std::int64_t row =
            (window_begin(attrs_, 0, i) * in_[1] + window_begin(attrs_, 1, j)) * in_[2];
        for (std::int64_t k = 0; k < out_[2]; ++k)
          to[row + window_begin(attrs_, 2, k) + offsets_[*at++]] += *g++;
      }
  }

 private:
  const PoolAttrs& attrs_;
  PoolSizes in_, out_;
  std::vector<std::int64_t> offsets_;  // in the plane, of the elements of a window from its first
};

}  // namespace

void MaxPoolBackward::cpu(Inputs in, Outputs out, const Attrs& attrs) {
  if (out[0].numel() == 0) return;
  const Tensor g = row_major(in[0]), at = row_major(in[1]);
  const std::int64_t before = volume(attrs.sizes), planes = out[0].numel() / before,
                     after = g.numel() / planes;
  const bool in_plane = attrs.windows.positions == PoolPositions::in_plane;
  const PoolSizes windows = pooled_dims(g.shape(), attrs.rank);
  const std::optional<WindowPlaces> places =
      in_plane ? std::nullopt : std::optional<WindowPlaces>(std::in_place, attrs, windows);
  const double plane_ns = 0.2 * static_cast<double>(before) + static_cast<double>(after);
  with_row_major(out[0], [&](const Tensor& dx) {
    visit_floating(g.dtype(), [&]<class T>(std::type_identity<T>) {
      using C = ComputeOf<T>;
      if constexpr (!std::is_same_v<T, double>)  // f64 is for references
        if (PairRows<T>::serves(attrs.windows, attrs.sizes, windows))
          return PairRows<T>(g.numel(), windows[2])
              .gradient(g.data<T>(), at.data<std::uint8_t>(), dx.data<T>());
      // A plane is cleared and written while it is in the cache, so memory is written once.
      const Planes<T> both{planes, g.data<T>(), after, dx.data<T>(), before};
      for_each_plane(both, plane_ns, [&](const C* from, C* to, C*, std::int64_t plane) {
        std::fill(to, to + before, C(0));
        if (places)
          places->add_at(from, at.data<std::uint8_t>() + plane * after, to);
        else
          add_at(from, at.data<std::int64_t>() + plane * after, after, to);
      });
    });
  });
}

template <int N> void MaxPool<N>::cpu(Inputs in, Outputs out, const Attrs& attrs) {
  max_pool(N, in[0], out, attrs);
}
template <int N> void AdaptiveMaxPool<N>::cpu(Inputs in, Outputs out, const Attrs& attrs) {
  max_pool(N, in[0], out, attrs);
}

#define MZ_MAX_POOL_KERNELS(N)                                      \
  template void MaxPool<N>::cpu(Inputs, Outputs, const PoolAttrs&); \
  template void AdaptiveMaxPool<N>::cpu(Inputs, Outputs, const PoolAttrs&);
MZ_MAX_POOL_KERNELS(1)
MZ_MAX_POOL_KERNELS(2)
MZ_MAX_POOL_KERNELS(3)
#undef MZ_MAX_POOL_KERNELS

}  // namespace mezzo::op
