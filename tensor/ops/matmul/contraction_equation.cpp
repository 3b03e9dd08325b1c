#include "contraction_equation.h"

#include <map>

#include "../../text/text.h"

namespace mezzo {

namespace {

// ---- reading ------------------------------------------------------------------------------------

/** The label of `...` in a parsed equation, before its number of dimensions is known. */
constexpr Label kDots = 255;

[[noreturn]] void refuse(const std::string& equation, const std::string& what) {
  fail<ValueError>("einsum", {.what = what, .got = str("\"", equation, "\"")});
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

// ---- labels of dimensions -----------------------------------------------------------------------

/** Returns the term's labels with `...` replaced by the labels of `dots` dimensions. */
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
    fail<ShapeError>("einsum",
                     {.what = "labels do not fit the operand's dimensions",
                      .got = str(letters, " letters for ", x),
                      .expected = has_dots ? "no more than dimensions" : "one per dimension"});
  return x.dim() - letters;
}

/** Throws ShapeError unless the sizes under one label are equal or 1 in different operands, and
 *  equal within one operand. */
void require_sizes(Inputs in, const std::vector<Labels>& terms) {
  std::map<Label, std::int64_t> sizes;
  for (std::size_t k = 0; k < terms.size(); ++k) {
    std::map<Label, std::int64_t> own;
    for (std::size_t i = 0; i < terms[k].size(); ++i) {
      const Label label = terms[k][i];
      const std::int64_t size = in[k].shape()[static_cast<std::int64_t>(i)];
      const auto [seen, fresh] = own.emplace(label, size);
      std::int64_t& known = sizes.emplace(label, 1).first->second;
      const bool fits =
          (fresh || seen->second == size) && (known == 1 || size == 1 || known == size);
      if (!fits)
        fail<ShapeError>(
            "einsum",
            {.what = label < kDots ? str("sizes under '", static_cast<char>(label), "' differ")
                                   : std::string("sizes under the ellipsis differ"),
             .got = str(in),
             .expected = "equal sizes, or 1 in another operand"});
      if (size != 1) known = size;
    }
  }
}

/** Returns the labels of the result, checked against those of the operands. */
Labels output_labels(const Equation& equation, const std::string& text,
                     const std::vector<Labels>& terms, int dots) {
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

void require_operands(Inputs in) {
  if (in.empty())
    fail<ValueError>("einsum",
                     {.what = "the list of operands is empty", .expected = "one or more"});
  for (const Tensor& x : in)
    if (!x.defined())
      fail<ValueError>("einsum", {.what = str("operand ", &x - in.data(), " is undefined"),
                                  .expected = "a tensor"});
}

}  // namespace

LabelledOperands label_operands(const std::string& text, Inputs in) {
  require_operands(in);
  const Equation equation = parse(text);
  if (equation.terms.size() != in.size())
    fail<ValueError>("einsum", {.what = "terms and operands differ in number",
                                .got = str("\"", text, "\" and ", in.size(), " operands"),
                                .expected = str(equation.terms.size())});
  LabelledOperands labels;
  int most_dots = 0;
  for (std::size_t k = 0; k < in.size(); ++k) {
    const int dots = dots_of(equation.terms[k], in[k]);
    most_dots = std::max(most_dots, dots);
    labels.terms.push_back(without_dots(equation.terms[k], dots));
  }
  require_sizes(in, labels.terms);
  labels.output = output_labels(equation, text, labels.terms, most_dots);
  if (labels.output.size() > static_cast<std::size_t>(Shape::kMaxRank))
    fail<ShapeError>("einsum", {.what = "the result has too many dimensions",
                                .got = str(labels.output.size()),
                                .expected = str("at most ", Shape::kMaxRank)});
  return labels;
}

}  // namespace mezzo
