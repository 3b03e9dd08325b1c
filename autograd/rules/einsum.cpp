// The body of einsum: factors are multiplied from left to right; each product is a batch of matrix products over permuted dimensions.
#include <algorithm>
#include <map>

#include "../../tensor/dispatch.h"
#include "../../tensor/ops/contraction.h"
#include "../../tensor/ops/require.h"
#include "../../tensor/text.h"
#include "../ops/create.h"
#include "../ops/index.h"
#include "../ops/matmul.h"
#include "../ops/operators.h"
#include "../ops/reduce.h"
#include "wide.h"

namespace mezzo::op {

namespace {

// ---- reading the equation ------------------------------------------------------------------------------------------------

/** A dimension's name: the letter, or kEllipsis + its distance from the last dimension that `...` stands for. */
using Label = int;
using Labels = std::vector<Label>;
constexpr Label kEllipsis = 256;
/** In parsed text: `...`, before its number of dimensions is known. */
constexpr Label kDots = 255;

[[noreturn]] void refuse(const std::string& equation, const std::string& what) {
  fail<ValueError>("einsum", {.what = what, .got = str("\"", equation, "\"")});
}

bool contains(const Labels& labels, Label label) {
  return std::find(labels.begin(), labels.end(), label) != labels.end();
}

bool is_letter(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z'); }

Labels parse_term(const std::string& term, const std::string& equation) {
  Labels labels;
  for (std::size_t i = 0; i < term.size(); ++i) {
    if (is_letter(term[i])) {
      labels.push_back(term[i]);
      continue;
    }
    if (term.compare(i, 3, "...") != 0) refuse(equation, str("cannot read '", term[i], "'"));
    if (contains(labels, kDots)) refuse(equation, "a term has more than one ellipsis");
    labels.push_back(kDots);
    i += 2;
  }
  return labels;
}

struct Equation {
  std::vector<Labels> terms;
  Labels output;
  bool has_output = false;
};

Equation parse(const std::string& text) {
  std::string compact;
  for (const char c : text)
    if (c != ' ') compact += c;
  Equation equation;
  const std::size_t arrow = compact.find("->");
  const std::string inputs = compact.substr(0, arrow);
  for (std::size_t begin = 0;;) {
    const std::size_t comma = inputs.find(',', begin);
    equation.terms.push_back(parse_term(inputs.substr(begin, comma - begin), text));
    if (comma == std::string::npos) break;
    begin = comma + 1;
  }
  equation.has_output = arrow != std::string::npos;
  if (equation.has_output) equation.output = parse_term(compact.substr(arrow + 2), text);
  return equation;
}

// ---- labels meet dimensions ----------------------------------------------------------------------------------------------

/** A factor, and what each of its dimensions is called. */
struct Factor {
  Tensor x;
  Labels labels;
};

/** The term's labels with `...` replaced by the `dots` dimensions it stands for. */
Labels without_dots(const Labels& term, int dots) {
  Labels labels;
  for (const Label label : term) {
    if (label != kDots) {
      labels.push_back(label);
      continue;
    }
    for (int i = dots - 1; i >= 0; --i) labels.push_back(kEllipsis + i);
  }
  return labels;
}

int dots_of(const Labels& term, const Tensor& x) {
  const bool has_dots = contains(term, kDots);
  const int letters = static_cast<int>(term.size()) - (has_dots ? 1 : 0);
  if (has_dots ? letters > x.dim() : letters != x.dim())
    fail<ShapeError>("einsum", {.what = "labels do not fit the operand's dimensions",
                                .got = str(letters, " letters for ", x),
                                .expected = has_dots ? "no more than dimensions" : "one per dimension"});
  return x.dim() - letters;
}

std::int64_t position(const Labels& labels, Label label) {
  return std::find(labels.begin(), labels.end(), label) - labels.begin();
}

/** The diagonal of the two dimensions named `label`: the elements where their indices agree. */
Factor diagonal(const Factor& factor, Label label) {
  const std::int64_t first = position(factor.labels, label);
  std::int64_t second = first + 1;
  while (factor.labels[static_cast<std::size_t>(second)] != label) ++second;
  const Tensor& x = factor.x;
  const Tensor places =
      arange(static_cast<double>(x.size(first)), {.dtype = DType::i64, .device = x.device()});
  Factor result{index(x.movedim(second, 0).movedim(first + 1, 0), {places, places}), {label}};
  for (std::size_t i = 0; i < factor.labels.size(); ++i)
    if (static_cast<std::int64_t>(i) != first && static_cast<std::int64_t>(i) != second)
      result.labels.push_back(factor.labels[i]);
  return result;
}

Factor without_repeats(Factor factor) {
  for (std::size_t i = 0; i < factor.labels.size();) {
    const Label label = factor.labels[i];
    if (std::count(factor.labels.begin(), factor.labels.end(), label) < 2) {
      ++i;
      continue;
    }
    factor = diagonal(factor, label);
    i = 0;
  }
  return factor;
}

/** Sizes under one label: equal or 1 between operands, equal within one. */
void require_sizes(Inputs in, const std::vector<Labels>& terms) {
  std::map<Label, std::int64_t> sizes;
  for (std::size_t k = 0; k < terms.size(); ++k) {
    std::map<Label, std::int64_t> own;
    for (std::size_t i = 0; i < terms[k].size(); ++i) {
      const Label label = terms[k][i];
      const std::int64_t size = in[k].shape()[static_cast<std::int64_t>(i)];
      const auto [seen, fresh] = own.emplace(label, size);
      std::int64_t& known = sizes.emplace(label, 1).first->second;
      const bool fits = (fresh || seen->second == size) && (known == 1 || size == 1 || known == size);
      if (!fits)
        fail<ShapeError>("einsum",
                         {.what = label < kDots ? str("sizes under '", static_cast<char>(label), "' differ")
                                                : std::string("sizes under the ellipsis differ"),
                          .got = str(in),
                          .expected = "equal sizes, or 1 in another operand"});
      if (size != 1) known = size;
    }
  }
}

/** The labels of the result, checked against those of the operands. */
Labels output_labels(const Equation& equation, const std::string& text, const std::vector<Labels>& terms,
                     int dots) {
  Labels all;
  for (const Labels& term : terms) all.insert(all.end(), term.begin(), term.end());
  Labels output;
  if (equation.has_output) {
    output = without_dots(equation.output, dots);
    for (const Label label : output) {
      if (std::count(output.begin(), output.end(), label) > 1)
        refuse(text, str("the result has '", static_cast<char>(label), "' twice"));
      if (!contains(all, label))
        refuse(text, str("no operand has the result's '", static_cast<char>(label), "'"));
    }
    return output;
  }
  for (int i = dots - 1; i >= 0; --i) output.push_back(kEllipsis + i);
  for (Label letter = 'A'; letter <= 'z'; ++letter)
    if (std::count(all.begin(), all.end(), letter) == 1) output.push_back(letter);
  return output;
}

// ---- products --------------------------------------------------------------------------------------------------------------

/** Sums over the dimensions that nothing after this asks for. */
Factor summed(const Factor& factor, const Labels& kept) {
  Factor result{factor.x, {}};
  std::vector<std::int64_t> dims;
  for (std::size_t i = 0; i < factor.labels.size(); ++i)
    if (contains(kept, factor.labels[i]))
      result.labels.push_back(factor.labels[i]);
    else
      dims.push_back(static_cast<std::int64_t>(i));
  if (!dims.empty()) result.x = sum(factor.x, dims);
  return result;
}

/** Drops dimensions of size 1 that meet longer ones in the other factor: those broadcast. */
Factor without_units(const Factor& factor, const Factor& other) {
  Factor result{factor.x, {}};
  for (std::size_t i = 0; i < factor.labels.size(); ++i) {
    const Label label = factor.labels[i];
    const auto dim = static_cast<std::int64_t>(result.labels.size());
    const bool drop = contains(other.labels, label) && result.x.size(dim) == 1 &&
                      other.x.size(position(other.labels, label)) != 1;
    if (drop)
      result.x = result.x.squeeze(dim);
    else
      result.labels.push_back(label);
  }
  return result;
}

/** Groups of a product's dimensions: in both factors and kept, in both and summed, in one alone. */
struct Groups {
  Labels batch, inner, left, right;

  Groups(const Factor& a, const Factor& b, const Labels& kept) {
    for (const Label label : a.labels) {
      if (!contains(b.labels, label))
        left.push_back(label);
      else
        (contains(kept, label) ? batch : inner).push_back(label);
    }
    for (const Label label : b.labels)
      if (!contains(a.labels, label)) right.push_back(label);
  }
};

/** The sizes of the named dimensions. */
Shape sizes_of(const Factor& factor, const Labels& labels) {
  Shape sizes;
  for (const Label label : labels) sizes.push_back(factor.x.size(position(factor.labels, label)));
  return sizes;
}

std::int64_t count_of(const Shape& sizes) {
  std::int64_t n = 1;
  for (const std::int64_t size : sizes) n *= size;
  return n;
}

/** The factor with its dimensions in the order of three groups, each group one dimension. */
Tensor grouped(const Factor& factor, const Labels& first, const Labels& second, const Labels& third) {
  Shape order, sizes;
  for (const Labels* group : {&first, &second, &third}) {
    for (const Label label : *group) order.push_back(position(factor.labels, label));
    sizes.push_back(count_of(sizes_of(factor, *group)));
  }
  return factor.x.permute(order).reshape(sizes);
}

Factor multiplied(const Factor& a, const Factor& b, const Labels& kept) {
  const Groups groups(a, b, kept);
  const Tensor x = grouped(a, groups.batch, groups.left, groups.inner);  // [batch, left, inner]
  Shape shape = sizes_of(a, groups.batch);
  for (const std::int64_t size : sizes_of(a, groups.left)) shape.push_back(size);
  for (const std::int64_t size : sizes_of(b, groups.right)) shape.push_back(size);
  Tensor product;
  if (groups.inner.empty()) {
    product = x * grouped(b, groups.batch, groups.inner, groups.right);
  } else if (groups.left.empty() && groups.right.empty()) {
    product = vecdot(x, grouped(b, groups.batch, groups.right, groups.inner));
  } else if (groups.batch.empty()) {
    const Tensor y = grouped(b, groups.batch, groups.inner, groups.right);
    product = mm(x.squeeze(0), y.squeeze(0));
  } else {
    product = bmm(x, grouped(b, groups.batch, groups.inner, groups.right));
  }
  Factor result{product.reshape(shape), groups.batch};
  for (const Labels* group : {&groups.left, &groups.right})
    result.labels.insert(result.labels.end(), group->begin(), group->end());
  return result;
}

/** What must survive the product of factors 0..k: the labels of later factors and of the result. */
Labels kept_after(const std::vector<Factor>& factors, std::size_t k, const Labels& output) {
  Labels kept = output;
  for (std::size_t i = k + 1; i < factors.size(); ++i)
    kept.insert(kept.end(), factors[i].labels.begin(), factors[i].labels.end());
  return kept;
}

/** The product of all factors with the dimensions of `output`, in that order. */
Tensor contracted(const std::vector<Factor>& factors, const Labels& output) {
  Factor product = factors[0];
  for (std::size_t k = 1; k < factors.size(); ++k) {
    const Labels kept = kept_after(factors, k, output);
    const Factor a = without_units(product, factors[k]), b = without_units(factors[k], product);
    Labels for_a = kept, for_b = kept;
    for_a.insert(for_a.end(), b.labels.begin(), b.labels.end());
    for_b.insert(for_b.end(), a.labels.begin(), a.labels.end());
    product = multiplied(summed(a, for_a), summed(b, for_b), kept);
  }
  product = summed(product, output);
  Shape order;
  for (const Label label : output) order.push_back(position(product.labels, label));
  return product.x.permute(order);
}

/** True where the whole is one product of two factors, which rounds once by itself. */
bool is_one_product(const std::vector<Factor>& factors, const Labels& output) {
  if (factors.size() != 2) return false;
  const auto stays = [&](const Factor& a, const Factor& b) {
    for (const Label label : a.labels)
      if (!contains(output, label) && !contains(without_units(b, a).labels, label)) return false;
    return true;
  };
  return stays(factors[0], factors[1]) && stays(factors[1], factors[0]);
}

void require_operands(Inputs in) {
  if (in.empty())
    fail<ValueError>("einsum", {.what = "the list of operands is empty", .expected = "one or more"});
  for (const Tensor& x : in)
    if (!x.defined())
      fail<ValueError>("einsum",
                       {.what = str("operand ", &x - in.data(), " is undefined"), .expected = "a tensor"});
}

}  // namespace

std::vector<Tensor> Einsum::composite(Inputs in, const Attrs& attrs) {
  require_operands(in);
  const Equation equation = parse(attrs.equation);
  if (equation.terms.size() != in.size())
    fail<ValueError>("einsum", {.what = "terms and operands differ in number",
                                .got = str("\"", attrs.equation, "\" and ", in.size(), " operands"),
                                .expected = str(equation.terms.size())});
  const DType dtype = require_one_floating_dtype("einsum", in);
  std::vector<Labels> terms;
  int most_dots = 0;
  for (std::size_t k = 0; k < in.size(); ++k) {
    const int dots = dots_of(equation.terms[k], in[k]);
    most_dots = std::max(most_dots, dots);
    terms.push_back(without_dots(equation.terms[k], dots));
  }
  require_sizes(in, terms);
  const Labels output = output_labels(equation, attrs.equation, terms, most_dots);
  if (output.size() > static_cast<std::size_t>(Shape::kMaxRank))
    fail<ShapeError>("einsum", {.what = "the result has too many dimensions",
                                .got = str(output.size()),
                                .expected = str("at most ", Shape::kMaxRank)});
  std::vector<Factor> factors;
  for (std::size_t k = 0; k < in.size(); ++k) factors.push_back(without_repeats({in[k], terms[k]}));
  if (!is_one_product(factors, output))
    for (Factor& factor : factors) factor.x = wide(factor.x);
  return {contracted(factors, output).to(dtype)};
}

}  // namespace mezzo::op
