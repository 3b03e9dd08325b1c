#include "samples.h"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <limits>
#include <map>
#include <stdexcept>

namespace cases {

namespace {

/** The splitmix64 generator, independent of the library's. */
struct Random {
  std::uint64_t state;
  double uniform() {
    std::uint64_t z = (state += 0x9E3779B97F4A7C15ull);
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9ull;
    z = (z ^ (z >> 27)) * 0x94D049BB133111EBull;
    return static_cast<double>((z ^ (z >> 31)) >> 11) * 0x1p-53;
  }
};

std::uint64_t seed_of(const Case& c, std::size_t sample, std::size_t operand) {
  std::uint64_t hash = 1469598103934665603ull;
  for (const char ch : c.op + "/" + c.variant)
    hash = (hash ^ static_cast<unsigned char>(ch)) * 1099511628211ull;
  return hash + 1000003 * sample + 7919 * operand;
}

bool near_kink(double value, const Operand& operand) {
  for (const double kink : operand.kinks)
    if (std::abs(value - kink) < 0.02) return true;
  return false;
}

double draw_value(Random& random, const Operand& operand, std::int64_t i, std::int64_t n,
                  bool away_from_kinks) {
  if (operand.boolean) return random.uniform() < 0.5 ? 0 : 1;
  if (operand.integers)
    return std::floor(operand.low + random.uniform() * (operand.high - operand.low + 1));
  if (operand.positive_definite_gap) {
    // Equally spaced values in a scattered order: 7919 is prime and larger than any sample.
    const std::int64_t place = i * 7919 % n;
    return operand.low + (operand.high - operand.low) *
                             (static_cast<double>(place) + 0.25 + 0.5 * random.uniform()) /
                             static_cast<double>(n);
  }
  double value = 0;
  do value = operand.low + random.uniform() * (operand.high - operand.low);
  while (away_from_kinks && near_kink(value, operand));
  return value;
}

DType dtype_for(const Operand& operand, DType dtype) {
  if (operand.boolean) return mezzo::boolean;
  if (operand.integers) return mezzo::i64;
  if (operand.parameter_like && mezzo::is_low(dtype)) return mezzo::f32;
  return dtype;
}

/** Runs the first sample to the given depth. */
void try_case(const Case& c, Depth depth) {
  const std::vector<Tensor> x = to_tensors(c, draw(c, 0, true), DType::f64);
  std::vector<Tensor> wanted, outputs, seeds;
  for (std::size_t k = 0; k < x.size() && depth != Depth::values; ++k)
    if (is_floating(x[k].dtype()) && !c.operands[k].constant)
      wanted.push_back(x[k].requires_grad_());
  for (const Tensor& y : c.call(x))
    if (y.requires_grad()) {
      outputs.push_back(y);
      seeds.push_back(ones_like(y).requires_grad_());
    }
  if (outputs.empty()) return;
  const bool twice = depth == Depth::second_gradients;
  std::vector<Tensor> first =
      grad(outputs, wanted, {.create_graph = twice, .allow_unused = true}, seeds);
  if (!twice) return;
  std::erase_if(first, [](const Tensor& g) { return !g.defined() || !g.requires_grad(); });
  std::vector<Tensor> again;
  for (const Tensor& g : first) again.push_back(ones_like(g));
  wanted.insert(wanted.end(), seeds.begin(), seeds.end());
  if (!first.empty()) grad(first, wanted, {.allow_unused = true}, again);
}

struct Shard {
  unsigned number = 1, count = 1;
};

const Shard& shard() {
  static const Shard mine = [] {
    Shard s;
    const char* text = std::getenv("MEZZO_TEST_SHARD");
    if (text && (std::sscanf(text, "%u/%u", &s.number, &s.count) != 2 || s.number < 1 ||
                 s.number > s.count))
      throw std::runtime_error(std::string("MEZZO_TEST_SHARD: got ") + text +
                               ", expected k/n with 1 <= k <= n");
    return s;
  }();
  return mine;
}

}  // namespace

bool in_shard(const Case& c) {
  const auto number = static_cast<std::size_t>(&c - all_cases().data());
  return number % shard().count == shard().number - 1;
}

std::size_t shard_count() { return shard().count; }

bool runs_here(const Case& c, Depth depth) {
  static std::map<std::pair<const Case*, Depth>, bool> known;
  if (test_device() == mezzo::cpu) return true;
  const auto [at, is_new] = known.try_emplace({&c, depth}, true);
  if (is_new) {
    try {
      try_case(c, depth);
    } catch (const mezzo::Unsupported& e) {
      at->second = std::string(e.what()).find("no CUDA kernel") == std::string::npos;
    } catch (const std::exception&) {  // the tests report it
    }
  }
  return at->second;
}

const std::vector<std::vector<Shape>>& samples_of(const Case& c) {
  if (!c.shapes.empty()) return c.shapes;
  return c.operands.size() == 1 ? unary_shapes() : binary_shapes();
}

std::vector<GradientSample> gradient_samples(const Case& c) {
  const auto shares = std::count_if(all_cases().begin(), all_cases().end(), [&](const Case& other) {
    return other.op == c.op && other.gradients;
  });
  const std::size_t wanted = (kGradientSamplesPerOp + static_cast<std::size_t>(shares) - 1) /
                             std::max<std::size_t>(1, static_cast<std::size_t>(shares));
  constexpr Layout kLayouts[] = {Layout::contiguous, Layout::transposed, Layout::offset_and_step,
                                 Layout::channels_last};
  std::vector<GradientSample> samples;
  // An emulated device is slow, and the CPU run has checked the formulas, so one sample in three is
  // kept.
  if (!(test_device() == mezzo::cpu)) {
    const std::size_t count = samples_of(c).size();
    for (std::size_t s = std::min<std::size_t>(2, count - 1); s < count; s += 3)
      samples.push_back({s, Layout::contiguous, 0});
    return samples;
  }
  for (std::size_t redraw = 0; redraw == 0 || samples.size() < wanted; ++redraw)
    for (std::size_t s = 0; s < samples_of(c).size(); ++s)
      samples.push_back(
          {s, c.exact_shapes_only ? Layout::contiguous : kLayouts[redraw % std::size(kLayouts)],
           redraw});
  return samples;
}

std::vector<Array> draw(const Case& c, std::size_t sample, bool away_from_kinks,
                        std::size_t redraw) {
  std::vector<Array> operands;
  for (std::size_t k = 0; k < c.operands.size(); ++k) {
    Random random{seed_of(c, sample + 1000 * redraw, k)};
    Array x{samples_of(c)[sample][k], {}};
    std::int64_t n = 1;
    for (const std::int64_t size : x.shape) n *= size;
    for (std::int64_t i = 0; i < n; ++i)
      x.values.push_back(draw_value(random, c.operands[k], i, n, away_from_kinks));
    operands.push_back(std::move(x));
  }
  return operands;
}

Tensor to_tensor(const Array& x, const Operand& operand, DType dtype, Layout layout) {
  const mezzo::NoGrad no_grad;
  const mezzo::Device device = test_device();
  const Tensor plain =
      mezzo::tensor(x.values, x.shape, {.dtype = dtype_for(operand, dtype), .device = device});
  if (layout == Layout::transposed && plain.dim() >= 2) {
    Tensor stored = mezzo::empty_like(plain.transpose(0, -1));
    stored.copy_(plain.transpose(0, -1));
    return stored.transpose(0, -1).detach();
  }
  if (layout == Layout::channels_last && mezzo::may_be_channels_last(plain.dim()))
    return plain.to(mezzo::MemoryFormat::channels_last);
  if (layout == Layout::offset_and_step && plain.dim() >= 1) {
    Shape roomy = plain.shape();
    const int last = plain.dim() - 1;
    roomy[last] = 2 * roomy[last] + 1;
    const Tensor view = mezzo::full(roomy, 77, {.dtype = plain.dtype(), .device = device})
                            .slice(last, 1, roomy[last], 2);
    view.copy_(plain);
    return view.detach();
  }
  return plain;
}

std::vector<Tensor> to_tensors(const Case& c, const std::vector<Array>& x, DType dtype,
                               Layout layout) {
  std::vector<Tensor> tensors;
  for (std::size_t k = 0; k < x.size(); ++k)
    tensors.push_back(to_tensor(x[k], c.operands[k], dtype, layout));
  return tensors;
}

Array to_array(const Tensor& x) { return {x.shape(), x.to_vector<double>()}; }

std::vector<Array> to_arrays(const std::vector<Tensor>& x) {
  std::vector<Array> arrays;
  for (const Tensor& t : x) arrays.push_back(to_array(t));
  return arrays;
}

Tolerance tolerance_of(DType dtype) {
  switch (dtype) {
    case DType::f16: return {1e-3, 1e-5};
    case DType::bf16: return {1.6e-2, 1e-5};
    case DType::f32: return {1.3e-6, 1e-5};
    case DType::boolean:
    case DType::u8:
    case DType::i32:
    case DType::i64:
    case DType::f64: break;
  }
  return {1e-7, 1e-7};
}

std::string difference(const Array& got, const Array& expected, Tolerance tolerance) {
  if (!(got.shape == expected.shape))
    return "shape " + mezzo::str(got.shape) + ", expected " + mezzo::str(expected.shape);
  for (std::int64_t i = 0; i < got.numel(); ++i) {
    const double a = got[i], b = expected[i];
    const bool same = a == b || (std::isnan(a) && std::isnan(b)) ||
                      std::abs(a - b) <= tolerance.atol + tolerance.rtol * std::abs(b);
    if (!same) return mezzo::str("[", i, "] is ", a, ", expected ", b);
  }
  return "";
}

std::string label(const Case& c, std::size_t sample) {
  std::string shapes;
  for (const Shape& s : samples_of(c)[sample]) shapes += " " + mezzo::str(s);
  return c.op + (c.variant.empty() ? "" : " (" + c.variant + ")") + ", sample " +
         mezzo::str(sample) + ":" + shapes;
}

}  // namespace cases
