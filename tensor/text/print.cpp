// Layout of arrays as text: rows in brackets, aligned columns, large arrays summarised. The output
// equals NumPy's in every blank.
#include "print.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <ostream>
#include <vector>

#include "../core/dispatch.h"
#include "../core/half.h"
#include "text.h"

namespace mezzo {

namespace {

// Numbers with the fewest digits that distinguish a value from its neighbours of the same dtype, up
// to a limit.

/** A decimal number: abs(x) = d.ddd * 10^exponent. */
struct Decimal {
  std::string digits;
  int exponent = 0;
};

/** Parses "d.ddde+xx". */
Decimal parse(std::string_view text) {
  const std::size_t e = text.find('e');
  Decimal decimal;
  for (const char c : text.substr(0, e))
    if (c != '.') decimal.digits += c;
  decimal.exponent = std::atoi(std::string(text.substr(e + 1)).c_str());
  return decimal;
}

template <class T> Decimal shortest_standard(T x) {
  char buffer[64];
  const auto end =
      std::to_chars(buffer, buffer + sizeof buffer, x, std::chars_format::scientific).ptr;
  return parse({buffer, static_cast<std::size_t>(end - buffer)});
}

/** Returns the shortest decimal that reads back as the same value, by trial; for the 16-bit
 *  types. */
template <class T> Decimal shortest_by_trial(float x) {
  char buffer[64];
  for (int digits = 0;; ++digits) {
    std::snprintf(buffer, sizeof buffer, "%.*e", digits, static_cast<double>(x));
    if (static_cast<float>(T(std::strtof(buffer, nullptr))) == x) return parse(buffer);
  }
}

Decimal shortest(double x, DType dtype) {
  const double size = std::fabs(x);
  switch (dtype) {
    case DType::f16: return shortest_by_trial<Half>(static_cast<float>(size));
    case DType::bf16: return shortest_by_trial<BFloat16>(static_cast<float>(size));
    case DType::f32: return shortest_standard(static_cast<float>(size));
    case DType::f64:
    case DType::boolean:
    case DType::u8:
    case DType::i32:
    case DType::i64: break;
  }
  return shortest_standard(size);
}

std::string without_trailing_zeros(std::string text) {
  text.erase(text.find_last_not_of('0') + 1);
  return text;
}

std::string formatted(const char* format, int precision, double x) {
  char buffer[512];
  const int n = std::snprintf(buffer, sizeof buffer, format, precision, x);
  return {buffer, static_cast<std::size_t>(n)};
}

const char* sign_of(double x) { return std::signbit(x) ? "-" : ""; }

/** Returns "12.5", "3.", "-0.25": with a point, without trailing zeros, at most `precision` digits
 *  after the point. x is finite. */
std::string positional(double x, DType dtype, int precision) {
  Decimal d = shortest(x, dtype);
  const int count = static_cast<int>(d.digits.size());
  if (count - 1 - d.exponent > precision)
    return without_trailing_zeros(formatted("%#.*f", precision, x));
  const std::size_t before = static_cast<std::size_t>(d.exponent < 0 ? 1 : d.exponent + 1);
  if (d.exponent < 0) d.digits.insert(0, static_cast<std::size_t>(-d.exponent), '0');
  if (d.digits.size() < before)
    d.digits = formatted("%.*f", 0, std::fabs(x));  // integers with all digits
  return without_trailing_zeros(sign_of(x) + d.digits.substr(0, before) + "." +
                                d.digits.substr(before));
}

/** Returns "1.25e-07": one digit before the point, at most `precision` after it, at least two in
 *  the exponent. x is finite. */
std::string scientific(double x, DType dtype, int precision) {
  Decimal d = shortest(x, dtype);
  if (static_cast<int>(d.digits.size()) - 1 > precision)
    d = parse(formatted("%#.*e", precision, std::fabs(x)));
  const std::string digits =
      without_trailing_zeros(d.digits.substr(0, 1) + "." + d.digits.substr(1));
  const std::string exponent = str(std::abs(d.exponent));
  return str(sign_of(x), digits, d.exponent < 0 ? "e-" : "e+", exponent.size() < 2 ? "0" : "",
             exponent);
}

/** Returns a single number with all its digits: "0.1", "100.0", "1e-05", "nan". */
std::string standing_alone(double x, DType dtype) {
  if (std::isnan(x)) return "nan";
  if (std::isinf(x)) return x < 0 ? "-inf" : "inf";
  constexpr int kAll = 400;
  const double size = std::fabs(x);
  if (size == 0 || (size >= 1e-4 && size < 1e16)) {
    const std::string text = positional(x, dtype, kAll);
    return text.back() == '.' ? text + "0" : text;
  }
  std::string text = scientific(x, dtype, kAll);
  const std::size_t point = text.find(".e");
  if (point != std::string::npos) text.erase(point, 1);
  return text;
}

// ---- tensors ---------------------------------------------------------------------------------

/** A tensor's elements on the CPU, and the choice of those that are shown. */
class Shown {
 public:
  Shown(const Tensor& x, const PrintOptions& options)
      : x_(x), edge_(options.edge_items), summarised_(x.numel() > options.threshold) {}

  int rank() const { return x_.dim(); }
  std::int64_t size(int dim) const { return x_.shape()[dim]; }
  DType dtype() const { return x_.dtype(); }

  /** Returns true if the middle of the dimension is left out. */
  bool cut(int dim) const { return summarised_ && size(dim) > 2 * edge_; }
  std::int64_t edge() const { return edge_; }

  double real(std::int64_t offset) const { return read<double>(offset); }
  std::int64_t integer(std::int64_t offset) const { return read<std::int64_t>(offset); }

  /** Calls visit(offset) for every element that is shown. */
  template <class F> void for_each(F&& visit, int dim = 0, std::int64_t offset = 0) const {
    if (dim == rank()) return visit(offset);
    for (std::int64_t i = 0; i < size(dim); ++i) {
      if (cut(dim) && i == edge_) i = size(dim) - edge_;
      if (i < size(dim)) for_each(visit, dim + 1, offset + i * x_.strides()[dim]);
    }
  }

  std::int64_t stride(int dim) const { return x_.strides()[dim]; }

 private:
  template <class T> T read(std::int64_t offset) const {
    return visit_dtype(x_.dtype(), [&]<class E>(std::type_identity<E>) {
      const E value = static_cast<const E*>(x_.raw_data())[offset];
      if constexpr (std::is_same_v<E, Half> || std::is_same_v<E, BFloat16>)
        return static_cast<T>(static_cast<float>(value));
      else
        return static_cast<T>(value);
    });
  }

  const Tensor& x_;
  std::int64_t edge_;
  bool summarised_;
};

std::string padded(std::string text, std::size_t width) {
  if (text.size() < width) text.insert(0, width - text.size(), ' ');
  return text;
}

/** Formats elements as words of equal width. */
class Words {
 public:
  virtual ~Words() = default;
  virtual std::string word(std::int64_t offset) const = 0;
};

class BoolWords final : public Words {
 public:
  explicit BoolWords(const Shown& x) : x_(x) {}
  std::string word(std::int64_t offset) const override {
    return padded(x_.integer(offset) != 0 ? "True" : "False", x_.rank() == 0 ? 0 : 5);
  }

 private:
  const Shown& x_;
};

class IntegerWords final : public Words {
 public:
  explicit IntegerWords(const Shown& x) : x_(x) {
    x.for_each([&](std::int64_t at) { width_ = std::max(width_, str(x.integer(at)).size()); });
  }
  std::string word(std::int64_t offset) const override {
    return padded(str(x_.integer(offset)), width_);
  }

 private:
  const Shown& x_;
  std::size_t width_ = 0;
};

/** Formats all elements as positional or all as scientific, with aligned points. */
class FloatWords final : public Words {
 public:
  FloatWords(const Shown& x, int precision) : x_(x), precision_(precision) {
    choose_notation();
    measure();
  }

  std::string word(std::int64_t offset) const override {
    const double v = x_.real(offset);
    if (!std::isfinite(v)) return padded(standing_alone(v, x_.dtype()), before_ + after_ + 1);
    if (x_.rank() == 0) return standing_alone(v, x_.dtype());
    return scientific_ ? scientific_word(v) : positional_word(v);
  }

 private:
  void choose_notation() {
    double largest = 0, smallest = HUGE_VAL;
    x_.for_each([&](std::int64_t at) {
      const double size = std::fabs(x_.real(at));
      if (!std::isfinite(size) || size == 0) return;
      largest = std::max(largest, size);
      smallest = std::min(smallest, size);
    });
    scientific_ = largest > 0 && (largest >= 1e8 || smallest < 1e-4 || largest / smallest > 1000);
  }

  void measure() {
    std::size_t not_finite = 0;
    x_.for_each([&](std::int64_t at) {
      const double v = x_.real(at);
      if (!std::isfinite(v))
        not_finite = std::max(not_finite, standing_alone(v, x_.dtype()).size());
      else
        measure(v);
    });
    after_ = scientific_ ? fraction_ + 2 + exponent_ : fraction_;
    if (not_finite > before_ + after_ + 1) before_ = not_finite - after_ - 1;
  }

  void measure(double v) {
    const std::string text =
        scientific_ ? scientific(v, x_.dtype(), precision_) : positional(v, x_.dtype(), precision_);
    const std::size_t point = text.find('.'), e = std::min(text.find('e'), text.size());
    before_ = std::max(before_, point);
    fraction_ = std::max(fraction_, e - point - 1);
    if (scientific_) exponent_ = std::max(exponent_, text.size() - e - 2);
  }

  std::string positional_word(double v) const {
    std::string text = positional(v, x_.dtype(), precision_);
    const std::size_t point = text.find('.');
    text.append(after_ - (text.size() - point - 1), ' ');
    return padded(text, before_ + 1 + after_);
  }

  std::string scientific_word(double v) const {
    std::string text = scientific(v, x_.dtype(), precision_);
    const std::size_t point = text.find('.'), e = text.find('e');
    text.insert(e + 2, exponent_ - (text.size() - e - 2), '0');
    text.insert(e, fraction_ - (e - point - 1), '0');
    return padded(text, before_ + 1 + after_);
  }

  const Shown& x_;
  int precision_;
  bool scientific_ = false;
  std::size_t before_ = 0, fraction_ = 0, exponent_ = 0, after_ = 0;  // columns
};

/** Arranges the words in brackets and lines. */
class Layout {
 public:
  Layout(const Shown& x, const Words& words, int line_width)
      : x_(x), words_(words), width_(line_width) {}

  /** Returns the text of dimension `dim` of the elements from `offset` on, including brackets;
   *  lines after the first start with `indent`. */
  std::string text(int dim, std::int64_t offset, const std::string& indent, int width) const {
    if (dim == x_.rank()) return words_.word(offset);
    const bool row = dim == x_.rank() - 1;
    return "[" + (row ? row_text(offset, indent, width) : block_text(dim, offset, indent, width)) +
           "]";
  }
  std::string text() const { return text(0, 0, " ", width_); }

 private:
  std::string row_text(std::int64_t offset, const std::string& indent, int width) const {
    const int dim = x_.rank() - 1;
    const auto columns = static_cast<std::size_t>(std::max(width - 1, 0));
    std::string done, line = indent;
    const auto add = [&](const std::string& word, bool last) {
      if (line.size() + word.size() > columns && line.size() > indent.size()) {
        done += line.substr(0, line.find_last_not_of(' ') + 1) + "\n";
        line = indent;
      }
      line += last ? word : word + " ";
    };
    for_each_shown(dim, [&](std::int64_t i, bool last) {
      add(i < 0 ? "..." : words_.word(offset + i * x_.stride(dim)), last);
    });
    return (done + line).substr(indent.size());
  }

  std::string block_text(int dim, std::int64_t offset, const std::string& indent, int width) const {
    std::string out;
    const std::string separator(static_cast<std::size_t>(x_.rank() - dim - 1), '\n');
    for_each_shown(dim, [&](std::int64_t i, bool last) {
      out += indent;
      out += i < 0 ? "..." : text(dim + 1, offset + i * x_.stride(dim), indent + " ", width - 1);
      if (!last) out += separator;
    });
    return out.substr(indent.size());
  }

  /** Calls visit(index, is last) for the shown indices of a dimension; index -1 represents those
   *  left out. */
  template <class F> void for_each_shown(int dim, F&& visit) const {
    const std::int64_t n = x_.size(dim);
    for (std::int64_t i = 0; i < n; ++i) {
      if (x_.cut(dim) && i == x_.edge()) {
        visit(-1, x_.edge() == 0);
        i = n - x_.edge();
        if (i >= n) return;
      }
      visit(i, i == n - 1);
    }
  }

  const Shown& x_;
  const Words& words_;
  int width_;
};

std::string elements(const Tensor& x, const PrintOptions& options) {
  if (x.numel() == 0) return "[]";
  const Shown shown(x, options);
  if (x.dtype() == DType::boolean)
    return Layout(shown, BoolWords(shown), options.line_width).text();
  if (!is_floating(x.dtype())) return Layout(shown, IntegerWords(shown), options.line_width).text();
  return Layout(shown, FloatWords(shown, options.precision), options.line_width).text();
}

}  // namespace

std::string to_string(const Tensor& x, const PrintOptions& options) {
  if (options.precision < 0 || options.threshold < 0 || options.edge_items < 0 ||
      options.line_width < 0)
    fail<ValueError>(
        "to_string",
        {.what = "an option is negative",
         .got = str("precision ", options.precision, ", threshold ", options.threshold,
                    ", edge_items ", options.edge_items, ", line_width ", options.line_width)});
  if (!x.defined()) return "undefined";
  const CastScope no_casts(nullptr);
  std::string text = elements(x.detach().to(cpu), options);
  if (!options.type) return text;
  text += str(" ", x.dtype(), x.shape());
  if (!(x.device() == cpu)) text += str("@", x.device());
  return text;
}

std::ostream& operator<<(std::ostream& out, const Tensor& x) { return out << to_string(x); }

}  // namespace mezzo
